"""Serves a leased device to its holder: adb over TCP and the live channel."""
