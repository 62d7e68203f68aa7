"""Object storage over real HTTP and in a folder: conditions, large objects, and what goes wrong."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from orihon.drivers.objects import FolderStorage, ObjectStorage
from orihon.errors import InvalidId, InvalidSettings, StorageUnavailable
from orihon.settings import load_settings
from tests.helpers import refused
from tests.integration.object_server import CREDENTIALS, Bucket, new_bucket, strict_object_server

LARGE = 19 << 20


@pytest.fixture(params=["s3", "file"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStorage:
    if request.param == "file":
        return ObjectStorage.of(load_settings({"archive": {"url": f"file://{tmp_path}/objects%20here"}}))
    bucket: Bucket = request.getfixturevalue("bucket")
    return ObjectStorage.of(load_settings({"archive": bucket.archive}))


def test_an_object_is_created_once_and_read_back(storage: ObjectStorage, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"from a file")
    assert storage.info("a/one") is None
    info = storage.create("a/one", tmp_path / "source")
    assert (info.key, info.size) == ("a/one", 11)
    assert storage.info("a/one") == info
    assert storage.read("a/one").data == b"from a file"
    assert storage.read("a/one").etag == info.etag
    with refused(StorageUnavailable, "object_exists"):
        storage.create("a/one", b"something else")
    assert b"".join(storage.chunks("a/one")) == b"from a file"
    storage.create("a/two", b"")
    assert sorted(storage.names("a")) == ["a/one", "a/two"]
    assert list(storage.names("b")) == []
    storage.delete("a/one")
    storage.delete("a/one")
    assert list(storage.names("a")) == ["a/two"]
    for read in (storage.read, lambda key: list(storage.chunks(key))):
        with refused(StorageUnavailable, "object_gone"):
            read("a/one")


def test_a_large_object_goes_up_in_parts_and_still_only_once(storage: ObjectStorage, tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.write_bytes(os.urandom(LARGE))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    assert storage.create("large", source).size == LARGE
    assert storage.digest("large") == (LARGE, digest)
    assert storage.download("large", copy) == digest
    assert copy.read_bytes() == source.read_bytes()
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    source.write_bytes(os.urandom(LARGE))
    with refused(StorageUnavailable, "object_exists"):
        storage.create("large", source)
    assert storage.digest("large") == (LARGE, digest), "the first one stays"


def test_nothing_is_left_of_parts(bucket: Bucket, tmp_path: Path) -> None:
    storage = ObjectStorage.of(load_settings({"archive": bucket.archive}))
    (tmp_path / "source").write_bytes(bytes(LARGE))
    storage.create("large", tmp_path / "source")
    with refused(StorageUnavailable, "object_exists"):
        storage.create("large", tmp_path / "source")
    assert bucket.keys() == ["large"]


def test_only_the_version_that_was_read_is_replaced(storage: ObjectStorage) -> None:
    first = storage.create("m", b"1")
    second = storage.replace("m", b"2", first.etag)
    with refused(StorageUnavailable, "object_changed"):
        storage.replace("m", b"3", first.etag)
    assert storage.read("m").data == b"2"
    storage.replace("m", b"4", second.etag)
    storage.replace("m", b"5")
    assert storage.read("m").data == b"5"


def test_of_many_who_create_or_replace_one_wins(storage: ObjectStorage) -> None:
    etag = storage.create("shared", b"at first").etag  # equal contents have equal etags
    won: list[str] = []
    refusals: list[str] = []

    def contend(number: int) -> None:
        data = str(number).encode()
        acts: dict[str, Callable[[], object]] = {
            "create": lambda: storage.create("new", data),
            "replace": lambda: storage.replace("shared", data, etag),
        }
        for name, act in acts.items():
            try:
                act()
                won.append(name)
            except StorageUnavailable as error:
                refusals.append(error.reason)

    threads = [threading.Thread(target=contend, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert sorted(won) == ["create", "replace"]
    assert sorted(refusals) == ["object_changed"] * 7 + ["object_exists"] * 7


@pytest.mark.parametrize("key", ["../x", "/x", "a/../x", "", "a//b", ".hidden", "a/.b", "a b", "x" * 300, "a\n"])
def test_a_name_that_leads_elsewhere_is_refused(storage: ObjectStorage, key: str) -> None:
    for act in (storage.info, storage.read, storage.delete, lambda key: storage.create(key, b"")):
        with refused(InvalidId, "unsafe"):
            act(key)


def test_objects_in_a_folder_are_private_and_whole(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "objects")
    storage.create("a/b", b"x")
    assert stat.S_IMODE((tmp_path / "objects" / "a").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "objects" / "a" / "b").stat().st_mode) == 0o600
    with refused(StorageUnavailable, "object_exists"):
        storage.create("a/b", b"y")
    assert [path.name for path in (tmp_path / "objects" / "a").iterdir()] == ["b"], "no temporary file is left"


# ---- what goes wrong -----------------------------------------------------------------------------------------------


def test_without_a_bucket(bucket: Bucket) -> None:
    missing = load_settings({"archive": {**bucket.archive, "url": "s3://orihon-no-such-bucket/p"}})
    storage = ObjectStorage.of(missing)
    with refused(StorageUnavailable, "no_bucket") as caught:
        storage.create("a", b"x")
    assert "s3://orihon-no-such-bucket/p" in str(caught.value)
    for act in (lambda: storage.read("a"), lambda: list(storage.names("a"))):
        with refused(StorageUnavailable, "no_bucket"):
            act()


def test_nobody_at_the_address(bucket: Bucket) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # not listening: whoever connects is refused
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        storage = ObjectStorage.of(load_settings({"archive": {"url": bucket.url, "endpoint": endpoint}}))
        for act in (lambda: storage.create("a", b"x"), lambda: storage.info("a"), lambda: storage.read("a")):
            with refused(StorageUnavailable, "object_unreachable") as caught:
                act()
            assert "testing-secret" not in str(caught.value)


def test_wrong_credentials_are_told_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with strict_object_server() as endpoint:
        bucket = new_bucket(endpoint)  # the one thing that it does for everybody
        storage = ObjectStorage.of(load_settings({"archive": bucket.archive}))
        for act in (lambda: storage.create("a", b"x"), lambda: storage.read("a"), lambda: storage.info("a")):
            with refused(StorageUnavailable, "object_denied") as caught:
                act()
            assert "testing" not in str(caught.value)
            assert "HTTP 403" in str(caught.value)


def test_a_forked_child_is_told_instead_of_waiting_for_ever(bucket: Bucket) -> None:
    """The driver's threads stay behind in the parent."""
    program = """
import os, signal, sys
from orihon.errors import StorageUnavailable
from orihon.drivers.objects import ObjectStorage
storage = ObjectStorage.at(sys.argv[1], sys.argv[2])
child = os.fork()
if child == 0:
    storage.create("by_child", b"x")  # nobody has used it before
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
storage.create("by_parent", b"x")
child = os.fork()
if child == 0:
    signal.alarm(240)
    try:
        storage.read("by_parent")
    except StorageUnavailable as error:
        os._exit(77 if error.reason == "object_forked" else 1)
    os._exit(2)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-c", program, bucket.url, bucket.endpoint]
    assert subprocess.run(command, check=False, timeout=300).returncode == 77
    assert sorted(bucket.keys()) == ["by_child", "by_parent"]


def test_a_plain_http_address_is_used_only_when_it_is_named(bucket: Bucket) -> None:
    https = bucket.endpoint.replace("http://", "https://")
    storage = ObjectStorage.of(load_settings({"archive": {"url": bucket.url, "endpoint": https}}))
    with refused(StorageUnavailable, "object_unreachable"):
        storage.create("a", b"x")


def test_a_user_name_in_the_address_is_not_repeated() -> None:
    assert ObjectStorage.at("s3://key:secret@bucket/p", "http://127.0.0.1:9").place == "s3://bucket/p"


def test_addresses_that_cannot_be_used() -> None:
    with refused(InvalidSettings, "no_archive_url"):
        ObjectStorage.of(load_settings({}))
    with refused(InvalidSettings, "file_address"):
        ObjectStorage.at("file://elsewhere/path")


def test_a_missing_package_is_named_with_its_extra(tmp_path: Path) -> None:
    program = """
import json, sys
sys.modules["obstore"] = None
from orihon.errors import InvalidSettings
from orihon.drivers.objects import ObjectStorage
ObjectStorage.at(f"file://{sys.argv[1]}").create("a", b"x")
try:
    ObjectStorage.at("s3://bucket")
except InvalidSettings as error:
    print(json.dumps([error.reason, str(error)]))
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    reason, message = json.loads(ended.stdout)
    assert reason == "object_extra"
    assert "pip install 'orihon[s3]'" in message
