"""What the README shows is true: its commands are there and its files are read without an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str = "") -> Iterator[str]:
    return iter(re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL))


def yaml_with(key: str) -> str:
    """The one YAML example that has this key at its top."""
    [found] = [block for block in blocks("yaml") if re.search(rf"^{key}:", block, re.MULTILINE)]
    return found


def test_the_inventory_of_the_readme_is_a_good_one() -> None:
    from farm.domain.inventory import Inventory, parse

    inventory = parse(yaml_with("devices"))
    assert isinstance(inventory, Inventory), inventory
    assert [device.type for device in inventory.devices] == ["pixel-8-pro"]


def test_the_manifests_of_the_readme_are_good_ones() -> None:
    from farm.domain.bundles import read_bundle
    from farm.domain.packs import read_pack

    assert read_bundle(yaml_with("adapter"))["adapter"] == "llama-bench"
    assert list(read_pack(yaml_with("suites"))["suites"]) == ["accuracy"]


def test_the_commands_of_the_readme_are_commands_of_the_farm() -> None:
    from farm.cli.main import COMMANDS

    shown = {line.split()[1] for block in blocks() for line in block.splitlines() if line.startswith("farm ")}
    shown |= set(re.findall(r"`farm ([a-z-]+)", README))
    assert {"up", "devices", "run", "show", "bundle"} <= shown
    assert not shown - set(COMMANDS)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^):#]+)\)", README))))
def test_the_links_of_the_readme_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_selectors_of_the_readme_can_be_read() -> None:
    from farm.domain.selectors import parse

    lines = [line for block in blocks() for line in block.splitlines() if re.match(r"\(?\w+=", line)]
    assert len(lines) == 2
    assert all(parse(line).keys() for line in lines)


def test_the_documents_agree_where_virtual_devices_of_a_farm_lie() -> None:
    from farm.settings import load

    document = (ROOT / "docs" / "virtual-devices.md").read_text()
    paragraph = document[document.index("**For a farm**") : document.index("`start` returns")]
    wanted = load({}, state=None).state.relative_to(Path.cwd()) / "virtual"
    for text in (README, paragraph):
        assert set(re.findall(r"--dir (\.farm\S*?)[`)\s]", text)) == {str(wanted)}
    assert f"`{wanted}`" in paragraph
