"""docker-compose.yml follows the Compose Specification, and what its services start works on the machine itself.

Nothing here runs under Docker.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from farm.domain.inventory import Inventory, parse
from farm.store import tables
from farm.store.db import Database
from tests.postgres import PostgresServer, program
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
    return found


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def test_the_file_follows_the_compose_specification() -> None:
    # The library knows YAML's merge keys no more than the specification does: they are merged by the YAML reader first.
    plain = yaml.safe_dump(yaml.safe_load(FILE.read_text()))
    compose = PyCompose.from_yaml(plain)
    assert sorted(compose.service_names()) == ["agent", "postgres", "server"]


def test_a_mistake_in_such_a_file_would_be_found() -> None:
    wrong = yaml.safe_load(FILE.read_text())
    wrong["services"]["server"]["comand"] = ["farm"]
    with pytest.raises(ValueError, match="comand"):
        PyCompose.from_yaml(yaml.safe_dump(wrong))


def test_every_volume_dependency_and_password_is_accounted_for(services: dict[str, Any]) -> None:
    volumes = yaml.safe_load(FILE.read_text())["volumes"]
    for service in services.values():
        for volume in service.get("volumes", []):
            name = volume.partition(":")[0]
            assert name in volumes or name.startswith(("/", "./"))
        assert set(service.get("depends_on", {})) <= set(services)
    text = FILE.read_text()
    assert "PASSWORD: farm" not in text  # no default secret: it must be chosen
    assert text.count("${FARM_DB_PASSWORD:?") == 2


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_the_agents_host_is_one_that_its_inventory_speaks_for(services: dict[str, Any]) -> None:
    agent = services["agent"]
    inside = option(agent["command"], "--inventory")
    [outside] = [volume.split(":")[0] for volume in agent["volumes"] if volume.split(":")[1] == inside]
    inventory = parse((ROOT / outside).read_text())
    assert isinstance(inventory, Inventory)
    host = option(agent["command"], "--host")
    assert host in inventory.hosts, f"{outside} has no host {host!r}: its entry would speak for nobody"
    assert {device.host for device in inventory.devices} <= {None, *inventory.hosts}


def test_the_commands_of_server_and_agent_work_together_on_this_machine(
    services: dict[str, Any],
    postgres_server: PostgresServer,
    tmp_path: Path,
    started: list[subprocess.Popen[str]],
) -> None:
    database = postgres_server.create()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])

    def run(name: str) -> subprocess.Popen[str]:
        """The service as the file says, with this machine's places and a free port."""
        service = services[name]
        told = {**service["environment"], "FARM_DATABASE_URL": database, "FARM_STATE": str(tmp_path / name)}
        told["FARM_ARTIFACTS"] = str(tmp_path / "artifacts")
        if "FARM_SERVER_URL" in told:
            told["FARM_SERVER_URL"] = told["FARM_SERVER_URL"].replace("//server:8765", f"//127.0.0.1:{port}")
        command = [
            {"8765": port, "0.0.0.0": "127.0.0.1", "/etc/farm/devices.yaml": str(tmp_path / "devices.yaml")}.get(w, w)
            for w in service["command"]
        ]
        environment = {**os.environ, **told, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        with (tmp_path / f"{name}.log").open("w") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path, text=True)
        started.append(process)
        return process

    def says(name: str, process: subprocess.Popen[str], words: str) -> bool:
        text = (tmp_path / f"{name}.log").read_text()
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended with {process.returncode}: {text[-2000:]}")
        return words in text

    agent = run("agent")  # whoever is first waits for the other
    server = run("server")
    eventually(lambda: says("server", server, "The farm is up"), what="the server is up")
    host = option(services["agent"]["command"], "--host")
    eventually(lambda: says("agent", agent, f"The agent of host {host} is up"), what="the agent is up")
    eventually(lambda: says("server", server, f"the agent of {host}"), what="the agent's channel")
    check = [word.replace("8765", port) for word in services["server"]["healthcheck"]["test"][1:]]
    assert subprocess.run([sys.executable, *check[1:]], timeout=60).returncode == 0
    db = Database(database)
    with db.read() as session:
        assert session.get_one(tables.Host, host).lost_at is None
    db.close()


def test_the_database_is_started_and_asked_as_the_file_says(
    services: dict[str, Any], postgres_server: PostgresServer
) -> None:
    """The tests' server has its folder and port from us; options and health check are the file's."""
    command = services["postgres"]["command"]
    assert command[0] == "postgres"
    with postgres_server.connect() as connection:
        assert connection.execute("SHOW max_connections").fetchone() == (command[2].partition("=")[2],)
    check = services["postgres"]["healthcheck"]["test"][1:]
    words = [program(check[0]), *check[1:], "-h", postgres_server.address, "-p", str(postgres_server.port)]
    assert subprocess.run(words, capture_output=True, timeout=60).returncode == 0
