"""What a deploy decides: pure rules, as properties."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.adb.deploy_plan import (
    FileSpec,
    carried,
    check_files,
    contents,
    link_script,
    plan_deploy,
    plan_eviction,
)
from farm.adb.file_tool import Stamp

SHAS = [f"{number:064x}" for number in range(6)]
STAMPS = st.builds(Stamp, st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.integers(0, 2))
BY_SHA = st.dictionaries(st.sampled_from(SHAS), STAMPS)


@st.composite
def bundles(draw: st.DrawFn) -> list[FileSpec]:
    """Files with different names; one content has one size."""
    sizes = {sha: draw(st.integers(0, 3)) for sha in SHAS}
    chosen = draw(st.lists(st.tuples(st.sampled_from(SHAS), st.booleans()), max_size=8))
    return [
        FileSpec(f"d{index % 3}/f{index}", Path("x"), sha, sizes[sha], 0o755 if executable else 0o644)
        for index, (sha, executable) in enumerate(chosen)
    ]


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[FileSpec], dict[str, Stamp], dict[str, Stamp], dict[str, Stamp]]:
    files = draw(bundles())
    linked = draw(st.dictionaries(st.sampled_from([f.remote for f in files] or ["none"]), STAMPS))
    return files, draw(BY_SHA), draw(BY_SHA), linked


@given(situations(), st.booleans())
def test_every_content_is_sent_or_read_back_or_kept_and_once_only(
    situation: tuple[list[FileSpec], dict[str, Stamp], dict[str, Stamp], dict[str, Stamp]], doubt: bool
) -> None:
    files, present, stamped, linked = situation
    plan = plan_deploy(files, present, stamped, linked, doubt=doubt)
    planned = [spec.sha256 for spec in (*plan.send, *plan.rehash, *plan.keep)]
    assert sorted(planned) == sorted({spec.sha256 for spec in files})


@given(situations(), st.booleans())
def test_only_what_shows_its_noted_stamp_is_kept_unread(
    situation: tuple[list[FileSpec], dict[str, Stamp], dict[str, Stamp], dict[str, Stamp]], doubt: bool
) -> None:
    files, present, stamped, linked = situation
    plan = plan_deploy(files, present, stamped, linked, doubt=doubt)
    executable = {spec.sha256 for spec in files if spec.executable}
    for spec in plan.keep:
        assert stamped[spec.sha256] == present[spec.sha256]
        assert present[spec.sha256].size == spec.size
        assert spec.sha256 not in executable
        assert not doubt


@given(situations())
def test_after_the_plan_every_file_is_the_cached_file(
    situation: tuple[list[FileSpec], dict[str, Stamp], dict[str, Stamp], dict[str, Stamp]],
) -> None:
    files, present, stamped, linked = situation
    plan = plan_deploy(files, present, stamped, linked)
    sent = {spec.sha256 for spec in plan.send}
    for spec in files:
        if spec not in plan.link:
            assert spec.sha256 not in sent
            assert linked[spec.remote].inode == present[spec.sha256].inode


@given(bundles())
def test_a_second_deploy_of_the_same_bundle_sends_and_links_nothing(files: list[FileSpec]) -> None:
    present = {spec.sha256: Stamp(index, spec.size, 1, 1) for index, spec in enumerate(contents(files))}
    linked = {spec.remote: present[spec.sha256] for spec in files}
    plan = plan_deploy(files, present, present, linked)
    assert plan.send == plan.link == ()
    assert all(spec.executable for spec in plan.rehash)


@given(BY_SHA, BY_SHA, BY_SHA)
def test_a_stamp_is_carried_over_only_when_it_was_right_and_the_content_is_untouched(
    stamped: dict[str, Stamp], before: dict[str, Stamp], after: dict[str, Stamp]
) -> None:
    for sha, stamp in carried(stamped, before, after).items():
        if stamp != stamped[sha]:
            assert before[sha] == stamped[sha]
            assert after[sha] == stamp
            assert stamp.same_content(stamped[sha])


@given(BY_SHA, st.sets(st.sampled_from(SHAS)), st.integers(0, 12))
def test_eviction_never_takes_what_is_needed_and_frees_enough_or_nothing(
    cached: dict[str, Stamp], needed: set[str], wanted: int
) -> None:
    victims = plan_eviction(cached, needed, wanted)
    assert not needed & set(victims)
    freed = sum(cached[sha].size for sha in victims)
    assert freed >= wanted or not victims
    spared = [cached[sha].ctime_ns for sha in cached if sha not in victims and sha not in needed]
    assert all(cached[sha].ctime_ns <= oldest for sha in victims for oldest in spared)


@pytest.mark.parametrize(
    "remote", ["", "/abs", "a/../b", "..", "a//b", "./a", "a\nb", "a\0b", "x" * 600, "a/."], ids=repr
)
def test_a_path_that_leaves_the_target_or_breaks_a_line_is_refused(remote: str) -> None:
    with pytest.raises(ValueError, match="remote path"):
        check_files([FileSpec(remote, Path("x"), SHAS[0], 1)])


def test_a_file_below_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="lies in a file"):
        check_files([FileSpec("a", Path("x"), SHAS[0], 1), FileSpec("a/b", Path("x"), SHAS[1], 1)])


@pytest.mark.parametrize("sha", ["", "0" * 63, "G" * 64, "0" * 64 + "\n", "../" + "0" * 61])
def test_what_is_no_hash_is_refused(sha: str) -> None:
    with pytest.raises(ValueError, match="SHA-256"):
        check_files([FileSpec("a", Path("x"), sha, 1)])


_NAMES = ["plain", "with blank", "$HOME", "`id`", "a;b", "'", '"', "-rf", "*", "ü", "\\"]


def _link(tmp_path: Path, files: Sequence[FileSpec], extras: Sequence[str] = ()) -> Path:
    cache = tmp_path / "cas"
    cache.mkdir(exist_ok=True)
    for spec in files:
        (cache / spec.sha256).write_text(spec.sha256)
    target = tmp_path / "target"
    script = link_script(str(target), files, extras, set(), lambda sha: str(cache / sha))
    subprocess.run(["sh"], input=script.encode(), check=True, timeout=60)
    return target


def test_any_file_name_is_put_in_its_place_by_a_shell(tmp_path: Path) -> None:
    files = [FileSpec(f"{name}/{name}", Path("x"), SHAS[i % 6], 1, 0o755) for i, name in enumerate(_NAMES)]
    target = _link(tmp_path, files)
    for spec in files:
        assert (target / spec.remote).read_text() == spec.sha256
        assert (target / spec.remote).stat().st_mode & 0o111
    assert len([path for path in target.rglob("*") if path.is_file()]) == len(files)


def test_a_folder_in_the_place_of_a_file_and_left_overs_give_way(tmp_path: Path) -> None:
    (tmp_path / "target/bin/tool").mkdir(parents=True)
    (tmp_path / "target/it's old").write_text("x")
    target = _link(tmp_path, [FileSpec("bin/tool", Path("x"), SHAS[1], 1)], [str(tmp_path / "target/it's old")])
    assert (target / "bin/tool").read_text() == SHAS[1]
    assert not (target / "it's old").exists()
