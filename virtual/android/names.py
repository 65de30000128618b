"""Names of the commands that are ours; apart, so that a start does not import the whole operating system."""

SERVICE_NAMES = (
    "am", "cmd", "debuggerd", "dmesg", "dumpsys", "getprop", "input", "log", "logcat", "pm", "reboot", "screencap",
    "setprop", "settings", "svc", "uptime", "wm",
)  # fmt: skip
