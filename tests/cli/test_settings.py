"""Settings: flags over environment over defaults; the adb server's port is chosen once per state folder."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from farm.settings import ADB_PORTS, SettingsError, choose_adb_port, load, port_is_free


def test_a_flag_goes_before_the_environment_and_that_before_the_default(tmp_path: Path) -> None:
    assert load({}).port == 8765
    assert load({"FARM_PORT": "1234"}).port == 1234
    assert load({"FARM_PORT": "1234"}, port=0).port == 0
    assert load({"FARM_STATE": "/a"}, state=tmp_path).state == tmp_path
    assert load({"FARM_STATE": "here"}).state.is_absolute()
    assert load({}, state=tmp_path).database == f"sqlite:///{tmp_path}/farm.sqlite"
    assert load({"FARM_DATABASE_URL": "postgresql://x"}).database == "postgresql://x"


@pytest.mark.parametrize("port", ["-1", "65536", "http", "1.5"])
def test_a_port_that_cannot_be_is_named_with_its_setting(port: str) -> None:
    with pytest.raises(SettingsError, match="FARM_PORT"):
        load({"FARM_PORT": port})


def test_the_port_of_the_adb_server_is_kept(tmp_path: Path) -> None:
    settings = load({}, state=tmp_path)
    first = choose_adb_port(settings)
    assert first in ADB_PORTS
    with socket.socket() as server:
        server.bind(("127.0.0.1", first))
        server.listen()
        assert choose_adb_port(settings) == first
        assert not port_is_free(first)
    (tmp_path / "adb" / "port").write_text("nonsense")
    assert choose_adb_port(settings) in ADB_PORTS
    assert choose_adb_port(load({"FARM_ADB_PORT": "6000"}, state=tmp_path)) == 6000


def test_two_farms_choose_different_ports_even_before_either_listens(tmp_path: Path) -> None:
    ports = {choose_adb_port(load({}, state=tmp_path / str(number))) for number in range(8)}
    assert len(ports) >= 7  # the same one twice is as likely as a hash collision
