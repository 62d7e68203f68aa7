"""Which task a thread of another agent is: its key and its UUID.

Both follow from the format, the thread's own id and the user alone, so the same thread is the same task whenever and
from wherever it is read. ``round`` counts how often a thread whose past had changed was imported anew.
"""

from __future__ import annotations

import os
import re
import stat
import uuid as uuids
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

from orihon.catalogue.rows import SUBTASK
from orihon.importers.registry import Thread
from orihon.values.task import MAX_FIELD_CHARS, TaskKey

#: The type of an imported task.
SESSION = "session"
_NAMESPACE = uuids.UUID("b7a4f3d2-51c8-4e0b-9a66-0e8a1c2d9f35")
_REMOTE_URL = re.compile(r"^\s*url\s*=\s*(\S+)\s*$", re.MULTILINE)
_OWNER_AND_REPO = re.compile(r"[/:]([^/:\s]+)/([^/\s]+?)(?:\.git)?/?$")
_MOST_CONFIG = 1 << 16
_UNFIT = re.compile("[\0\ud800-\udfff]")


def task_uuid(form: str, thread_id: str, user: str, round_: int = 0) -> str:
    """The UUID of the task that a thread becomes."""
    name = "\0".join((form, thread_id, user, *([str(round_)] if round_ else ())))
    return str(uuids.uuid5(_NAMESPACE, name.encode("utf-8", "surrogatepass").hex()))


def task_key(form: str, thread: Thread, user: str) -> TaskKey:
    """The key of the task that a thread becomes."""
    if thread.key is not None:
        return owned_by(thread.key, user)
    owner, repo = repository_of(thread)
    kind = SESSION if thread.parent is None else SUBTASK
    return TaskKey(form, _fitting(owner), _fitting(repo), kind, _fitting(thread.id) or "-", _fitting(user))


def owned_by(key: TaskKey, user: str) -> TaskKey:
    """The key of a task that comes with one: whose it becomes is said by who imports it, or else by the key."""
    return replace(key, user=_fitting(user)) if user else key


def repository_of(thread: Thread) -> tuple[str, str]:
    """Owner and repository: as the thread tells, as the folder's remote tells, or the folder's name."""
    if thread.repository:
        owner, _, repo = thread.repository.rpartition("/")
        return owner, repo
    if not thread.cwd:
        return "", ""
    return _remote(thread.cwd) or ("", re.split(r"[/\\]", thread.cwd.rstrip("/\\"))[-1])


def repository_in(url: str) -> str:
    """``owner/repo`` of a remote's address; empty when it names none."""
    found = _OWNER_AND_REPO.search(url.strip())
    return f"{found[1]}/{found[2]}" if found else ""


@lru_cache(maxsize=1024)
def _remote(cwd: str) -> tuple[str, str] | None:
    """What the folder calls its remote. A transcript may name any folder: only one of our own is looked into."""
    with suppress(OSError, ValueError):
        config = Path(cwd) / ".git" / "config"
        is_ours = config.is_absolute() and all(_is_own(path) for path in (config.parent.parent, config.parent, config))
        if is_ours and stat.S_ISREG(config.lstat().st_mode):
            with config.open(encoding="utf-8", errors="replace") as file:
                urls = _REMOTE_URL.findall(file.read(_MOST_CONFIG))
            owner, _, repo = (repository_in(urls[0]) if urls else "").rpartition("/")
            return (owner, repo) if repo else None
    return None


def _is_own(path: Path) -> bool:
    """Does it belong to whoever imports, and is it no link?"""
    status = path.lstat()
    return status.st_uid == os.getuid() and not stat.S_ISLNK(status.st_mode)


def _fitting(value: str) -> str:
    """A text that may stand in a key: of a long one the end is replaced by a mark of the whole."""
    clean = _UNFIT.sub("\ufffd", value)
    if len(clean) <= MAX_FIELD_CHARS:
        return clean
    mark = blake2b(value.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{clean[: MAX_FIELD_CHARS - 17]}-{mark}"
