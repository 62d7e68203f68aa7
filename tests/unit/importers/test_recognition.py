"""Which format a file is of: every sample is of exactly one, whatever its head looks like."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orihon.importers.lines import peek
from orihon.importers.registry import FORMATS, HEAD_BYTES, importer, recognised
from tests.importing_agents import AGENT_SAMPLES

#: Takes nearly any list of messages, and is asked last.
WIDE = "openai-chat"


def head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


@pytest.mark.parametrize(
    ("form", "make"), [sample[:2] for sample in AGENT_SAMPLES], ids=lambda value: getattr(value, "__name__", value)
)
def test_every_sample_is_of_one_format(form: str, make: Callable[[Path], Path], tmp_path: Path) -> None:
    path = make(tmp_path)
    found = [name for name in FORMATS if importer(name).recognises(head(path), path)]
    assert [name for name in found if name != WIDE] == [form]
    first = recognised(head(path), path)
    assert first is not None
    assert first.name == form


@pytest.mark.parametrize(
    "raw", [b"", b"\0" * 100, b"[]", b"{}", b"{" * 5000, b"[" * 5000, b"\xff\xfe\0\0", b'"text"', b"# Title\n\ntext"]
)
def test_rubbish_is_of_no_format(raw: bytes, tmp_path: Path) -> None:
    assert recognised(raw, tmp_path / "a.json") is None


class TestPeek:
    def test_a_document_that_is_cut(self) -> None:
        raw = json.dumps({"name": "pears", "list": [{"a": 1}, {"b": [1, 2, 3]}]}, indent=2).encode()
        for end in range(raw.index(b"pears") + 7, len(raw)):
            assert peek(raw[:end]).first["name"] == "pears"
        seen = peek(raw[: raw.index(b"3")])
        assert seen.first["list"][0] == {"a": 1}

    def test_lines_that_are_cut(self) -> None:
        assert [one["n"] for one in peek(b'{"n": 1}\n{"n": 2}\n{"n": 3').found] == [1, 2]

    def test_a_list_that_is_cut(self) -> None:
        seen = peek(b'[{"n": 1}, {"n": 2, "deep": {"x": "y')
        assert seen.is_list
        assert [one["n"] for one in seen.found] == [1, 2]

    def test_other_encodings(self) -> None:
        assert peek('{"name": "梨"}'.encode("utf-16")).first == {"name": "梨"}
        assert peek(b"\xef\xbb\xbf" + '{"name": "梨"}'.encode()).first == {"name": "梨"}
