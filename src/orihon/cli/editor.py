"""Where a new text comes from: an option, a file, standard input, or a person with an editor.

A text that somebody wrote in an editor is not lost when it cannot be used: its file stays and is named.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from orihon.errors import InvalidInput
from orihon.texts import text

MOST_BYTES = 16 << 20

_MEMORY = "/dev/shm"  # noqa: S108 - the folder in it is private


@contextmanager
def text_from(given: str | None, file: Path | None, old: str, *, off_disk: bool = False) -> Iterator[str]:
    """The text that was ``given``, that ``file`` holds (``-``: standard input), or that ``old`` becomes in an editor.

    One newline at the end of a file is not part of the text: editors put it there. With ``off_disk`` the editor gets
    its file in memory where the system has such a folder, whatever ``TMPDIR`` says: for what is sealed.
    """
    if given is not None and file is not None:
        raise InvalidInput("two_texts")
    if given is not None:
        yield given
    elif file is not None:
        yield _without_last_newline(_read(file))
    else:
        with _edited(old, off_disk=off_disk) as new:
            yield new


@contextmanager
def _edited(old: str, *, off_disk: bool) -> Iterator[str]:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidInput("no_editor")
    # Private, and so is what the editor puts beside the file.
    in_memory = (off_disk or not os.environ.get("TMPDIR")) and os.access(_MEMORY, os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="orihon-", dir=_MEMORY if in_memory else None))
    path = folder / "fold.md"
    before = (old + "\n").encode("utf-8", "surrogatepass")
    path.write_bytes(before)
    try:
        _run(editor, path)
        yield _without_last_newline(_read(path))
    except BaseException:
        if path.is_file() and path.read_bytes() != before:
            typer.echo(text("cli.edit.kept", path=path), err=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


def _run(editor: str, path: Path) -> None:
    # Ctrl-C belongs to the editor. A handler and not SIG_IGN, which the editor would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except (OSError, ValueError) as error:
        raise InvalidInput("editor_failed", editor=editor, detail=error) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if code:
        raise InvalidInput("editor_failed", editor=editor, detail=code)


def _read(file: Path) -> str:
    try:
        if str(file) == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with file.open("rb") as opened:
                data = opened.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InvalidInput("unreadable_text", path=file, detail=f"> {MOST_BYTES:,} bytes")
        return data.decode("utf-8", "surrogatepass")
    except OSError as error:
        raise InvalidInput("unreadable_text", path=file, detail=error.strerror or error) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("unreadable_text", path=file, detail=error.reason) from error


def _without_last_newline(content: str) -> str:
    return content.removesuffix("\n").removesuffix("\r")
