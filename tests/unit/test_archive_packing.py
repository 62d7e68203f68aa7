"""Packing a folder and unpacking what others have made: hostile archives, damage, sizes that lie."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import stat
import subprocess
import sys
import tarfile
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest
import zstandard

from orihon.errors import DamagedStore
from orihon.transfer.archive.packed_file import (
    ENDINGS,
    ChunkReader,
    Member,
    PackedContents,
    contents_of,
    examine,
    pack,
    unpack,
)
from tests.helpers import Rule, refused


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder such as a task has."""
    folder = tmp_path / "task"
    (folder / "blobs").mkdir(parents=True)
    (folder / "aside").mkdir()
    (folder / "messages.jsonl").write_bytes(b'{"seq":1}\n' * 1000)
    (folder / "blobs" / ("a" * 64)).write_bytes(os.urandom(300_000))
    (folder / "empty").write_bytes(b"")
    (folder / "名前.txt").write_text("日本語", encoding="utf-8")
    return folder


def _tree(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
    }


def _unpack(path: Path, target: Path, expected: PackedContents, form: str = "zstd") -> None:
    with path.open("rb") as file:
        unpack(file, form, target, expected=expected, origin=path.name)


@pytest.mark.parametrize("form", ENDINGS)
def test_what_is_packed_comes_out_the_same_and_private(folder: Path, tmp_path: Path, form: str) -> None:
    path = tmp_path / "packed"
    packed = pack(folder, path, form)
    data = path.read_bytes()
    assert (packed.bytes, packed.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert packed.contents == contents_of(folder, tmp_path)
    old = os.umask(0)
    try:
        _unpack(path, tmp_path / "out", packed.contents, form)
    finally:
        os.umask(old)
    assert _tree(tmp_path / "out") == _tree(folder)
    modes = {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "out").rglob("*") if one.is_file()}
    folders = {stat.S_IMODE(one.stat().st_mode) for one in (tmp_path / "out").rglob("*") if one.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_same_folder_packs_to_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    assert pack(folder, tmp_path / "one", "zstd") == pack(folder, tmp_path / "two", "zstd")


def test_a_database_is_packed_with_what_is_still_in_its_log(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    with closing(apsw.Connection(str(folder / "context.db"))) as connection:
        for statement in ("PRAGMA journal_mode = WAL", "CREATE TABLE t (x)", "INSERT INTO t VALUES (1), (2)"):
            connection.execute(statement).fetchall()
        assert (folder / "context.db-wal").stat().st_size > 0
        packed = pack(folder, tmp_path / "packed", "zstd")
        assert packed.contents == contents_of(folder, tmp_path), "a copy is the same every time"
    assert packed.contents == contents_of(folder, tmp_path), "also after the log has been merged"
    _unpack(tmp_path / "packed", tmp_path / "out", packed.contents)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["context.db"]
    with closing(apsw.Connection(str(tmp_path / "out" / "context.db"))) as connection:
        assert connection.execute("SELECT sum(x) FROM t").get == 3
    assert not list(tmp_path.glob(".*")), "no copy is left behind"


def _link(folder: Path) -> None:
    (folder / "link").symlink_to("/etc/passwd")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")


def _control(folder: Path) -> None:
    (folder / "a\nb").write_bytes(b"")


@pytest.mark.parametrize("spoil", [_link, _pipe, _control])
def test_a_folder_with_anything_but_files_is_refused_and_nothing_is_left(
    folder: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(folder)
    with refused(DamagedStore, "not_packable"):
        pack(folder, tmp_path / "packed", "zstd")
    assert [path.name for path in tmp_path.iterdir()] == ["task"]


def test_packing_does_not_hold_the_task_in_memory(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    with (tmp_path / "task" / "messages.jsonl").open("wb") as file:
        for _ in range(96):
            file.write(os.urandom(1 << 20))
    program = """
import resource, sys
from pathlib import Path
from orihon.transfer.archive.packed_file import pack, unpack
here = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
packed = pack(here / "task", here / "packed", "zstd")
with (here / "packed").open("rb") as file:
    unpack(file, "zstd", here / "out", expected=packed.contents, origin="packed")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert int(ended.stdout) < 32 << 10, "kilobytes, for a task of 96 MB"


# ---- archives made by others ---------------------------------------------------------------------------------------


def _member(
    name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"x", link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, len(data) if kind == tarfile.REGTYPE else 0
    return info, data if kind == tarfile.REGTYPE else b""


def _compressed(data: bytes, form: str) -> bytes:
    return {"zstd": zstandard.ZstdCompressor().compress, "gzip": gzip.compress, "bzip2": bz2.compress}.get(
        form, lzma.compress
    )(data)


def _hostile(path: Path, *members: tuple[tarfile.TarInfo, bytes], form: str = "zstd") -> PackedContents:
    """A packed file with these members, and what somebody who wants it unpacked would say is in it."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    path.write_bytes(_compressed(raw.getvalue(), form))
    return PackedContents.of(Member(info.name, len(data), hashlib.sha256(data).hexdigest()) for info, data in members)


@pytest.mark.parametrize("form", ENDINGS)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, form: str) -> None:
    names = ["../x", "/x", "a/../../x", "a//x", "./x", "..", "a\\x", "a\nx", "x/" * 40 + "x", "x" * 2000, "a/./x"]
    with Rule() as rule:
        for name in names:
            with rule.case(name):
                expected = _hostile(tmp_path / "bad", _member("good"), _member(name), form=form)
                with refused(DamagedStore, "archive_member") as caught:
                    _unpack(tmp_path / "bad", tmp_path / "deep" / "out", expected, form)
                assert caught.value.fields["problem"] == "name"
                assert not (tmp_path / "deep" / "out").exists(), "nothing stays of what was begun"
                assert not (tmp_path / "deep" / "x").exists()
                assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("form", ENDINGS)
def test_links_and_devices_are_refused(tmp_path: Path, form: str) -> None:
    links = [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.SYMTYPE, "good"), (tarfile.LNKTYPE, "good")]
    others = [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE]
    with Rule() as rule:
        for kind, link in [*links, *((kind, "") for kind in others), (tarfile.REGTYPE, "good")]:
            with rule.case(kind, link):
                expected = _hostile(tmp_path / "bad", _member("good"), _member("odd", kind, link=link), form=form)
                with refused(DamagedStore, "archive_member") as caught:
                    _unpack(tmp_path / "bad", tmp_path / "out", expected, form)
                assert caught.value.fields["problem"] == "kind"
                assert not (tmp_path / "out").exists()


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    info, data = _member("sparse")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
    expected = _hostile(tmp_path / "bad", (info, data))
    with pytest.raises(DamagedStore):
        _unpack(tmp_path / "bad", tmp_path / "out", expected)
    assert not (tmp_path / "out").exists()


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    expected = _hostile(tmp_path / "bad", _member("same"), _member("same"))
    with refused(DamagedStore, "archive_member") as caught:
        _unpack(tmp_path / "bad", tmp_path / "out", expected)
    assert caught.value.fields["problem"] == "twice"


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    expected = _hostile(tmp_path / "bad", _member("a"), _member("a/b"))
    with pytest.raises(Exception, match="a/b"):
        _unpack(tmp_path / "bad", tmp_path / "out", expected)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ENDINGS)
def test_more_than_was_said_is_not_written(tmp_path: Path, form: str) -> None:
    expected = _hostile(tmp_path / "bad", _member("bomb", data=bytes(4 << 20)), form=form)
    told = PackedContents(expected.members, 1000, expected.sha256)
    with refused(DamagedStore, "archive_member") as caught:
        _unpack(tmp_path / "bad", tmp_path / "out", told, form)
    assert caught.value.fields["problem"] == "size"
    fewer = PackedContents(0, expected.bytes, expected.sha256)
    with refused(DamagedStore, "archive_member"):
        _unpack(tmp_path / "bad", tmp_path / "out", fewer, form)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        *((form, tarfile.XHDTYPE) for form in ENDINGS),
        *(("zstd", kind) for kind in (tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)),
    ],
)
def test_a_header_that_is_a_bomb_is_not_read_into_memory(tmp_path: Path, form: str, kind: bytes) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = kind, 32 << 20
    (tmp_path / "bad").write_bytes(_compressed(header.tobuf(tarfile.USTAR_FORMAT) + bytes(32 << 20), form))
    tracemalloc.start()
    try:
        with refused(DamagedStore, "archive_member") as caught:
            _unpack(tmp_path / "bad", tmp_path / "out", PackedContents(1, 10, "0" * 64), form)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20, "the unpackers' own buffers"
    finally:
        tracemalloc.stop()
    assert caught.value.fields["problem"] == "size"
    assert not (tmp_path / "out").exists()


