"""Shared pages: layout, guard zones at every first and last byte, and a file that somebody cut."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.gate import folders
from tasks.gate import pages as module
from tasks.gate.pages import GUARD_BYTES, Layout, Pages, PagesCut, PagesError, layout

SIZES = {"A": 1, "B": 4096, "C": 12_345, "D": 4}


@given(st.lists(st.integers(0, 1 << 40), max_size=12), st.integers(1, 64))
def test_a_layout_has_aligned_buffers_with_guards_around(sizes: list[int], blocks: int) -> None:
    guard = blocks * 4096
    found = layout({f"b{number}": nbytes for number, nbytes in enumerate(sizes)}, guard)
    assert list(found.spans) == [f"b{number}" for number in range(len(sizes))]
    assert [nbytes for _, nbytes in found.spans.values()] == sizes
    assert all(offset % 4096 == 0 for offset, _ in found.spans.values())
    guards = found.guards
    assert len(guards) == len(sizes) + 1
    assert all(nbytes >= guard for _, nbytes in guards)
    # Guards and buffers fill the file from 0 to its end, without overlap.
    at = 0
    for offset, nbytes in sorted([*found.spans.values(), *guards], key=lambda span: (span[0], span[1])):
        if nbytes:
            assert offset == at
        at = max(at, offset + nbytes)
    assert at == found.nbytes


def test_a_buffer_can_start_behind_its_place() -> None:
    found = layout({"A": 4096, "B": 100, "C": 8}, offsets={"B": 60, "C": 4})
    assert [offset % 4096 for offset, _ in found.spans.values()] == [0, 60, 4]
    assert [nbytes for _, nbytes in found.spans.values()] == [4096, 100, 8]
    assert all(nbytes >= GUARD_BYTES for _, nbytes in found.guards)
    with Pages(found.nbytes, 5) as pages:
        pages.arm(found.guards)
        _poke(pages, found.spans["B"][0] - 1)
        assert pages.breached(found.guards) == (1, found.guards[1][1] - 1)


@pytest.fixture
def armed() -> Iterator[tuple[Pages, Layout]]:
    found = layout(SIZES)
    with Pages(found.nbytes, 5) as pages:
        pages.arm(found.guards)
        yield pages, found


def test_unarmed_guards_are_breached(armed: tuple[Pages, Layout]) -> None:
    pages, found = armed
    assert pages.breached(found.guards) is None
    with Pages(found.nbytes, 6) as other:
        assert other.breached(found.guards) == (0, 0) or other.breached(found.guards) is not None


def _poke(pages: Pages, offset: int) -> None:
    pages.write(offset, pages.read(offset, 1) ^ np.uint8(1))


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("side", ["before", "behind"])
def test_the_byte_next_to_a_buffer_is_guarded(armed: tuple[Pages, Layout], name: str, side: str) -> None:
    pages, found = armed
    offset, nbytes = found.spans[name]
    number = list(SIZES).index(name)
    if side == "before":
        zone, at = number, found.guards[number][1] - 1
        _poke(pages, offset - 1)
    else:
        zone, at = number + 1, 0
        _poke(pages, offset + nbytes)
    assert pages.breached(found.guards) == (zone, at)


@pytest.mark.parametrize("number", range(len(SIZES) + 1))
def test_both_ends_of_each_zone_and_its_middle_are_guarded(armed: tuple[Pages, Layout], number: int) -> None:
    pages, found = armed
    offset, nbytes = found.guards[number]
    for at in (0, nbytes // 2, nbytes - 1):
        _poke(pages, offset + at)
        assert pages.breached(found.guards) == (number, at)
        _poke(pages, offset + at)
        assert pages.breached(found.guards) is None


def test_writing_a_whole_buffer_breaches_nothing(armed: tuple[Pages, Layout]) -> None:
    pages, found = armed
    for offset, nbytes in found.spans.values():
        pages.write(offset, np.full(nbytes, 0xA5, np.uint8))
    assert pages.breached(found.guards) is None


def test_zones_can_be_armed_again(armed: tuple[Pages, Layout]) -> None:
    pages, found = armed
    _poke(pages, 0)
    pages.arm(found.guards)
    assert pages.breached(found.guards) is None


@pytest.mark.parametrize("step", [1, 2, 4, 64, 4096, GUARD_BYTES])
def test_the_pattern_is_not_told_from_its_neighbourhood(armed: tuple[Pages, Layout], step: int) -> None:
    """A kernel that copies one part of a zone over the next does not go unseen."""
    pages, found = armed
    offset, nbytes = found.guards[2]
    pages.write(offset + min(step, nbytes // 2), pages.read(offset, nbytes // 2))
    assert pages.breached(found.guards) is not None


def test_the_pattern_is_secret() -> None:
    found = layout({"A": 64})
    contents = []
    for seed in (1, 2):
        with Pages(found.nbytes, seed) as pages:
            pages.arm(found.guards)
            contents.append(pages.read(0, GUARD_BYTES))
    share = float((contents[0] == contents[1]).mean())
    assert share < 0.05


@pytest.mark.parametrize("shape", [(1,), (3, 5), (7, 11, 13), (0,), (1 << 16,)])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32, np.float64])
@pytest.mark.parametrize("offset", [0, 1, 4097])
def test_what_is_written_is_read(shape: tuple[int, ...], dtype: type, offset: int) -> None:
    array = np.random.default_rng(1).integers(0, 100, shape).astype(dtype)
    with Pages(offset + array.nbytes + 16, 0) as pages:
        pages.write(offset, array)
        assert np.array_equal(pages.read(offset, array.nbytes).view(dtype).reshape(shape), array)
        assert not pages.read(offset + array.nbytes, 16).any()


def test_views_that_are_not_contiguous_are_written_as_they_look() -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    with Pages(4096, 0) as pages:
        pages.write(0, array.T[::2])
        assert np.array_equal(pages.read(0, 128).view(np.float32).reshape(4, 8), array.T[::2])


def test_what_is_read_is_a_copy() -> None:
    with Pages(4096, 0) as pages:
        data = pages.read(0, 16)
        pages.write(0, np.ones(16, np.uint8))
        assert not data.any()


@pytest.mark.parametrize("length", [0, 1, 100, GUARD_BYTES, GUARD_BYTES + 2])
def test_a_file_cut_by_somebody_else(length: int) -> None:
    found = layout({"A": 4096})
    with Pages(found.nbytes, 0) as pages:
        pages.arm(found.guards)
        os.truncate(pages.path, length)
        with pytest.raises(PagesCut) as caught:
            pages.read(*found.spans["A"])
        assert len(str(caught.value).splitlines()) == 1
        with pytest.raises(PagesCut):
            pages.breached(found.guards)


def test_a_file_cut_and_grown_again_is_a_breach() -> None:
    found = layout({"A": 4096})
    with Pages(found.nbytes, 0) as pages:
        pages.arm(found.guards)
        os.truncate(pages.path, 0)
        os.truncate(pages.path, found.nbytes)
        assert pages.breached(found.guards) is not None


def test_the_file_is_private_and_goes_with_the_block() -> None:
    with Pages(4096, 0) as pages:
        path = pages.path
        assert path.stat().st_size == 4096
        assert path.stat().st_mode & 0o077 == 0 and path.parent.stat().st_mode & 0o077 == 0
    assert not path.exists() and not path.parent.exists()
    with pytest.raises(ZeroDivisionError), Pages(4096, 0) as pages:
        path = pages.path
        raise ZeroDivisionError
    assert not path.parent.exists()


def test_elsewhere_where_memory_is_short(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_memory_folder", lambda nbytes: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with Pages(4096, 0) as pages:
        assert pages.path.is_relative_to(tmp_path)


def test_more_than_there_is_is_one_line() -> None:
    with pytest.raises(PagesError) as caught, Pages((1 << 63) - 1, 0):
        pass
    assert "cannot make 9223372036854775807 bytes of shared pages: " in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_an_unwritable_folder_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_memory_folder", lambda nbytes: tmp_path / "none")
    with pytest.raises(PagesError, match="No such file or directory"), Pages(4096, 0):
        pass


def test_what_cannot_be_made_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_memory_folder", lambda nbytes: tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PagesError):
        Pages((1 << 63) - 1, 0)
    assert list(tmp_path.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) == before


def test_more_than_a_file_can_have_is_a_pages_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "_memory_folder", lambda nbytes: tmp_path)
    try:
        Pages(1 << 64, 0)
    except PagesError:
        return
    except OverflowError:
        pytest.fail("OverflowError")


def _ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_folder_carries_its_owner() -> None:
    with Pages(4096, 0) as pages:
        assert pages.path.parent.name.startswith(f"klineage-pages-{os.getpid()}-")
        folders.sweep()
        assert pages.path.exists()


def test_folders_of_ended_processes_are_swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(folders, "SHARED_MEMORY", tmp_path / "none")
    ours = folders.scratch_folder("worker")
    dead, here = _ended_process(), folders._namespace()
    kept = [tmp_path / name for name in (f"klineage-worker-{dead}-1-a", "klineage-worker-a", f"other-{dead}-{here}-a")]
    left = tmp_path / f"klineage-worker-{dead}-{here}-ab_c1"
    for folder in (*kept, left):
        (folder / "in").mkdir(parents=True)
    (tmp_path / f"klineage-worker-{dead}-{here}-link").symlink_to(kept[0])
    folders.sweep()
    assert not left.exists()
    assert all((folder / "in").exists() for folder in kept) and ours.exists()


def test_a_killed_owner_is_swept_at_the_next_start(tmp_path: Path) -> None:
    source = "from tasks.gate.folders import *; print(scratch_folder('worker'), flush=True); input()"
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    made = []
    for _ in range(2):
        owner = subprocess.Popen(
            [sys.executable, "-c", source], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert owner.stdout is not None
        made.append(Path(owner.stdout.readline().decode().strip()))
        owner.kill()
        owner.communicate()
    assert not made[0].exists() and made[1].exists()


def test_a_folder_that_forbids_its_removal_is_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    folder = tmp_path / "folder"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "link").symlink_to(outside)
    (folder / "deep" / "deeper").chmod(0)
    (folder / "deep").chmod(0)
    mode = outside.stat().st_mode
    folders.remove(folder)
    assert not folder.exists() and outside.stat().st_mode == mode
    folders.remove(folder)
