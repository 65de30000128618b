"""Runs a suite pack against leased devices: pytest plugin, fixtures, engine adapters, journal."""