def test_long_names_and_many_small_files_are_no_bomb(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    for number in range(40):
        deep = folder.joinpath(*["深" * 60] * 5)
        deep.mkdir(parents=True, exist_ok=True)
        (deep / f"{number}").write_bytes(b"")
    packed = pack(folder, tmp_path / "packed", "zstd")
    _unpack(tmp_path / "packed", tmp_path / "out", packed.contents)
    assert _tree(tmp_path / "out") == _tree(folder)


def test_a_size_that_lies_is_found(tmp_path: Path) -> None:
    info, data = _member("short", data=b"x" * 100)
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.addfile(info, io.BytesIO(data))
    header = tarfile.TarInfo("short")
    header.size = 1 << 30
    lying = header.tobuf(tarfile.USTAR_FORMAT) + raw.getvalue()[512:]
    (tmp_path / "bad").write_bytes(zstandard.ZstdCompressor().compress(lying))
    with pytest.raises(DamagedStore):
        _unpack(tmp_path / "bad", tmp_path / "out", PackedContents(1, 1 << 30, "0" * 64))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ENDINGS)
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.99])
def test_a_cut_off_file_is_found(folder: Path, tmp_path: Path, form: str, part: float) -> None:
    packed = pack(folder, tmp_path / "packed", form)
    data = (tmp_path / "packed").read_bytes()
    (tmp_path / "packed").write_bytes(data[: int(len(data) * part)])
    with pytest.raises(DamagedStore):
        _unpack(tmp_path / "packed", tmp_path / "out", packed.contents, form)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("form", ENDINGS)
