"""Measures how plain the house is: ``python -m scripts.house``. ``make check`` fails when a number gets worse.

Half of the numbers are read from the source, half are measured at a small task in a temporary folder. To get better is
welcome: then the budget in ``BUDGETS`` becomes the new number, and there is no way back.
"""

from __future__ import annotations

import ast
import http.client
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import orihon

PACKAGE = Path(orihon.__file__).parent
SOURCE = PACKAGE.parent

# What a number may be at most. The second is what is wanted in the end, where that is less.
BUDGETS: dict[str, tuple[int, int]] = {
    "entries at the top of the package": (29, 29),  # with proxy/, mcp/ and adapters/
    "modules at its root": (4, 4),
    "names in __all__": (25, 25),
    "Python lines in src": (105_500, 75_000),
    "files in src": (550, 550),
    "places that acquire a lease": (1, 1),
    "tests for the scratch folder": (0, 0),
    "spellings of mask.key": (1, 1),
    "call levels from add to the write": (5, 5),
    "catalogue opens for one page": (0, 0),
    "JSON decodes and encodes in a view of 120 messages": (120, 120),
    "public type names with two meanings": (5, 5),
}

_MESSAGES = 120
_SCRATCH = re.compile(r"[!=]= SCRATCH\b|\bin \([^()]*(?:\([^()]*\)[^()]*)*\bSCRATCH\)")
_MASK_KEY = re.compile(r"[\"']mask\.key[\"']")
_WRITES = (os.write, os.writev, os.pwrite, os.pwritev)


def main(*arguments: str) -> int:
    """Print every number; with ``--check`` only those that are too large, and whether there are any."""
    is_check = "--check" in arguments
    found = {**_entries(), **_spellings(), **_measured()}
    worse = {name: value for name, value in found.items() if value > BUDGETS[name][0]}
    for name, value in (worse if is_check else found).items():
        budget, wanted = BUDGETS[name]
        print(f"{value:7,}  {name} (at most {budget:,}{f', wanted {wanted:,}' if wanted < budget else ''})")
    return 1 if is_check and worse else 0


@cache
def _modules() -> dict[Path, str]:
    return {path.relative_to(SOURCE): path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def _trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(text) for path, text in _modules().items()}


def _entries() -> dict[str, int]:
    """What ``ls`` and ``wc`` show."""
    at_top = [path for path in PACKAGE.iterdir() if path.name != "__pycache__"]
    return {
        "entries at the top of the package": sum(path.is_dir() or path.suffix == ".py" for path in at_top),
        "modules at its root": sum(path.suffix == ".py" for path in at_top),
        "names in __all__": len(orihon.__all__),
        "Python lines in src": sum(text.count("\n") for text in _modules().values()),
        "files in src": len(_modules()),
    }


def _spellings() -> dict[str, int]:
    """What ``grep`` shows."""

    def times(pattern: re.Pattern[str]) -> int:
        return sum(len(pattern.findall(text)) for text in _modules().values())

    return {
        "places that acquire a lease": _lease_sites(),
        "tests for the scratch folder": times(_SCRATCH),
        "spellings of mask.key": times(_MASK_KEY),
        "public type names with two meanings": sum(len(homes) > 1 for homes in type_homes().values()),
    }


def type_homes() -> dict[str, set[Path]]:
    """In which modules each public type is defined: classes, and other names for types."""
    homes: dict[str, set[Path]] = defaultdict(set)
    for path, tree in _trees().items():
        for node in tree.body:
            if name := _type_name(node):
                homes[name].add(path)
    return homes


def _type_name(node: ast.stmt) -> str | None:
    match node:
        case ast.ClassDef(name=name):
            return None if name.startswith("_") else name
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Name() | ast.Attribute() | ast.Subscript() | ast.BinOp()
        ):
            return name if name[0].isupper() and not name.isupper() else None
    return None


def _lease_sites() -> int:
    """A lease is of something, unlike a lock: its ``acquire`` has an argument without a name."""
    near = [_trees()[path] for path, text in _modules().items() if ".acquire(" in text]
    calls = (node for tree in near for node in ast.walk(tree) if isinstance(node, ast.Call))
    return sum(
        isinstance(call.func, ast.Attribute) and call.func.attr == "acquire" and bool(call.args) for call in calls
    )


def _measured() -> dict[str, int]:
    """What happens at a small task."""
    with ExitStack() as at_end:
        folder = at_end.enter_context(tempfile.TemporaryDirectory())
        at_end.enter_context(patch.dict(os.environ, _plain_environment(), clear=True))
        key = orihon.TaskKey("cli", "", "", "task", "house")
        task = at_end.enter_context(orihon.TaskContextManager(folder, key, uuid="house"))
        for number in range(_MESSAGES):
            task.message_store.add_message("user", f"message {number}")
        return {
            "JSON decodes and encodes in a view of 120 messages": _json_calls(task.message_store.get_messages_for_llm),
            "call levels from add to the write": _write_depth(lambda: task.message_store.add_message("user", "deep")),
            "catalogue opens for one page": _page_opens(folder),
        }


def _plain_environment() -> dict[str, str]:
    """Nobody's own settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("ORIHON_", "CONTEXT_STORAGE_"))}


def _write_depth(add: Callable[[], object]) -> int:
    """How many functions of ours lie on one another when the bytes go out."""
    depths: list[int] = []

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and called in _WRITES:
            depths.append(sum(_is_ours(caller) for caller in _callers(frame)))

    _watched(watch, add)
    return max(depths)


def _json_calls(read: Callable[[], object]) -> int:
    """How often one of the JSON libraries is asked."""
    calls = 0

    def watch(frame: FrameType, event: str, called: Any) -> None:
        nonlocal calls
        if event == "c_call":
            calls += str(getattr(called, "__module__", "")).startswith(("orjson", "msgspec"))
        elif event == "call":
            calls += frame.f_globals.get("__name__") == "json" and frame.f_code.co_name in ("loads", "dumps")

    _watched(watch, read)
    return calls


def _watched(watch: Callable[[FrameType, str, Any], None], act: Callable[[], object]) -> None:
    sys.setprofile(watch)
    try:
        act()
    finally:
        sys.setprofile(None)


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_ours(frame: FrameType) -> bool:
    return Path(frame.f_code.co_filename).is_relative_to(PACKAGE)


def _page_opens(folder: str) -> int:
    """How often a server that has shown the page before opens the catalogue to show it again."""
    from orihon.web.server import Listening

    with orihon.WebServer(folder, orihon.load_settings({}, environ={}), Listening(port=0)) as server:
        server.start()
        name = f"127.0.0.1:{server.port}"
        form = urlencode({"token": server.token})
        entered = _asked(name, "POST", "/login", form, {"Content-Type": "application/x-www-form-urlencoded"})
        cookie = {"Cookie": entered.headers["set-cookie"].partition(";")[0]}
        assert _asked(name, "GET", "/tasks/house", None, cookie).status == 200
        with _opens_counted() as opened:
            assert _asked(name, "GET", "/tasks/house", None, cookie).status == 200
        return len(opened)


def _asked(name: str, method: str, path: str, body: str | None, headers: dict[str, str]) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(name, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


@contextmanager
def _opens_counted() -> Iterator[list[str]]:
    """What is opened meanwhile, by any thread."""
    from orihon.catalogue.sqlite_db import SqliteTasks

    opened: list[str] = []
    really = SqliteTasks.open

    def counting(tasks: SqliteTasks) -> None:
        opened.append(tasks.where)
        really(tasks)

    with patch.object(SqliteTasks, "open", counting):
        yield opened


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
