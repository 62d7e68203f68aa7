"""What ``orihon torture`` records of a process is what the process did: the system itself is asked."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.upkeep.torture.cuts import DiskRecord

_NAMES = (
    "openat",
    "mkdir",
    "mkdirat",
    "link",
    "linkat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
)
_CONTENTS = (
    "write",
    "writev",
    "pwrite64",
    "pwritev",
    "ftruncate",
    "truncate",
    "fsync",
    "fdatasync",
    "sendfile",
    "symlink",
)
_PROGRAM = (
    "import sys; from orihon.upkeep.torture.cuts import record_life; from orihon.upkeep.torture.play import STORAGE;"
    "record_life(lambda *_: None, *sys.argv[1:3], {'context_storage': {'backend': sys.argv[3], **STORAGE}})"
)
_CALL = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)(?:<([^>]*)>)?")
_OPEN = re.compile(r"/proc/self/fd/(\d+)")
_FD = re.compile(r"(?:AT_FDCWD|-?\d+)(?:<([^>]*)>)?")


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_every_call_that_changes_the_disk_is_recorded_in_order(backend: str, tmp_path: Path) -> None:
    if shutil.which("strace") is None:
        assert os.environ.get("CI") != "true", "strace is needed in CI"
        pytest.skip("needs strace")
    root, into, trace = tmp_path / "life", tmp_path / "record", tmp_path / "trace"
    calls = ",".join((*_NAMES, *_CONTENTS))
    strace = ["strace", "-f", "-y", "--seccomp-bpf", "-s", "0", "-o", str(trace), "-e", f"trace={calls}"]
    program = [sys.executable, "-c", _PROGRAM, str(root), str(into), backend]
    subprocess.run([*strace, *program], check=True, timeout=120)
    record: DiskRecord = pickle.loads(into.read_bytes())
    recorded = [(call.kind, call.path) for call in record.calls]
    seen = list(_seen(_whole(trace.read_text().splitlines()), root))
    assert len(recorded) > 500
    assert recorded == seen


def _whole(lines: list[str]) -> Iterator[str]:
    """The lines of the trace; a call during which another thread got its turn stands on two."""
    begun: dict[str, str] = {}
    for line in lines:
        process = line.split(" ", 1)[0]
        if line.endswith("<unfinished ...>"):
            begun[process] = line.removesuffix("<unfinished ...>").rstrip()
        elif " resumed>" in line:
            yield begun.pop(process) + line.partition(" resumed>")[2]
        else:
            yield line


def _seen(lines: Iterator[str], root: Path) -> Iterator[tuple[str, str]]:
    """The changes below the root as the system saw them, in the words of the record."""
    there: set[str] = set()
    folders: dict[str, str] = {}  # what a process has open by its number
    for line in lines:
        found = _CALL.match(line)
        assert found or "(" not in line or "+++" in line or "---" in line, line
        if found is None or int(found[3]) < 0:
            continue
        name, arguments = found[1], found[2]
        for number in set(_OPEN.findall(arguments)) & folders.keys():
            arguments = arguments.replace(f"/proc/self/fd/{number}/", f"{folders[number]}/")
        if name == "openat":
            folders[found[3]] = found[4]
        paths = [path for path in _paths(name, arguments) if path.startswith(f"{root}") and not path.endswith("-shm")]
        if not paths or (paths[-1] == str(root) and name.startswith("mkdir")):
            continue
        path = paths[-1]
        if name == "openat":
            if "O_CREAT" in arguments and path not in there:
                there.add(path)
                yield "create", path
            elif "O_TRUNC" in arguments:
                yield "truncate", path
            continue
        kind = _kind(name, arguments)
        if kind in ("rename", "unlink", "rmdir"):
            there = {_moved(one, paths[0], path) for one in there if kind == "rename" or one != path}
            if kind == "rename":
                folders = {number: _moved(one, paths[0], path) for number, one in folders.items()}
        elif kind in ("mkdir", "link"):
            there.add(path)
        yield kind, path


def _kind(name: str, arguments: str) -> str:
    if name == "unlinkat":
        return "rmdir" if "AT_REMOVEDIR" in arguments else "unlink"
    plain = {"writev": "write", "pwrite64": "write", "pwritev": "write", "fdatasync": "sync", "fsync": "sync"}
    plain |= {
        "ftruncate": "truncate",
        "renameat": "rename",
        "renameat2": "rename",
        "mkdirat": "mkdir",
        "linkat": "link",
    }
    return plain.get(name, name)


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path


def _paths(name: str, arguments: str) -> list[str]:
    if name in ("write", "writev", "pwrite64", "pwritev", "ftruncate", "fsync", "fdatasync", "sendfile"):
        found = _FD.match(arguments)
        return [found[1]] if found and found[1] else []
    folder, paths = "", []
    for found in re.finditer(r'(?:AT_FDCWD|\d+)<([^>]*)>|"([^"]*)"', arguments):
        if found[1] is not None:
            folder = found[1]
        else:
            paths.append(str(Path(folder) / found[2]))
    return paths
