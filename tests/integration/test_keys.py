"""Master keys from every source, data keys wrapped by them, and changing from one master key to another."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.errors import DamagedStore, InvalidId, KeyUnavailable
from orihon.guard.keys import FOLDER, DataKeys, FolderKeys
from orihon.guard.sealer import MasterKeys, master_keys, read_master_key
from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.upkeep.keys import erase_key, keys_overview, new_master_key, rotate_keys
from tests.helpers import Child, refused
from tests.integration.run_supervisor import eventually
from tests.sealing import sealed_settings, start_sealed, write_key

SECRET = "c3" * 32


def keys_in(folder: Path, source: str, *former: str) -> DataKeys:
    return DataKeys(FolderKeys(folder), MasterKeys(read_master_key(source), former))


# ---- master keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [SECRET, f"  {SECRET.upper()}\n", base64.b64encode(bytes.fromhex(SECRET)).decode()])
def test_a_key_is_the_same_from_every_source(written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "master key"
    path.write_text(written, encoding="ascii")
    path.chmod(0o600)
    monkeypatch.setenv("SOME_KEY", written)
    sources = (f"file:{path}", "env:SOME_KEY", f"command:cat '{path}'")
    found = [read_master_key(source) for source in sources]
    assert {key.secret.hex() for key in found} == {SECRET}
    assert len({key.id for key in found}) == 1
    assert SECRET not in repr(found)


def test_a_key_comes_from_the_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend

    class Kept(KeyringBackend):
        priority = 1.0

        def get_password(self, service: str, username: str) -> str | None:
            return SECRET if (service, username) == ("orihon", "master/1") else None

        def set_password(self, service: str, username: str, password: str) -> None: ...

        def delete_password(self, service: str, username: str) -> None: ...

    before = keyring.get_keyring()
    keyring.set_keyring(Kept())  # type: ignore[no-untyped-call]
    try:
        assert read_master_key("keyring:orihon/master/1").secret.hex() == SECRET
        with refused(KeyUnavailable, "not_in_keyring"):
            read_master_key("keyring:orihon/other")
    finally:
        keyring.set_keyring(before)


def test_a_missing_keyring_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with refused(KeyUnavailable, "keyring_extra"):
        read_master_key("keyring:service/unasked")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("file:/nowhere/master", "unreadable"),
        ("env:NOT_THERE_AT_ALL", "not_set"),
        ("command:/nowhere/at-all", "unreadable"),
        ("command:false", "unreadable"),
        ("command:echo 'unclosed", "unreadable"),
        ("command:echo short", "bad_key"),
        ("plain-text", "bad_source"),
        ("file:", "bad_source"),
        ("https://keys", "bad_source"),
    ],
)
def test_a_source_that_gives_no_key_is_named(source: str, reason: str) -> None:
    with refused(KeyUnavailable, reason):
        read_master_key(source)


def test_a_command_runs_without_a_shell_and_its_output_is_not_told(tmp_path: Path) -> None:
    with pytest.raises(KeyUnavailable) as caught:
        read_master_key(f"command:echo {SECRET} > {tmp_path}/leak")
    assert not (tmp_path / "leak").exists()
    assert caught.value.reason == "bad_key"
    with pytest.raises(KeyUnavailable) as caught:
        read_master_key(f"command:sh -c 'echo {SECRET}; exit 3'")
    assert "exit code 3" in str(caught.value)


def test_a_command_does_not_outlive_who_asked_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    source = f"command:sh -c 'echo $$ > {pid}; sleep 600'"
    program = f"from orihon.guard.sealer import read_master_key; read_master_key({source!r})"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        eventually(lambda: pid.exists() and pid.read_text().endswith("\n"))
        process.kill()
    eventually(lambda: not Path(f"/proc/{int(pid.read_text())}/exe").exists())


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    source = write_key(tmp_path / "master")
    (tmp_path / "master").chmod(0o640)
    with refused(KeyUnavailable, "open_to_others"):
        read_master_key(source)


def test_a_new_key_is_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "master"
    name = new_master_key(path)
    assert read_master_key(f"file:{path}").id == name
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with refused(KeyUnavailable, "file_exists"):
        new_master_key(path)
    assert path.read_bytes() == before


def test_no_key_is_needed_where_none_is_wanted() -> None:
    assert master_keys(load_settings({}, environ={}).encryption) is None
    with refused(KeyUnavailable, "no_source"):
        master_keys(load_settings({"encryption": {"enabled": True}}, environ={}).encryption)


# ---- data keys -----------------------------------------------------------------------------------------------------


def test_who_comes_first_makes_the_key(tmp_path: Path) -> None:
    source = write_key(tmp_path / "master")
    here, there = keys_in(tmp_path / "keys", source), keys_in(tmp_path / "keys", source)
    sealed = here.new_sealer("task-1").seal("messages", 1, b"words")
    assert there.new_sealer("task-1").open("messages", 1, sealed) == b"words"
    assert there.sealer("task-1").has_key_of(here.sealer("task-1"))
    assert not there.new_sealer("task-2").has_key_of(here.sealer("task-1"))
    with refused(KeyUnavailable, "missing"):
        here.sealer("task-3")


@pytest.mark.parametrize("field", ["id", "task", "wrapped", "master", "created_at"])
def test_a_changed_document_opens_nothing(field: str, tmp_path: Path) -> None:
    keys = keys_in(tmp_path / "keys", write_key(tmp_path / "master"))
    keys.new_sealer("task-1")
    keys.new_sealer("task-2")
    first, second = (tmp_path / "keys" / f"task-{number}.json" for number in (1, 2))
    mine, theirs = jsonio.decode(first.read_bytes()), jsonio.decode(second.read_bytes())
    other = {
        "master": "0123456789abcdef",
        "created_at": 7,
        **{name: theirs[name] for name in ("id", "task", "wrapped")},
    }
    first.write_bytes(jsonio.encode({**mine, field: other[field]}))
    if field == "created_at":  # the time is for people
        assert keys.sealer("task-1").task == "task-1"
        return
    with pytest.raises((DamagedStore, KeyUnavailable)):
        keys.sealer("task-1")


def test_a_name_that_is_no_file_name_has_a_key_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "日本語 の task"
    config = {"encryption": {"enabled": True, "key": write_key(tmp_path / "master")}}
    MessageStore(folder, load_settings(config, environ={})).add_message("user", "words")
    (kept,) = (folder / FOLDER).iterdir()
    assert kept.name.isascii()


def test_an_erased_key_never_comes_back(tmp_path: Path) -> None:
    settings = sealed_settings(write_key(tmp_path / "master"))
    base = tmp_path / "contexts"
    start_sealed(base, settings, "gone-1").stop()
    packed = (base / FOLDER / "gone-1.json").read_bytes()
    blind = load_settings({}, environ={})  # nobody needs the master key for that
    assert erase_key(OpenBase(base, blind), "gone-1")
    assert not erase_key(OpenBase(base, blind), "gone-1")
    assert not erase_key(OpenBase(base, blind), "never-1")
    tombstone = (base / FOLDER / "gone-1.json").read_bytes()
    assert jsonio.decode(packed)["wrapped"].encode() not in tombstone
    with refused(KeyUnavailable, "erased"):
        start_sealed(base, settings, "gone-1")
    with pytest.raises(InvalidId):
        erase_key(OpenBase(base, settings), "../master")
    assert keys_overview(OpenBase(base, settings)).erased == 1
    assert rotate_keys(OpenBase(base, settings)).rotated == 0


# ---- rotation ------------------------------------------------------------------------------------------------------


def test_rotation_needs_the_former_key_once_and_never_again(tmp_path: Path) -> None:
    base = tmp_path / "contexts"
    old, new = write_key(tmp_path / "old"), write_key(tmp_path / "new", "b")
    start_sealed(base, sealed_settings(old), "task-1").fail("words")
    with refused(KeyUnavailable, "other_master"):
        rotate_keys(OpenBase(base, sealed_settings(new)))
    both = sealed_settings(new, encryption={"enabled": True, "key": new, "former_keys": [old]})
    before = keys_overview(OpenBase(base, both))
    assert before.to_rotate == sum(before.data_keys.values()) == 2  # the task's, and the catalogue's
    told: list[tuple[int, int]] = []
    assert rotate_keys(OpenBase(base, both), lambda done, of: told.append((done, of))).rotated == 2
    assert told == [(1, 2), (2, 2)]
    assert rotate_keys(OpenBase(base, both)).rotated == 0
    assert keys_overview(OpenBase(base, sealed_settings(new))).to_rotate == 0
    start_sealed(base, sealed_settings(new), "task-2").stop()
    with refused(KeyUnavailable, "other_master"):
        start_sealed(base, sealed_settings(old), "task-1")


_ROTATING = """
import sys
from orihon.upkeep.keys import rotate_keys
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
config = {"encryption": {"key": sys.argv[2], "former_keys": [sys.argv[3]]}}
def told(done, of):
    if done == 20:
        print(done, flush=True)
        sys.stdin.readline()
