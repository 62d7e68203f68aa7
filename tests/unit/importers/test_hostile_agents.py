"""Files whose fields are anything, and files that are cut anywhere: no error, and what is read can be kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orihon.importers.registry import Problem, SaidItem, Thread, TranscriptEvent, importer
from orihon.importers.tool_pairs import ToolPairing
from orihon.system import jsonio
from tests.importing_agents import AGENT_SAMPLES, make_openhands_folder, make_openhands_sdk_folder

WRONG: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 0, -1, 10**30, 1.5, -0.5, math.nan, math.inf, [], {}, [None], [[]], {"": {}}, ["a", 1]),
        *("", "\0", "\ud800", "x" * 300, "../..", "2026-13-40T99", [math.nan], {"x": math.inf}),
    ]
) | st.just(json.loads("[" * 200 + "]" * 200))
SAMPLES = [sample[:2] for sample in AGENT_SAMPLES]
#: A folder of events differs from a list of them only in its last file.
FOLDERS = (make_openhands_folder, make_openhands_sdk_folder)
JSON = [(form, make, is_lines) for form, make, is_lines, is_json in AGENT_SAMPLES if is_json and make not in FOLDERS]
HEALTH = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def read_whole(form: str, path: Path) -> None:
    """Read a file to its end; every thread can be told to a log, every message written."""
    threads: dict[str, ToolPairing] = {}
    for found in importer(form).read(path):
        if isinstance(found, Thread):
            assert found.id
            threads.setdefault(found.id, ToolPairing())
        elif isinstance(found, TranscriptEvent):
            assert found.thread in threads
            list(threads[found.thread].take(found.item))
            if isinstance(found.item, SaidItem):
                for message in found.item.message.as_chat():
                    jsonio.encode(message.body())
        elif isinstance(found, Problem):
            assert found.cause
    for conversation in threads.values():
        list(conversation.end(close=True))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to everything inside a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(deeper for key, child in inside for deeper in places(child, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(("form", "make", "is_lines"), JSON, ids=lambda value: getattr(value, "__name__", str(value)))
@settings(max_examples=15, suppress_health_check=HEALTH)
@given(data=st.data())
def test_fields_that_are_anything(
    form: str, make: Callable[[Path], Path], is_lines: bool, tmp_path: Path, data: st.DataObject
) -> None:
    path = make(tmp_path)
    text = path.read_text(encoding="utf-8")
    value = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        value = replaced(value, data.draw(st.sampled_from(places(value))), data.draw(WRONG))
    if is_lines:
        path.write_text("".join(json.dumps(one) + "\n" for one in (value if isinstance(value, list) else [value])))
    else:
        path.write_text(json.dumps(value))
    read_whole(form, path)


@pytest.mark.parametrize(("form", "make"), SAMPLES, ids=lambda value: getattr(value, "__name__", str(value)))
@settings(max_examples=8, suppress_health_check=HEALTH)
@given(data=st.data())
def test_files_that_are_cut_or_overwritten(
    form: str, make: Callable[[Path], Path], tmp_path: Path, data: st.DataObject
) -> None:
    path = _once(make, tmp_path)
    raw = path.read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    rubbish = data.draw(st.binary(max_size=30))
    spoiled = raw[:start] + rubbish + (raw[start + len(rubbish) :] if data.draw(st.booleans()) else b"")
    path.write_bytes(spoiled)
    try:
        read_whole(form, path)
    finally:
        path.write_bytes(raw)


def _once(make: Callable[[Path], Path], folder: Path) -> Path:
    """The sample, made once: a database cannot be made over another one."""
    made = next((path for path in folder.rglob("*") if path.name == ".made"), None)
    if made is not None:
        return Path(made.read_text(encoding="utf-8"))
    path = make(folder)
    (folder / ".made").write_text(str(path), encoding="utf-8")
    return path


@pytest.mark.parametrize(("form", "make"), SAMPLES, ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_file_of_another_format_forced_upon_an_importer(
    form: str, make: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = make(tmp_path)
    for other in sorted({name for name, _ in SAMPLES}):
        read_whole(other, path)
