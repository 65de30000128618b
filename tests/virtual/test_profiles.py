"""Profiles: what comes with the project holds, and what is wrong is refused where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtual import profiles
from virtual.sysfs import cpuinfo, meminfo


@pytest.mark.parametrize("name", profiles.names())
def test_a_built_in_profile_survives_the_way_into_its_device(name: str) -> None:
    profile = profiles.load(name)
    assert profiles.from_json(profiles.to_json(profile)) == profile


def test_the_three_chips_are_what_they_are() -> None:
    pixel, board, phone = (profiles.load(name) for name in ("pixel-8-pro", "rk3568", "dimensity-9300"))
    assert (pixel.properties["ro.soc.model"], pixel.properties["ro.board.platform"]) == ("Tensor G3", "zuma")
    assert [zone.type for zone in pixel.thermal.zones][:4] == ["BIG", "MID", "LITTLE", "G3D"]
    assert (board.battery, board.screen) == (None, None)
    assert [zone.type for zone in board.thermal.zones] == ["soc-thermal", "gpu-thermal"]
    assert phone.properties["ro.board.platform"] == "mt6989"
    assert sum(len(cluster.cores) for cluster in pixel.cpu.clusters) == 9


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("capacity: 0.8", "capcity: 0.8", r":\d+: unknown key 'capcity' in profile.cpu; did you mean 'capacity'\?"),
        ("capacity: 0.8", "capacity: fast", r":\d+: profile.cpu.capacity must be float, not 'fast'"),
        ("capacity: 0.8", "capacity: 0", "must be 0.05 to 256"),
        ("  source: soc", "  source: die", "no node 'die'; nodes: board, soc"),
        ("  ambient_c: 24\n", "", r":\d+: profile.thermal lacks ambient_c"),
        ("cores: [0, 1, 2, 3]", "cores: 4", r":\d+: profile.cpu.clusters\[0\].cores must be a list"),
        ("name: rk3568\n", "name: [\n", "not YAML"),
    ],
)
def test_a_wrong_profile_is_refused_with_file_line_and_suggestion(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    text = (profiles.FOLDER / "rk3568.yaml").read_text()
    assert old in text
    path = tmp_path / "wrong.yaml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(profiles.ProfileError, match=complaint) as caught:
        profiles.load(str(path))
    assert str(path) in str(caught.value)


def test_a_device_does_not_know_where_it_throttles() -> None:
    inside = profiles.from_json(profiles.to_json(profiles.without_trips(profiles.load("pixel-8-pro"))))
    assert inside.thermal.governor.trips == []
    assert inside.thermal.status_thresholds_c == []
    assert inside.thermal.zones


def test_an_unknown_profile_names_the_known_ones() -> None:
    with pytest.raises(profiles.ProfileError, match="dimensity-9300, pixel-8-pro, rk3568"):
        profiles.load("pixel-9")


def test_memory_never_shows_less_than_nothing_and_keeps_its_size() -> None:
    profile = profiles.load("rk3568")
    full, empty = meminfo(profile, 10**9), meminfo(profile, 0)
    assert "MemAvailable:          0 kB" in full
    assert len(meminfo(profile, 123456)) == len(empty)
    assert "virtual RK3568 board" in cpuinfo(profile)
