"""What is known of the proxy that runs for a base: where it listens, its token, and which wraps need it.

All of it lies in ``wraps`` in the base folder, for its owner only. Who lives is told by locks, which the system drops
with the process, however that ends: the proxy holds ``alive``, each wrap a file of its own. Whoever starts a proxy,
adds a wrap, or ends a proxy that nobody needs holds ``lock`` meanwhile; so two never start at once, and none is left by
the one it has just found.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orihon.system import jsonio
from orihon.system.clock import is_alive, process_start
from orihon.system.files import make_private_folder, open_private, replace_file, wrapping, write_all
from orihon.system.holding import is_locked_within, lock_file

FOLDER = "wraps"
LOG = "proxy.log"
#: To start a proxy takes seconds on a busy machine; so long others wait.
STARTING_SECONDS = 90.0
_REGISTERING_SECONDS = 2.0
_USER, _TOUCHED = ".wrap", ".tasks"
_NAME = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class RunningProxy:
    """A proxy as those see it who want to use it, or to start it again as it was."""

    port: int
    token: str | None = None
    upstream: str | None = None
    window: int | None = None
    strict: bool = False
    pid: int = 0
    is_for_wraps: bool = False  # ends with the last of them


class WrapFile:
    """That a wrap is there: a file that it has locked. It names the wrapped program, which may outlive the wrap."""

    def __init__(self, folder: Path) -> None:
        self.name = secrets.token_hex(6)
        self.path = folder / f"{self.name}{_USER}"
        self.touched_path = folder / f"{self.name}{_TOUCHED}"
        with wrapping(self.path):
            self._fd = open_private(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            os.close(open_private(self.touched_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))

    def names(self, pid: int) -> None:
        """The program that was started."""
        write_all(self._fd, jsonio.encode({"pid": pid, "start": process_start(pid)}))

    def touched(self) -> list[str]:
        """The tasks that the program's requests became, the first one first."""
        try:
            return self.touched_path.read_text(encoding="ascii").split()
        except OSError:
            return []

    def remove(self) -> None:
        """The wrap is over."""
        for path in (self.path, self.touched_path):
            with suppress(OSError):
                path.unlink()
        os.close(self._fd)


class ProxyPlace:
    """The folder of all that, beside the tasks of a base."""

    def __init__(self, base: Path) -> None:
        self.base = base.absolute()
        self.folder = self.base / FOLDER

    def make(self) -> None:
        make_private_folder(self.folder)

    @contextmanager
    def locked(self, seconds: float = STARTING_SECONDS) -> Iterator[None]:
        """Nobody else starts or ends the proxy meanwhile; ``StorageUnavailable`` when somebody takes too long."""
        fd = self._lock_file()
        try:
            lock_file(fd, self.folder / "lock", seconds=seconds)
            yield
        finally:
            os.close(fd)

    def lock_if_unneeded(self) -> bool:
        """Are there no wraps? Then none can come until this process has ended."""
        fd = self._lock_file()
        if is_locked_within(fd, 0) and not self.is_needed():
            return True
        os.close(fd)
        return False

    def _lock_file(self) -> int:
        self.make()
        path = self.folder / "lock"
        with wrapping(path):
            return open_private(path, os.O_RDWR | os.O_CREAT)

    # ---- the proxy -------------------------------------------------------------------------------------------------

    def running(self) -> RunningProxy | None:
        """The proxy, if it lives."""
        return self.last() if self.is_alive() else None

    def last(self) -> RunningProxy | None:
        """What is written down, whether it is still so or not."""
        try:
            return RunningProxy(**jsonio.decode((self.folder / "proxy.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def is_alive(self) -> bool:
        """Does a process hold the place of the proxy?"""
        try:
            fd = os.open(self.folder / "alive", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def register(self, proxy: RunningProxy) -> int | None:
        """This process is the proxy, as long as the descriptor is open; ``None``: another one is."""
        self.make()
        path = self.folder / "alive"
        with wrapping(path):
            fd = open_private(path, os.O_RDWR | os.O_CREAT)
        if not is_locked_within(fd, _REGISTERING_SECONDS):  # somebody who looks holds it for a moment, too
            os.close(fd)
            return None
        replace_file(self.folder / "proxy.json", [jsonio.encode(asdict(proxy))], durable=False)
        return fd

    def forget(self) -> None:
        """The proxy ends, and is not to be found any more."""
        with suppress(OSError):
            (self.folder / "proxy.json").unlink()

    @contextmanager
    def registered(self, proxy: RunningProxy) -> Iterator[None]:
        """A proxy that somebody has started by hand: wraps find it, too, unless there is another one already."""
        with self.locked():
            fd = self.register(proxy)
        try:
            yield
        finally:
            if fd is not None:
                self.forget()
                os.close(fd)

    def touch(self, wrap: str, uuid: str) -> None:
        """A request of a wrap became part of this task."""
        with suppress(OSError):  # only figures are lost, of a wrap that is gone
            if _NAME.fullmatch(wrap):
                fd = open_private(self.folder / f"{wrap}{_TOUCHED}", os.O_WRONLY | os.O_APPEND)
                try:
                    write_all(fd, f"{uuid}\n".encode())
                finally:
                    os.close(fd)

    # ---- the wraps -------------------------------------------------------------------------------------------------

    def is_needed(self, besides: WrapFile | None = None) -> bool:
        """Is there a wrap, or a program whose wrap was killed?"""
        return any(_is_live(path) for path in self._wraps() if besides is None or path != besides.path)

    def add(self) -> WrapFile:
        """One more wrap; what is left of dead ones goes. Call it while the place is locked."""
        for path in self._wraps():
            if not _is_live(path):
                for left in (path, path.with_suffix(_TOUCHED)):
                    with suppress(OSError):
                        left.unlink()
        return WrapFile(self.folder)

    def _wraps(self) -> list[Path]:
        return sorted(self.folder.glob(f"*{_USER}"))

    def log_tail(self, most: int = 2000) -> str:
        """What a proxy that was started for wraps has said last."""
        try:
            return (self.folder / LOG).read_bytes()[-most:].decode("utf-8", "replace").strip()
        except OSError:
            return ""


def _is_live(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        named: Any = jsonio.decode(os.read(fd, 1000) or b"null")
    except BlockingIOError:
        return True
    except ValueError:
        return False
    finally:
        os.close(fd)
    return isinstance(named, dict) and is_alive(int(named["pid"]), int(named["start"]))
