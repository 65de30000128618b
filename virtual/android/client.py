"""What every command of ours in /system/bin is: hands its arguments to the system and prints what comes back.

The name it was called by is the service. Frames of the answer: kind (1 byte: 1 stdout, 2 stderr, 3 exit), big-endian
length (4 bytes), data. Low-level modules only: this starts often.
"""

import posix
import sys
from _socket import AF_UNIX, SOCK_STREAM, socket


def main() -> None:
    """Runs one command."""
    connection = socket(AF_UNIX, SOCK_STREAM)
    try:
        connection.connect("/dev/socket/services")
    except OSError:
        posix.write(2, b"cannot reach the system: it is not up\n")
        posix._exit(1)
    words = [
        sys.argv[0].rpartition("/")[2],
        posix.getcwd(),
        posix.environ.get(b"ANDROID_LOG_TAGS", b"").decode(),
        *sys.argv[1:],
    ]
    data = b"\0".join(word.encode("utf-8", "surrogateescape") for word in words)
    connection.sendall(len(data).to_bytes(4, "big") + data)
    code = 1
    while head := receive(connection, 5):
        kind, body = head[0], receive(connection, int.from_bytes(head[1:], "big"))
        if kind == 3:
            code = body[0]
            break
        while body:
            try:
                body = body[posix.write(kind, body) :]
            except BrokenPipeError:
                posix._exit(141)
    posix._exit(code)


def receive(connection: socket, count: int) -> bytes:
    """Exactly `count` bytes, or fewer at the end."""
    parts = b""
    while len(parts) < count:
        part = connection.recv(count - len(parts))
        if not part:
            return b""
        parts += part
    return parts


if __name__ == "__main__":
    main()
