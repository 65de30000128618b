"""The adb transport protocol, device side: packets, streams, and what every adbd serves (shell, exec, sync)."""
