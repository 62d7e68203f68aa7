"""Private files and folders, written whole or not at all, never on a network file system."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.errors import DamagedStore, StorageUnavailable
from orihon.system.files import (
    BlobFolder,
    file_system,
    folder_size,
    keep_aside,
    make_private_folder,
    make_way,
    open_private,
    refuse_network_file_system,
    replace_file,
    replacing_file,
    wrapping,
)
from tests.helpers import refused


def mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever the umask is, the owner and nobody else gets access."""
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_new_folders_are_private(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b" / "c")
    assert [mode(path) for path in (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c")] == ["0o700"] * 3


@pytest.mark.usefixtures("umask")
def test_new_files_are_private(tmp_path: Path) -> None:
    os.close(open_private(tmp_path / "a", os.O_WRONLY | os.O_CREAT))
    replace_file(tmp_path / "b", [b"x"])
    assert [mode(tmp_path / name) for name in ("a", "b")] == ["0o600"] * 2


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    make_private_folder(tmp_path)
    assert mode(tmp_path) == "0o750"


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with refused(StorageUnavailable, "io"):
        make_private_folder(tmp_path / "file")
    with refused(StorageUnavailable, "io"):
        make_private_folder(tmp_path / "file" / "below")


def test_replacing_a_file(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    for content in ([b"old"], [b"new ", b"content"]):
        replace_file(path, content)
    assert path.read_bytes() == b"new content"
    assert [found.name for found in tmp_path.iterdir()] == ["document.json"]


def test_a_replacement_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"new"
        raise OSError(errno.ENOSPC, "No space left on device")

    with refused(StorageUnavailable, "full"):
        replace_file(path, chunks())
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["document.json"]


def test_a_file_is_replaced_when_the_block_ends_well(tmp_path: Path) -> None:
    path = tmp_path / "view"
    path.write_bytes(b"old")
    with replacing_file(path, [b"new"]):
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    with pytest.raises(KeyError), replacing_file(path, [b"newer"]):
        raise KeyError
    assert path.read_bytes() == b"new"
    assert [found.name for found in tmp_path.iterdir()] == ["view"]


def test_what_is_kept_aside_never_replaces_anything(tmp_path: Path) -> None:
    kept = {keep_aside(tmp_path, "messages.jsonl", content) for content in (b"one", b"two")}
    assert sorted(path.read_bytes() for path in kept) == [b"one", b"two"]
    assert mode(tmp_path / "aside") == "0o700"


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "full"),
        (errno.EDQUOT, "full"),
        (errno.EFBIG, "full"),
        (errno.EROFS, "read_only"),
        (errno.EACCES, "denied"),
        (errno.EPERM, "denied"),
        (errno.EIO, "io"),
        (errno.EMFILE, "io"),
    ],
)
def test_errors_of_the_system_become_ours(tmp_path: Path, number: int, reason: str) -> None:
    with refused(StorageUnavailable, reason) as caught, wrapping(tmp_path):
        fail(number)
    assert isinstance(caught.value.__cause__, OSError)
    assert str(tmp_path) in str(caught.value)


MOUNTS = """\
sysfs /sys sysfs rw 0 0
/dev/sda1 / ext4 rw,relatime 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sda2 /home/local ext4 rw 0 0
//server/share /mnt/two\\040words cifs rw 0 0
user@host:/ /mnt/ssh fuse.sshfs rw 0 0
tmpfs /home2 tmpfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/x", "ext4"),
        ("/home", "nfs4"),
        ("/home/ann/contexts", "nfs4"),
        ("/home/local/contexts", "ext4"),
        ("/home2/contexts", "tmpfs"),
        ("/mnt/two words/contexts", "cifs"),
        ("/mnt/ssh/contexts", "fuse.sshfs"),
    ],
)
def test_network_file_systems_are_refused(tmp_path: Path, path: str, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS)
    assert file_system(Path(path), mounts) == kind
    if kind in ("ext4", "tmpfs"):
        refuse_network_file_system(Path(path), mounts)
        return
    with refused(StorageUnavailable, "network") as caught:
        refuse_network_file_system(Path(path), mounts)
    assert kind in str(caught.value)


def test_a_system_that_does_not_tell_is_trusted(tmp_path: Path) -> None:
    assert file_system(tmp_path, tmp_path / "no such file") == ""
    refuse_network_file_system(tmp_path, tmp_path / "no such file")


def test_the_size_of_a_folder_where_files_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "messages.jsonl").write_bytes(b"content")
    busy = """
import pathlib, sys
while True:
    for number in range(20):
        pathlib.Path(sys.argv[1], f"empty.{number}").touch()
    for number in range(20):
        pathlib.Path(sys.argv[1], f"empty.{number}").unlink()
"""
    with subprocess.Popen([sys.executable, "-c", busy, tmp_path]) as writer:
        try:
            while not (tmp_path / "empty.0").exists():
                assert writer.poll() is None
                time.sleep(0.001)
            assert {folder_size(tmp_path) for _ in range(3000)} == {len(b"content")}
        finally:
            writer.kill()


def test_a_blob_is_stored_once(tmp_path: Path) -> None:
    blobs = BlobFolder(tmp_path / "blobs", durable=True)
    digest = hashlib.sha256(b"content").hexdigest()
    for _ in range(2):
        blobs.put(digest, b"content")
    assert blobs.get(digest) == b"content"
    assert [path.name for path in (tmp_path / "blobs").iterdir()] == [digest]
    assert folder_size(tmp_path) == len(b"content")
    (tmp_path / "blobs" / digest).write_bytes(b"other")
    with refused(DamagedStore, "blob_changed"):
        blobs.get(digest)
    with refused(DamagedStore, "blob_missing"):
        blobs.get("0" * 64)


def test_a_file_that_is_just_being_made_is_not_in_the_way(tmp_path: Path) -> None:
    """Whoever looks twice could take a live file for what is none, and move it from under its owner."""
    path, is_over = tmp_path / "writer.json", threading.Event()

    def make_and_remove() -> None:
        while not is_over.is_set():
            path.touch()
            path.unlink()

    other = threading.Thread(target=make_and_remove)
    other.start()
    try:
        for _ in range(20_000):
            make_way(path, tmp_path)
    finally:
        is_over.set()
        other.join()
    assert not (tmp_path / "aside").exists()
