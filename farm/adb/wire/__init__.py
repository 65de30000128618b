"""The adb transport protocol, device side: packets, streams, and the services that every adbd has (shell, exec, sync)."""