def test_a_flipped_bit_is_found(folder: Path, tmp_path: Path, form: str) -> None:
    packed = pack(folder, tmp_path / "packed", form)
    data = bytearray((tmp_path / "packed").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "packed").write_bytes(data)
    with pytest.raises(DamagedStore):
        _unpack(tmp_path / "packed", tmp_path / "out", packed.contents, form)


@pytest.mark.parametrize("form", ENDINGS)
def test_other_contents_than_expected_are_not_unpacked(tmp_path: Path, form: str) -> None:
    expected = _hostile(tmp_path / "bad", _member("a", data=b"changed"), form=form)
    other = PackedContents.of([Member("a", len(b"changed"), hashlib.sha256(b"genuine").hexdigest())])
    assert other != expected
    with refused(DamagedStore, "archive"):
        _unpack(tmp_path / "bad", tmp_path / "out", other, form)
    assert not (tmp_path / "out").exists()


def test_what_is_no_archive_is_called_damaged(tmp_path: Path) -> None:
    for form, data in {"zstd": b"no", "gzip": gzip.compress(b"no tar at all" * 100), "xz": b"", "bzip2": b"BZ"}.items():
        (tmp_path / "bad").write_bytes(data)
        with pytest.raises(DamagedStore):
            _unpack(tmp_path / "bad", tmp_path / "out", PackedContents(1, 10, "0" * 64), form)


def test_an_archive_can_be_read_from_pieces_of_any_size(folder: Path, tmp_path: Path) -> None:
    packed = pack(folder, tmp_path / "packed", "zstd")
    data = (tmp_path / "packed").read_bytes()
    pieces = (data[start : start + 7777] for start in range(0, len(data), 7777))
    found = examine(ChunkReader(pieces), "zstd", expected=packed.contents, origin="pieces")
    assert found == packed.contents