rotate_keys(OpenBase(sys.argv[1], load_settings(config, environ={})), told)
"""


def test_a_rotation_that_is_killed_is_gone_on_with(tmp_path: Path) -> None:
    base = tmp_path / "contexts"
    old, new = write_key(tmp_path / "old"), write_key(tmp_path / "new", "b")
    keys = keys_in(base / FOLDER, old)
    sealed = {f"task-{number}": keys.new_sealer(f"task-{number}").seal("x", 1, b"words") for number in range(60)}
    command = [sys.executable, "-c", _ROTATING, str(base), new, old]
    with Child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "20\n"
        process.send_signal(signal.SIGKILL)
    both = sealed_settings(new, encryption={"key": new, "former_keys": [old]})
    half = keys_overview(OpenBase(base, both))
    assert half.to_rotate == len(sealed) - 20
    under_both = keys_in(base / FOLDER, new, old)
    assert all(under_both.sealer(task).open("x", 1, words) == b"words" for task, words in sealed.items())
    assert rotate_keys(OpenBase(base, both)).rotated == half.to_rotate
    under_new = keys_in(base / FOLDER, new)
    assert all(under_new.sealer(task).open("x", 1, words) == b"words" for task, words in sealed.items())


def test_rotations_and_erasures_at_the_same_time_leave_no_erased_key(tmp_path: Path) -> None:
    base = tmp_path / "contexts"
    old, new = write_key(tmp_path / "old"), write_key(tmp_path / "new", "b")
    keys = keys_in(base / FOLDER, old)
    tasks = [f"task-{number}" for number in range(40)]
    for task in tasks:
        keys.new_sealer(task)
    both = sealed_settings(new, encryption={"key": new, "former_keys": [old]})
    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(rotate_keys, OpenBase(base, both)) for _ in range(2)]
        erased = list(pool.map(lambda task: erase_key(OpenBase(base, both), task), tasks))
    assert all(erased)
    assert sum(each.result().rotated for each in done) <= len(tasks)
    assert keys_overview(OpenBase(base, both)).erased == len(tasks)


def test_keys_in_a_database_are_rotated_too(tmp_path: Path, emptied_postgres: Any) -> None:
    base = tmp_path / "contexts"
    old, new = write_key(tmp_path / "old"), write_key(tmp_path / "new", "b")
    start_sealed(base, sealed_settings(old, "postgres", emptied_postgres), "task-1").fail("words")
    both = sealed_settings(
        new, "postgres", emptied_postgres, encryption={"enabled": True, "key": new, "former_keys": [old]}
    )
    assert rotate_keys(OpenBase(base, both)).rotated == 2
    assert keys_overview(OpenBase(base, both)).to_rotate == 0
    start_sealed(base, sealed_settings(new, "postgres", emptied_postgres), "task-2").stop()
    assert not (base / FOLDER).exists()
    assert erase_key(OpenBase(base, both), "task-1")
    assert keys_overview(OpenBase(base, both)).erased == 1


def test_the_library_is_loaded_only_for_sealed_tasks(tmp_path: Path) -> None:
    program = (
        "import sys; from orihon import MessageStore; MessageStore('task').add_message('user', 'x');"
        "print([name for name in sys.modules if name.startswith('cryptography') or name == 'keyring'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert run.stdout.strip() == "[]"


def test_a_missing_library_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from orihon.errors import InvalidSettings

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    config = {"encryption": {"enabled": True, "key": write_key(tmp_path / "master")}}
    with refused(InvalidSettings, "encryption_extra"):
        MessageStore(tmp_path / "task", load_settings(config, environ={})).add_message("user", "words")
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_process_with_keys_leaves_no_core(tmp_path: Path) -> None:
    """What it has in memory is plain, and would lie on the disk when it dies."""
    program = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from orihon import TaskContextManager, TaskKey\n"
        "hard = resource.getrlimit(resource.RLIMIT_CORE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))\n"
        "key = Path(sys.argv[1]) / 'key'\n"
        "key.write_text('ab' * 32)\n"
        "key.chmod(0o600)\n"
        "config = {'encryption': {'enabled': True, 'key': f'file:{key}'}}\n"
        "TaskContextManager(Path(sys.argv[1]) / 'base', TaskKey('cli', '', '', 'task', '1'), config).stop()\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE)[0])\n"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "0"
