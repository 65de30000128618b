"""The tokens that `farm login` keeps: one per server, in a file that its owner alone can read.

The file is FARM_CREDENTIALS, or `farm/credentials.json` below XDG_CONFIG_HOME (`~/.config`):

    {"format": 1, "current": "https://farm.example.com", "tokens": {"https://farm.example.com": "farm_…"}}

`current` is the server that was logged in to last; commands talk to it where no other is named and none runs here.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from farm.cli.errors import CliError
from farm.domain.outcomes import ExitCode

FORMAT = 1
MAX_BYTES = 1024 * 1024


@dataclass(slots=True)
class Credentials:
    """What the file holds; empty when there is none."""

    path: Path
    current: str | None = None
    tokens: dict[str, str] = field(default_factory=dict)

    def token(self, url: str) -> str | None:
        return self.tokens.get(url)

    def keep(self, url: str, token: str) -> None:
        """Keep the token and make its server the current one."""
        self.tokens[url] = token
        self.current = url
        self._write()

    def forget(self, url: str) -> bool:
        """Whether there was one to forget."""
        known = self.tokens.pop(url, None) is not None
        if self.current == url:
            self.current = None
        if known:
            self._write()
        return known

    def _write(self) -> None:
        """Replaced as a whole, and readable by its owner alone from the first moment on."""
        part = self.path.with_suffix(f".{os.getpid()}.part")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                json.dump({"format": FORMAT, "current": self.current, "tokens": self.tokens}, file, indent=2)
                file.write("\n")
            part.replace(self.path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise CliError(
                f"the token cannot be kept in {self.path}: {error.strerror}", "name another file in FARM_CREDENTIALS"
            ) from None


def load_credentials(environ: Mapping[str, str] | None = None) -> Credentials:
    """What was kept. Raises CliError where the file cannot be believed."""
    env = os.environ if environ is None else environ
    config = env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "~").expanduser() / ".config"
    path = Path(env.get("FARM_CREDENTIALS") or Path(config) / "farm" / "credentials.json").expanduser()
    try:
        with path.open() as file:
            status = os.fstat(file.fileno())
            if stat.S_IMODE(status.st_mode) & 0o077:
                raise CliError(f"{path} holds tokens and can be read by others", f"chmod 600 {path}", ExitCode.REFUSED)
            data = json.loads(file.read(MAX_BYTES))
        tokens = {str(url): str(token) for url, token in data["tokens"].items()}
        current = data.get("current")
    except FileNotFoundError:
        return Credentials(path)
    except OSError as error:
        raise CliError(f"{path} cannot be read: {error.strerror}", "`farm login --url URL` makes it anew") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise CliError(f"{path} is no file of tokens", f"remove it, then `farm login --url URL`: {path}") from None
    return Credentials(path, current if current in tokens else None, tokens)
