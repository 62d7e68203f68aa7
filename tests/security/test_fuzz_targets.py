"""Whole ways in, against hostile input: every format of transcripts, the answers of models, queries, ids, messages.

Beside ``tests/unit/test_fuzz.py``, which has the parsers one by one; the same options make it look further.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import strategies as st

from orihon import export_task, import_transcripts
from orihon.drivers.broker import _uuid_in
from orihon.errors import InvalidMessage, OrihonError
from orihon.guard.keys import key_id_of
from orihon.importers.registry import FORMATS
from orihon.importers.sessions import read_sessions
from orihon.llm.clients import get_llm_client
from orihon.llm.scripted import Fault, ScriptedModel
from orihon.llm.scripted_dialects import Reply, Speech
from orihon.runtime.mcp.config import Approvals, whole_digest
from orihon.search.history import search_history
from orihon.system import jsonio
from orihon.system.clock import as_typed, as_utc
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskKey, check_id
from tests.damage import paused_task
from tests.fuzzing import fuzz, hostile_json, hostile_text, spoiled, tree
from tests.importing import SAMPLES, Sample
from tests.unit.importers.test_seed_tree import SCHEMA
from tests.unit.test_fuzz import SETTINGS, _refused_or


def make_orihon(folder: Path) -> Path:
    """A task of ours, exported."""
    uuid, _ = paused_task(folder.parent / "ours", "files")
    folder.mkdir(parents=True, exist_ok=True)
    export_task(folder.parent / "ours", uuid, SETTINGS, "jsonl", folder / "task.jsonl")
    return folder / "task.jsonl"


def make_seed_tree(folder: Path) -> Path:
    """A task of the first design."""
    path = folder / "logs" / "contexts" / "github" / "kim" / "shop" / "issue_27" / "context.db"
    path.parent.mkdir(parents=True)
    connection = apsw.Connection(str(path))
    connection.execute(SCHEMA)
    for role, content, metadata in (("user", "How many?", "{}"), ("assistant", "17", '{"tool_call": {"name": "c"}}')):
        connection.execute("INSERT INTO messages (role, content, metadata) VALUES (?, ?, ?)", (role, content, metadata))
    connection.execute(
        "INSERT INTO summaries (start_message_id, end_message_id, summary_content) VALUES (1, 2, 'seventeen')"
    )
    connection.close()
    return path


OWN = [Sample("orihon", make_orihon), Sample("seed-tree", make_seed_tree, is_lines=False, is_json=False)]
ALL = {sample.format: sample for sample in [*SAMPLES, *OWN]}


def keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys_in(inner)
    elif isinstance(value, str) and len(value) < 30:
        yield value  # names of kinds and roles


def vocabulary(data: bytes) -> list[str]:
    """The words that a format is made of."""
    found: set[str] = set()
    for text in [*data.split(b"\n"), data]:
        with suppress(ValueError):
            found.update(keys_in(jsonio.decode(text)))
    return sorted(found)[:200] or ["role"]


def test_every_format_is_tried() -> None:
    assert set(ALL) == set(FORMATS)


@pytest.mark.parametrize("sample", OWN, ids=[sample.format for sample in OWN])
def test_transcripts_of_our_own_that_were_spoiled(tmp_path: Path, sample: Sample, fuzz_examples: int) -> None:
    path = sample.make(tmp_path / "theirs")
    whole, base = path.read_bytes(), tmp_path / "base"
    outside = tree(tmp_path, without=base)

    def check(data: bytes) -> None:
        path.write_bytes(data)
        report = import_transcripts(base, SETTINGS, [path], user="me")
        assert not [problem.said for problem in report.problems if problem.cause == "failed"]

    fuzz(max(1, fuzz_examples // 3), spoiled(whole), check)
    left = {name: seen for name, seen in tree(tmp_path, without=base).items() if name != str(path)}
    assert left == {name: seen for name, seen in outside.items() if name != str(path)}


@pytest.mark.parametrize("name", FORMATS)
def test_every_importer_takes_anything_that_is_made_of_its_own_words(
    tmp_path: Path, name: str, fuzz_examples: int
) -> None:
    """Not a good file with a hole in it, but records in which nothing is what and where it should be."""
    sample = ALL[name]
    path = sample.make(tmp_path / "theirs")
    whole = path.read_bytes()
    records = st.lists(hostile_json(*vocabulary(whole)), min_size=1, max_size=5)

    def check(values: list[Any]) -> None:
        for text in ("\n".join(map(json.dumps, values)), json.dumps(values), json.dumps(values[0])):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            read = read_sessions(path, name)
            assert "failed" not in {problem.cause for problem in read.problems.named()}, read.problems.named()

    fuzz(fuzz_examples, records, check)


# ---- models ----------------------------------------------------------------------------------------------------------

REPLY = Reply("It is 17.", [("count", {"what": "pears"}), ("sum", '{"a": 1')], reasoning="Let me see.")
DIALECTS = ("openai", "anthropic", "ollama")


def answer_of(dialect: str, is_streamed: bool) -> bytes:
    speech = Speech(REPLY, {"model": "m"}, 400, [1, 2])
    return b"".join(speech.streamed(dialect)) if is_streamed else jsonio.encode(speech.whole(dialect))


@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_answers_of_a_model(dialect: str, is_streamed: bool, fuzz_examples: int) -> None:
    """From the socket to the answer: whatever a server sends is an answer, or an error of ours in words."""
    good = answer_of(dialect, is_streamed)
    kinds = st.sampled_from(["application/json", "text/event-stream", "application/x-ndjson", "text/html", ""])
    statuses = st.sampled_from([200, 200, 200, 200, 400, 401, 404, 413, 429, 500, 529])
    waits = st.sampled_from(["0", "-1", "9" * 30, "nan", "Fri, 99 Foo", "1e400", ""])
    sent: list[Fault] = []
    with ScriptedModel(lambda _: sent[-1]) as model:
        section = {"base_url": model.base_url, "model": "m"}
        config = {"llm": {"provider": dialect, "retries": 0, "stream": is_streamed, dialect: section}}

        def check(given: tuple[bytes, str, int, str]) -> None:
            body, kind, status, wait = given
            sent.append(Fault(status, body, {"Retry-After": wait}, kind))
            client = get_llm_client(config)
            _refused_or(lambda _: client.create_chat_completion([{"role": "user", "content": "How many?"}]))(None)
            client.send_user_message("How many?")
            _refused_or(lambda _: client.get_response())(None)
            client.close()

        fuzz(max(4, fuzz_examples // 2), st.tuples(spoiled(good), kinds, statuses, waits), check)


# ---- queries, ids, messages ------------------------------------------------------------------------------------------


def test_queries_from_the_question_to_the_hits(tmp_path: Path, fuzz_examples: int) -> None:
    """The language that people type, down to the one that the database speaks."""
    paused_task(tmp_path / "base", "sqlite")
    signs = st.lists(
        st.sampled_from(
            ['"', "*", "-", "(", ")", ":", "^", "NEAR", "AND", "OR", "NOT", "Step", "手順", "\\", "'", "{", "+"]
        )
    ).map(" ".join)
    with OpenBase(tmp_path / "base", SETTINGS) as base:

        def check(given: tuple[str, str]) -> None:
            asked, filtered = given
            for more in ({}, {"tasks": [filtered]}, {"users": [filtered]}, {"roles": [filtered]}, {"since": filtered}):
                _refused_or(lambda query, more=more: search_history(base, query, **more))(asked)  # type: ignore[misc]

        fuzz(fuzz_examples, st.tuples(st.one_of(hostile_text(), signs), hostile_text()), check)
        assert search_history(base, "Step").hits, "the index has survived it"


def test_ids_tell_what_they_name_apart(tmp_path: Path, fuzz_examples: int) -> None:
    """Keys come back from JSON as they were; ids of data keys are names of files, each of one task."""
    seen: dict[str, str] = {}

    def check(said: list[str]) -> None:
        for name in said:
            key_id = key_id_of(name)
            assert seen.setdefault(key_id, name) == name
            assert "/" not in key_id
            assert key_id not in ("", ".", "..")
            assert "\0" not in key_id
            _refused_or(check_id)(name)
            for read in (as_typed, as_utc):
                with suppress(ValueError):
                    read(name)
            assert _uuid_in(name) is None or isinstance(_uuid_in(name), str)
        with suppress(OrihonError):
            key = TaskKey(*said)
            assert TaskKey.from_dict(jsonio.decode(jsonio.encode({**key.as_dict(), "user": key.user}))) == key

    fuzz(fuzz_examples, st.lists(hostile_text(), min_size=6, max_size=6), check)


def test_messages_of_a_broker_and_definitions_of_tools(tmp_path: Path, fuzz_examples: int) -> None:
    approvals = Approvals(tmp_path)

    def check(value: Any) -> None:
        body = json.dumps(value)
        assert _uuid_in(body) is None or _uuid_in(body) == value["uuid"]
        assert _uuid_in(body.encode()) == _uuid_in(body)
        decoded = None
        with suppress(ValueError):
            decoded = jsonio.decode(body)
        if isinstance(decoded, dict):
            with suppress(InvalidMessage):  # of a number that JSON has not
                digest = whole_digest(decoded, {"info": decoded})
                assert digest == whole_digest(dict(reversed(decoded.items())), {"info": decoded})
                _refused_or(lambda given: approvals.refused("s", given, {}))({"t": digest})

    fuzz(fuzz_examples, hostile_json("uuid", "title", "annotations", "inputSchema"), check)
