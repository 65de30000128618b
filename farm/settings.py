"""Where this farm keeps its state and where it listens: flags over environment over defaults.

| variable          | what                                                          | default            |
|-------------------|---------------------------------------------------------------|--------------------|
| FARM_STATE        | state folder: database, artifacts, attempts, locks, keys      | ./.farm            |
| FARM_HOST         | address that the server listens on                            | 127.0.0.1          |
| FARM_PORT         | port that the server listens on; 0: any free one              | 8765               |
| FARM_DATABASE_URL | SQLAlchemy URL of the database                                | SQLite in the state folder |
| FARM_INVENTORY    | the inventory file                                            | ./devices.yaml     |
| FARM_ARTIFACTS    | where artifacts are kept: a folder or a URL (file://, s3://)  | in the state folder |
| FARM_SERVER_URL   | address at which agents reach this server                     | the one it listens on |
| FARM_SERVERS      | servers that the agent tries, separated by commas             | those in the database |
| FARM_HOST_NAME    | name of this host in the inventory                            | local              |
| FARM_ADB_PORT     | port of the farm's own adb server                             | a free one, then kept |
| FARM_LOCKS        | folder of the locks that every farm and desk of one user shares | /tmp/farm-locks-UID |
| FARM_PUBLIC_URL   | address of the pages in a browser, behind a proxy             | the one asked for  |
| FARM_OIDC_…       | login through an identity provider: `farm.oidc_settings`      | none               |

Standard library only: the command line reads the same settings without paying for the server's imports.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from farm.oidc_settings import Oidc, load_oidc

DEFAULT_PORT = 8765
#: Where the farm's own adb server is looked for a free port; 5037 belongs to the desk, 5554-5585 to emulators. Each
#: state folder begins at another place, so that two farms that start together do not take one server for their own.
ADB_PORTS = range(20037, 28037)
#: Stores of artifacts that outlive the process and are the same from every host.
ARTIFACT_SCHEMES = ("file", "s3", "gs", "abfs", "sftp")

_HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SettingsError(ValueError):
    """A setting that cannot be: says which, what it is and what it should be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One farm on one host. `state` is absolute."""

    state: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    database_url: str = ""
    inventory: Path = Path("devices.yaml")
    host_name: str = "local"
    adb_port: int = 0  # 0: `choose_adb_port` finds one and the state folder remembers it
    artifacts_url: str = ""
    server_url: str = ""
    servers: tuple[str, ...] = ()
    oidc: Oidc | None = None
    public_url: str = ""

    @property
    def database(self) -> str:
        """The database's URL; SQLite in the state folder unless another is named."""
        return self.database_url or f"sqlite:///{self.state / 'farm.sqlite'}"

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a file of this machine: then one process does everything."""
        return self.database.startswith("sqlite")

    @property
    def artifacts(self) -> str:
        """Folder or URL of the artifact store, the same for every host of the farm."""
        return self.artifacts_url or str(self.state / "artifacts")

    @property
    def server_file(self) -> Path:
        """`{"pid", "start_time", "url"}` of the running server; removed when it stops."""
        return self.state / "server.json"

    @property
    def token_file(self) -> Path:
        """The local command line's token, readable by its owner alone."""
        return self.state / "cli-token"

    @property
    def log_file(self) -> Path:
        return self.state / "server.log"


def load(
    environ: Mapping[str, str] | None = None,
    *,
    state: str | Path | None = None,
    host: str | None = None,
    port: int | None = None,
    inventory: str | Path | None = None,
    host_name: str | None = None,
    servers: Sequence[str] = (),
) -> Settings:
    """Settings from flags (the arguments), then the environment, then the defaults. Raises SettingsError."""
    env = os.environ if environ is None else environ
    try:
        oidc = load_oidc(env)
    except ValueError as wrong:
        raise SettingsError(str(wrong)) from None
    return Settings(
        state=Path(state or env.get("FARM_STATE") or ".farm").expanduser().absolute(),
        host=host or env.get("FARM_HOST") or "127.0.0.1",
        port=_port("--port", port) if port is not None else _port("FARM_PORT", env.get("FARM_PORT"), DEFAULT_PORT),
        database_url=env.get("FARM_DATABASE_URL", ""),
        inventory=Path(inventory or env.get("FARM_INVENTORY") or "devices.yaml").expanduser().absolute(),
        host_name=_host_name(host_name or env.get("FARM_HOST_NAME") or "local"),
        adb_port=_port("FARM_ADB_PORT", env.get("FARM_ADB_PORT"), 0),
        artifacts_url=_artifacts(env.get("FARM_ARTIFACTS", "")),
        server_url=_server(env["FARM_SERVER_URL"]) if env.get("FARM_SERVER_URL") else "",
        servers=tuple(_server(one) for one in servers or env.get("FARM_SERVERS", "").split(",") if one.strip()),
        oidc=oidc,
        public_url=env.get("FARM_PUBLIC_URL", "").rstrip("/"),
    )


