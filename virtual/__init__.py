"""Virtual devices: phones and boards that speak the real adb protocol, for those who have none at hand."""
