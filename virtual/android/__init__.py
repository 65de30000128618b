"""The operating system inside a virtual device: adbd, logd, properties and the commands that Android adds to toybox."""
