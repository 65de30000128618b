"""Incidents as a fleet of many vendors' devices would print them, made from labelled ones."""
