"""A folder that an agent may read and write, and nothing outside of it.

A path is resolved first, links included, and refused when it leaves the folder. The resolved path is then opened from
the folder down, one name after the other and never through a link, so that nobody can put a link in its way meanwhile.
A folder of Orihon's own in it (masking key, catalogue, other tasks) is as if it were not there.
Only regular files are read; a file is written whole or not at all and keeps its mode.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orihon.errors import InvalidSettings, ToolFailed

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe would otherwise be waited for.
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Workspace:
    """One folder and what is below it."""

    def __init__(self, folder: Path, reserved: Path | None = None) -> None:
        self.root = folder.resolve()
        self._reserved = None if reserved is None else reserved.resolve()
        if self._reserved is not None and self.root.is_relative_to(self._reserved):
            raise InvalidSettings("workspace_in_base", path=folder, base=reserved)

    def parts(self, path: str) -> tuple[str, ...]:
        """The names from the folder to the file that a path means, as it is now."""
        if "\0" in path:
            raise ToolFailed("outside", path=path.replace("\0", "\\0"))
        try:
            resolved = (self.root / path).resolve()
        except (OSError, RuntimeError) as error:  # too long, or links in a circle
            raise ToolFailed("io", path=path, detail=str(error)) from error
        except UnicodeEncodeError as error:  # half a character, which no file system has
            raise ToolFailed("no_file", path=path.encode("utf-8", "replace").decode()) from error
        if not resolved.is_relative_to(self.root):
            raise ToolFailed("outside", path=path)
        if self._reserved is not None and resolved.is_relative_to(self._reserved):
            raise ToolFailed("reserved", path=path)
        return resolved.relative_to(self.root).parts

    def relative(self, path: str) -> Path:
        """The path below the folder, links resolved."""
        return self.root.joinpath(*self.parts(path))

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """A descriptor of a regular file, to be read."""
        parts = self.parts(path)
        with _told(path), self._folder(parts[:-1]) as folder:
            if not parts:
                raise ToolFailed("is_folder", path=path)
            fd = os.open(parts[-1], _FILE_FLAGS, dir_fd=folder)
            try:
                mode = os.fstat(fd).st_mode
                if not stat.S_ISREG(mode):
                    raise ToolFailed("is_folder" if stat.S_ISDIR(mode) else "not_file", path=path)
                yield fd
            finally:
                os.close(fd)

    def write(self, path: str, data: bytes) -> bool:
        """Put a file in its place, whole; folders on the way are made. Was there none before?"""
        parts = self.parts(path)
        if not parts:
            raise ToolFailed("is_folder", path=path)
        with _told(path), self._folder(parts[:-1], create=True) as folder:
            mode = _mode_of(parts[-1], folder, path)
            temporary = f".{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = os.open(temporary, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
            try:
                with os.fdopen(fd, "wb") as file:
                    if mode is not None:
                        os.fchmod(fd, mode)
                    file.write(data)
                    file.flush()
                    os.fsync(fd)
                os.rename(temporary, parts[-1], src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            return mode is None

    @contextmanager
    def _folder(self, parts: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
        fd = os.open(self.root, _FOLDER_FLAGS)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = os.open(part, _FOLDER_FLAGS, dir_fd=fd)
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)

    def walk(self, path: str) -> Iterator[tuple[Path, int]]:
        """The regular files below a path with their sizes, in order; ``.git`` and links are passed by."""
        start = self.relative(path)
        if not start.exists():
            raise ToolFailed("no_file", path=path)
        if start.is_file():
            yield start.relative_to(self.root), start.stat().st_size
            return
        for folder, folders, files in os.walk(start):
            folders[:] = sorted(name for name in folders if name != ".git" and Path(folder, name) != self._reserved)
            for name in sorted(files):
                file = Path(folder, name)
                with suppress(OSError):  # it may vanish meanwhile
                    status = file.lstat()
                    if stat.S_ISREG(status.st_mode):
                        yield file.relative_to(self.root), status.st_size


def _mode_of(name: str, folder: int, path: str) -> int | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed("is_folder", path=path)
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed("not_file", path=path)
    return stat.S_IMODE(status.st_mode)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """The system's errors as a model can use them."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed("no_file", path=path) from error
    except OSError as error:
        raise ToolFailed("io", path=path, detail=error.strerror or str(error)) from error
