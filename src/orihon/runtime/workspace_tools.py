"""``workspace_read_file``, ``workspace_write_file``, ``workspace_list_files``, ``workspace_search``.

Each answers with no more than the output limit and says how to get the rest. Searching is for plain text: an expression
from a model could keep the process busy for ever.
"""

from __future__ import annotations

import fnmatch
import io
import os
from collections.abc import Iterator
from pathlib import Path

from orihon.errors import ToolFailed
from orihon.runtime.builtin_tools import BuiltinTool, Deadline
from orihon.runtime.tool import ServerAnswer
from orihon.runtime.tool_arguments import Arguments
from orihon.runtime.tool_output import excerpt
from orihon.runtime.workspace import Workspace
from orihon.texts import text

MOST_FILE_BYTES = 16 << 20
_SNIFFED = 8192
_LONGEST_LINE = 300  # characters of a line that a search shows
_CHECK_EVERY = 4096  # lines between two looks at the clock

_PATH = {"type": "string", "description": "Path relative to the workspace."}
_LINES = {"type": "string", "description": 'Lines to give, counted from 1: "10-20", "10-" or "10". Default: all.'}
_PATTERN = {"type": "string", "description": 'Only files whose path or name matches, for example "*.py".'}


def workspace_tools(folder: Path, limit: int, reserved: Path | None = None) -> list[BuiltinTool]:
    """The file tools of one workspace; nothing in the folder ``reserved`` is read or written."""
    tools = _FileTools(Workspace(folder, reserved), limit)
    return [
        BuiltinTool(
            "read_file",
            "Read a text file of the workspace. A long file comes in parts: ask for the lines you need.",
            {"path": _PATH, "lines": _LINES},
            tools.read,
            ["path"],
        ),
        BuiltinTool(
            "write_file",
            "Write a text file of the workspace, replacing what it had. Missing folders are made.",
            {"path": _PATH, "content": {"type": "string", "description": "The whole new content."}},
            tools.write,
            ["path", "content"],
            ordered=True,
        ),
        *_finding_tools(tools),
    ]


def _finding_tools(tools: _FileTools) -> list[BuiltinTool]:
    return [
        BuiltinTool(
            "list_files",
            "List files of the workspace with their sizes in bytes, also in folders below.",
            {
                "path": {**_PATH, "description": "Folder to list, relative to the workspace. Default: all of it."},
                "pattern": _PATTERN,
                "limit": {"type": "integer", "description": "At most so many files. Default: 500."},
            },
            tools.list,
        ),
        BuiltinTool(
            "search",
            "Find lines of text files in the workspace that contain a text (not an expression).",
            {
                "query": {"type": "string", "description": "The text to look for."},
                "path": {**_PATH, "description": "File or folder to search. Default: the whole workspace."},
                "pattern": _PATTERN,
                "ignore_case": {"type": "boolean", "description": "Default: false."},
                "limit": {"type": "integer", "description": "At most so many lines. Default: 100."},
            },
            tools.search,
            ["query"],
        ),
    ]


class _FileTools:
    def __init__(self, workspace: Workspace, limit: int) -> None:
        self._workspace = workspace
        self._limit = limit

    def read(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        path = arguments.text("path")
        first, last = arguments.lines("lines")
        with self._workspace.opened(path) as fd:
            size = os.fstat(fd).st_size
            if size > MOST_FILE_BYTES:
                raise ToolFailed("too_large", path=path, size=size, most=MOST_FILE_BYTES)
            with os.fdopen(os.dup(fd), "rb") as file:
                if b"\0" in file.read(_SNIFFED):
                    raise ToolFailed("binary", path=path)
                file.seek(0)
                found = excerpt(_text_lines(file), first, last, self._limit)
        if not found.lines and size:
            raise ToolFailed("no_lines", path=path, first=first)
        return ServerAnswer(found.told(), is_cut=found.is_cut)

    def write(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        path, content = arguments.text("path"), arguments.text("content")
        data = content.encode()
        if len(data) > MOST_FILE_BYTES:
            raise ToolFailed("too_large", path=path, size=len(data), most=MOST_FILE_BYTES)
        is_new = self._workspace.write(path, data)
        return ServerAnswer(text("tools.file_new" if is_new else "tools.file_replaced", path=path, size=len(data)))

    def list(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        most = arguments.number("limit", 500, most=10_000)
        names: list[str] = []
        for path, size in self._files(arguments, deadline, "workspace_list_files"):
            if len(names) == most:
                return ServerAnswer("\n".join([*names, text("tools.more_found", most=most)]), is_cut=True)
            names.append(f"{path.as_posix()}\t{size}")
        return ServerAnswer("\n".join(names) or text("tools.nothing_found"))

    def search(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        query = arguments.text("query")
        if not query.strip():
            raise ToolFailed("argument_missing", name="query")
        fold = arguments.flag("ignore_case")
        wanted = query.casefold() if fold else query
        most = arguments.number("limit", 100, most=1000)
        found: list[str] = []
        for path, size in self._files(arguments, deadline, "workspace_search"):
            if size > MOST_FILE_BYTES:
                continue
            for number, line in self._lines(path, deadline):
                if wanted in (line.casefold() if fold else line):
                    if len(found) == most:
                        return ServerAnswer("\n".join([*found, text("tools.more_found", most=most)]), is_cut=True)
                    found.append(f"{path.as_posix()}:{number}: {line.strip()[:_LONGEST_LINE]}")
        return ServerAnswer("\n".join(found) or text("tools.nothing_found"))

    def _files(self, arguments: Arguments, deadline: Deadline, tool: str) -> Iterator[tuple[Path, int]]:
        pattern = arguments.text("pattern", "*")
        for path, size in self._workspace.walk(arguments.text("path", ".")):
            deadline.check(tool)
            if fnmatch.fnmatchcase(path.as_posix(), pattern) or fnmatch.fnmatchcase(path.name, pattern):
                yield path, size

    def _lines(self, path: Path, deadline: Deadline) -> Iterator[tuple[int, str]]:
        try:
            with self._workspace.opened(path.as_posix()) as fd, os.fdopen(os.dup(fd), "rb") as file:
                if b"\0" in file.read(_SNIFFED):
                    return
                file.seek(0)
                for number, line in enumerate(_text_lines(file), start=1):
                    if number % _CHECK_EVERY == 0:
                        deadline.check("workspace_search")
                    yield number, line
        except ToolFailed as error:
            if error.reason == "timed_out":
                raise  # any other means a file that cannot be read: there may be others


def _text_lines(file: io.BufferedReader) -> Iterator[str]:
    for line in file:
        yield line.decode(errors="replace").removesuffix("\n")