def refuse_sqlite(settings: Settings, command: str) -> None:
    """Raises SettingsError: a farm of several processes needs a database that all of them reach."""
    if settings.is_sqlite:
        raise SettingsError(
            f"`{command}` is for a farm of several processes, which meet on PostgreSQL: set "
            "FARM_DATABASE_URL=postgresql+psycopg://USER:PASSWORD@HOST/DATABASE, or run the whole farm of one machine "
            "with `farm up`"
        )


def locks_dir(environ: Mapping[str, str] | None = None) -> Path:
    """The folder of the locks of devices and CPUs: one per machine and user, made when it is not there.

    They protect the machine and not a farm, so they do not lie in a state folder; and not in XDG_RUNTIME_DIR, which a
    farm that is started as a service lacks and its desk has. Raises SettingsError where the folder is not the user's
    own: whoever can write there decides who gets a device.
    """
    env = os.environ if environ is None else environ
    folder = Path(env.get("FARM_LOCKS") or f"/tmp/farm-locks-{os.getuid()}").expanduser().absolute()
    remedy = "remove it, or name another folder in FARM_LOCKS"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            raise SettingsError(f"{folder} (the locks of this machine) is no folder of yours: {remedy}")
        if status.st_mode & 0o022:
            raise SettingsError(f"{folder} (the locks of this machine) can be written by others: {remedy}")
    except OSError as error:
        raise SettingsError(f"{folder} (the locks of this machine): {error.strerror}: {remedy}") from error
    return folder


def _host_name(name: str) -> str:
    if not _HOST_NAME.fullmatch(name):
        raise SettingsError(f"the host name {name[:120]!r} cannot be: letters, digits, '.', '_' and '-', at most 100")
    return name


def _artifacts(place: str) -> str:
    """A folder becomes absolute; of URLs only those that other hosts and the next start find again."""
    scheme, sign, _ = place.partition("://")
    if not sign:
        return str(Path(place).expanduser().absolute()) if place else ""
    if scheme not in ARTIFACT_SCHEMES:
        known = ", ".join(f"{s}://" for s in ARTIFACT_SCHEMES)
        raise SettingsError(f"FARM_ARTIFACTS is {place!r}: give a folder, or a URL that begins with one of {known}")
    return place


def _server(url: str) -> str:
    url = url.strip().rstrip("/")
    if not url.startswith(("http://", "https://")):
        raise SettingsError(f"the server's address is {url!r}: give one like http://farm.example.com:8765")
    return url


def _port(name: str, value: object, default: int = 0) -> int:
    if value is None or value == "":
        return default
    try:
        port = int(str(value))
    except ValueError:
        port = -1
    if not 0 <= port <= 65535:
        raise SettingsError(f"{name} is {value!r}: give a port number from 0 to 65535")
    return port


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether nothing listens on `host:port` (it could be bound right now)."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def choose_adb_port(settings: Settings) -> int:
    """The port of this farm's own adb server.

    Named in the settings, or the one that the state folder remembers (a server that outlived the farm, and runners that
    are still attached to it, are found again), or the first free one, which is then remembered.
    """
    if settings.adb_port:
        return settings.adb_port
    remembered = settings.state / "adb" / "port"
    try:
        return _port(str(remembered), remembered.read_text().strip()) or _remember(remembered)
    except (OSError, SettingsError):
        return _remember(remembered)


def _remember(path: Path) -> int:
    first = zlib.crc32(os.fsencode(path))
    for step in range(200):
        port = ADB_PORTS[(first + step) % len(ADB_PORTS)]
        if port_is_free(port):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{port}\n")
            return port
    raise SettingsError(
        f"no free port for the adb server found in {ADB_PORTS.start}-{ADB_PORTS.stop - 1}: name one in FARM_ADB_PORT"
    )
