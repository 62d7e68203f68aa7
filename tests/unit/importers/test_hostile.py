"""Sessions of Claude Code and Codex, and chats, whose fields are anything: no error, and what is read can be kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orihon.importers.registry import Problem, Thread, TranscriptEvent, importer
from orihon.importers.tool_pairs import LogStep, SaidStep, ToolPairing
from orihon.system import jsonio
from orihon.texts import text
from tests.importing import Sample, make_chat_document, make_chat_lines, make_claude_code, make_codex
from tests.unit.importers.test_hostile_agents import WRONG, places, replaced

OURS = [
    Sample("claude-code", make_claude_code),
    Sample("codex", make_codex),
    Sample("openai-chat", make_chat_lines),
    Sample("openai-chat", make_chat_document, is_lines=False),
]


def read_whole(form: str, path: Path) -> None:
    """Read a file to its end, and make legal what is in it; every message can be written."""
    threads: dict[str, ToolPairing] = {}
    for found in importer(form).read(path):
        if isinstance(found, Thread):
            assert found.id
            threads.setdefault(found.id, ToolPairing())
        elif isinstance(found, TranscriptEvent):
            write(threads[found.thread].take(found.item))
    for conversation in threads.values():
        write(conversation.end(close=True))


def write(steps: list[LogStep | Problem]) -> None:
    for step in steps:
        if isinstance(step, SaidStep):
            jsonio.encode(step.message.body())
        elif isinstance(step, Problem):
            fields: dict[str, Any] = dict(step.fields)
            assert text(f"importing.problems.{step.cause}", **fields)


@pytest.mark.parametrize("sample", OURS, ids=lambda sample: sample.make.__name__)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_fields_that_are_anything(sample: Sample, tmp_path: Path, data: st.DataObject) -> None:
    path = sample.make(tmp_path)
    text = path.read_text(encoding="utf-8")
    value = [json.loads(line) for line in text.splitlines()] if sample.is_lines else json.loads(text)
    for _ in range(data.draw(st.integers(1, 3))):
        value = replaced(value, data.draw(st.sampled_from(places(value))), data.draw(WRONG))
    if sample.is_lines:
        path.write_text("".join(json.dumps(one) + "\n" for one in (value if isinstance(value, list) else [value])))
    else:
        path.write_text(json.dumps(value))
    read_whole(sample.format, path)


@pytest.mark.parametrize("sample", OURS, ids=lambda sample: sample.make.__name__)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_files_that_are_cut_or_overwritten(sample: Sample, tmp_path: Path, data: st.DataObject) -> None:
    path = sample.make(tmp_path)
    raw = path.read_bytes()
    at = data.draw(st.integers(0, len(raw)))
    path.write_bytes(raw[:at] + data.draw(st.binary(max_size=8)) + raw[at + data.draw(st.integers(0, 40)) :])
    read_whole(sample.format, path)
