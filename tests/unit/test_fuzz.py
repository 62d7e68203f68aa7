"""Every parser and every id against hostile input: an error of ours at most, no hang, nothing written elsewhere.

``pytest tests/unit/test_fuzz.py --fuzz 5000`` (or ``make fuzz``) looks further than the suite has time for.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from orihon import MessageStore, import_transcripts
from orihon.audit.record import AuditRecord, BrokenLine, head_of, read_line
from orihon.catalogue import Catalogue
from orihon.classic.documents import TokenOptimizer, compress_context
from orihon.compression.documents.sections import CompressionLevel
from orihon.compression.notes.extractor import summarize
from orihon.compression.trust import Sources, quoted
from orihon.drivers.broker_address import BrokerAddress
from orihon.drivers.http import shown_url
from orihon.drivers.objects import FolderStorage, ObjectStorage
from orihon.drivers.postgres.address import addressed
from orihon.errors import DamagedStore, OrihonError
from orihon.guard.masking.redaction import Redactor
from orihon.guard.sealer import Sealer
from orihon.importers.lines import peek
from orihon.llm import answers, tools, transport
from orihon.notifications.webhook import Webhook
from orihon.runtime.mcp.config import read_mcp_servers
from orihon.runtime.mcp.stdio import _parsed
from orihon.runtime.sources.base import without_markers
from orihon.runtime.sources.folder import read_task
from orihon.runtime.tool import Arguments, sanitize_arguments
from orihon.runtime.workspace_tools import Workspace
from orihon.search.query import parse_query, tokens, wholes
from orihon.settings import load_settings
from orihon.store.factory import open_for_reading
from orihon.system import jsonio
from orihon.tasks.place import TaskFolders
from orihon.tasks.task_name import named_task
from orihon.transfer.archive.archive_store import ArchivedTask
from orihon.transfer.archive.packed_file import PackedContents, unpack
from orihon.transfer.backup.manifest import FileEntry, read_manifest
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Compression, Fold, Pin
from orihon.values.task import TaskKey, check_id, parse_status
from orihon.values.tokens.tokens import estimate
from tests.fuzzing import deep, fuzz, hostile_json, hostile_text, no_hang, spoiled, tree
from tests.importing import SAMPLES

SETTINGS = load_settings({"context_storage": {"durability": "os"}}, environ={})
MESSAGE_KEYS = (
    *("role", "content", "tool_calls", "tool_call_id", "name", "function", "arguments", "user", "assistant", "tool"),
    *(
        "text",
        "image_url",
        "url",
        "input",
        "output",
        "call_id",
        "tool_use",
        "tool_result",
        "tool_use_id",
        "source",
        "data",
    ),
    *(
        "function_call",
        "function_call_output",
        "message",
        "reasoning",
        "summary",
        "$orihon",
        "refusal",
        "cache_control",
    ),
)


def _refused_or(target: Callable[[Any], object]) -> Callable[[Any], None]:
    """Only our own errors, each in words, may come of it."""

    def check(value: Any) -> None:
        refusal: OrihonError | None = None
        try:
            target(value)
        except OrihonError as error:
            refusal = error
        assert refusal is None or (refusal.cause and refusal.remedy)

    return check


def _spoken(message: Message) -> None:
    jsonio.decode(jsonio.encode(message.body()))
    assert Message.from_body(jsonio.decode(jsonio.encode(message.body()))) == message
    for one in (message, *message.as_chat()):
        jsonio.encode(one.request())
        _ = one.text, one.calls, one.answers, list(one.countable())
    estimate(message.text)


def _decoded(value: Any) -> Any:
    """The value as it comes out of JSON; what cannot be written is given as it is."""
    with suppress(OrihonError, ValueError, RecursionError):
        return jsonio.decode(json.dumps(value))
    return value


def _record(kind: type[Any]) -> Callable[[Any], None]:
    """Records are read back by the store, which tells every other error as damage."""

    def check(value: Any) -> None:
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            kind.from_record(value)

    return check


TEXT_TARGETS: dict[str, Callable[[str], object]] = {
    "addresses of brokers": BrokerAddress.of,
    "addresses of databases": lambda said: addressed(said, "public", 5),
    "addresses of objects": lambda said: ObjectStorage.at(f"file://{said}") if said else None,
    "addresses of models": shown_url,
    "addresses of webhooks": Webhook,
    "arguments of tools": lambda said: Arguments(sanitize_arguments(said), ("path",)).lines("path"),
    "calls in a text": lambda said: tools.read_text_calls(answers.ModelAnswer(said), {"run"}),
    "documents": lambda said: compress_context(said, CompressionLevel.AGGRESSIVE),
    "ids": check_id,
    "masking": Redactor(b"k" * 32).mask,
    "prompts": lambda said: TokenOptimizer().compress_code_blocks(f"```python\n{said}\n```\n{said}"),
    "queries": lambda said: [list(term.places(tokens(said))) for term in parse_query(said).terms],
    "statuses": parse_status,
    "summaries": lambda said: summarize([Message("system", SUMMARY_PREFIX + said), Message("user", said)], 50),
    "trust": lambda said: quoted(said, Sources([Message("tool", said, tool_call_id="1")], ())),
    "words": wholes,
}
JSON_TARGETS: dict[str, tuple[tuple[str, ...], Callable[[Any], object]]] = {
    "archives": (
        tuple(one.name for one in fields(ArchivedTask)),
        lambda value: ArchivedTask.from_dict(value, "there"),
    ),
    "arguments of tools": (("path", "lines", "limit"), lambda value: sanitize_arguments(json.dumps(value))),
    "chat": (MESSAGE_KEYS, lambda value: _spoken(Message.from_chat(value))),
    "anthropic": (MESSAGE_KEYS, lambda value: _spoken(Message.from_anthropic(value))),
    "responses": (MESSAGE_KEYS, lambda value: _spoken(Message.from_responses(value))),
    "calls in a text": (
        ("tool", "arguments", "done", "comment", "run"),
        lambda value: tools.read_text_calls(answers.ModelAnswer(f"so {json.dumps(value)} it is"), {"run"}),
    ),
    "compressions": (("id", "folds", "pins", "undoes"), _record(Compression)),
    "folds": (("id", "start_seq", "end_seq", "summary_text", "form", "report", "trust"), _record(Fold)),
    "keys of tasks": (
        ("task_source", "owner", "repo", "task_type", "task_id", "task_identifier", "repository", "user", "uuid"),
        lambda value: TaskKey.from_dict(value) if isinstance(value, dict) else None,
    ),
    "manifests": (("task", "place", "name", "pieces", "seen", "~", "completed"), _record(FileEntry)),
    "mcp servers": (
        ("mcp_servers", "command", "args", "env", "url", "headers", "timeout", "mcp_server_name", "cwd"),
        lambda value: read_mcp_servers({"mcp_servers": value}, {}),
    ),
    "pins": (("seq", "line"), _record(Pin)),
    "settings": (
        ("llm", "openai", "base_url", "compression", "threshold", "masking", "patterns", "context_storage", "quotas"),
        lambda value: load_settings(value if isinstance(value, dict) else {"llm": value}, environ={}),
    ),
}


@pytest.mark.parametrize("target", TEXT_TARGETS)
def test_texts(target: str, fuzz_examples: int) -> None:
    fuzz(fuzz_examples, hostile_text(), _refused_or(TEXT_TARGETS[target]))


@pytest.mark.parametrize("target", JSON_TARGETS)
def test_values(target: str, fuzz_examples: int) -> None:
    names, parse = JSON_TARGETS[target]
    fuzz(fuzz_examples, hostile_json(*names).map(_decoded), _refused_or(parse))


@pytest.mark.parametrize("target", JSON_TARGETS)
@pytest.mark.parametrize("levels", [120, 700])
def test_deep_values(target: str, levels: int) -> None:
    """What JSON can hold that Python can read, and many a walk through it cannot follow."""
    names, parse = JSON_TARGETS[target]
    for value in (deep(levels), {name: deep(levels) for name in names}, [{name: deep(levels)} for name in names]):
        _refused_or(parse)(value)


def test_bytes(fuzz_examples: int) -> None:
    """JSON, lines of the audit, events of a model, messages of an MCP server, sealed records, heads of files."""
    sealer = Sealer(b"k" * 32, "task")
    sealed = sealer.seal_record("messages", "seq", 1, b'{"seq":1,"role":"user"}')
    samples = [b'{"a":[1,2]}', b'data: {"choices":[]}\n\n: x\r\ndata: [DONE]', sealed, b'{"jsonrpc":"2.0","id":1}']

    def check(data: bytes) -> None:
        with suppress(ValueError):
            jsonio.decode(data)
        with suppress(BrokenLine):
            read_line(data)
        with suppress(BrokenLine):
            head_of(data)
        for event in transport.events(data.split(b"\n")):
            with suppress(OrihonError):
                answers.decoded(event)
        _parsed(data)
        with suppress(DamagedStore):
            assert sealer.open_record("messages", data) in (data, b'{"seq":1,"role":"user"}')
        with suppress(DamagedStore):
            sealer.open_file("outputs/x", b"orihon-sealed-1\n" + data)
        peek(data)

    fuzz(fuzz_examples, st.one_of(st.binary(max_size=80), *map(spoiled, samples)), check)
    assert "chain" in {one.name for one in fields(AuditRecord)}


def test_names_of_tasks(tmp_path: Path, fuzz_examples: int) -> None:
    base = tmp_path / "base"
    base.mkdir()
    before = tree(tmp_path, without=base)
    with Catalogue(base / "tasks.db") as catalogue:
        catalogue.tasks.register(TaskKey("github", "me", "project", "issue", "27", "me"), "one")

        def check(said: str) -> None:
            _refused_or(lambda name: named_task(name, catalogue, TaskFolders(base)))(said)
            _refused_or(lambda name: TaskFolders(base).create(name))(said)
            _refused_or(catalogue.tasks.find)(said)
            _refused_or(lambda name: catalogue.tasks.page(user=name, limit=3))(said)

        fuzz(fuzz_examples, hostile_text(), check)
        assert [row.uuid for row in catalogue.tasks.page(user="me")] == ["one"]
    assert tree(tmp_path, without=base) == before


def test_names_of_files(tmp_path: Path, fuzz_examples: int) -> None:
    """Kept files, objects, files of a workspace: nothing outside of the folder that they belong to."""
    base = tmp_path / "base"
    store = MessageStore(base / "task", {"context_storage": {"durability": "os"}})
    store.add_message("user", "hello")
    (base / "work").mkdir()
    (base / "work" / "link").symlink_to("/etc")
    workspace, objects = Workspace(base / "work"), FolderStorage(base / "objects")
    before = tree(tmp_path, without=base)

    def check(said: str) -> None:
        _refused_or(lambda name: store.task_store.records.keep_file(name, b"x"))(f"outputs/{said}")
        _refused_or(store.task_store.records.kept_file)(said)
        _refused_or(lambda name: objects.replace(name, b"x"))(said)
        _refused_or(lambda name: workspace.write(name, b"x"))(said)
        _refused_or(lambda name: workspace.write(name, b"x"))(f"link/{said}")

    fuzz(fuzz_examples, hostile_text(), check)
    beside = {path.name for path in base.iterdir() if not path.name.startswith("tasks.db")}
    assert beside <= {"task", "work", "objects", "mask.key", "mask.key.copy"}
    assert tree(tmp_path, without=base) == before
    assert store.get_message(1).message.text == "hello"
    store.close()


def test_files_of_settings_and_tasks(tmp_path: Path, fuzz_examples: int) -> None:
    config = (
        b"llm:\n  openai: {base_url: 'http://127.0.0.1:9', api_key: ${KEY:-x}}\ncompression: &a\n  threshold: 0.7\n"
    )
    task = "---\ntitle: Mend it\nuser: hanako\nid: 7\n---\n# 直す\nPlease.\n".encode()

    def check(data: tuple[bytes, bytes]) -> None:
        (tmp_path / "config.yaml").write_bytes(data[0])
        _refused_or(lambda path: load_settings(path, environ={}))(tmp_path / "config.yaml")
        (tmp_path / "task.md").write_bytes(data[1])
        _refused_or(read_task)(tmp_path / "task.md")

    fuzz(fuzz_examples, st.tuples(spoiled(config), spoiled(task)), check)


def test_packed_files(tmp_path: Path, fuzz_examples: int) -> None:
    """Archives and manifests that somebody else has written to."""
    import gzip
    import tarfile

    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("messages.jsonl"))
    target = tmp_path / "deep" / "target"
    target.parent.mkdir()
    manifest = tmp_path / "manifest"

    def check(data: bytes) -> None:
        packed = io.BytesIO(gzip.compress(data, 1))
        _refused_or(lambda file: unpack(file, "gzip", target, expected=PackedContents.of([]), origin="test"))(packed)
        assert [path.name for path in tmp_path.rglob("*") if path != manifest] == ["deep"]
        manifest.write_bytes(data)
        with suppress(ValueError):
            list(read_manifest(manifest))

    fuzz(fuzz_examples, spoiled(raw.getvalue()[:2048]), check)


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_logs_that_were_changed(tmp_path: Path, backend: str, fuzz_examples: int) -> None:
    """Damage is told as such, on every way of reading."""
    config = {"context_storage": {"backend": backend, "durability": "os"}}
    store = MessageStore(tmp_path / "task", config)
    for turn in range(3):
        store.add_message("user", f"question {turn}")
        store.add_message("assistant", f"answer {turn}")
    store.close()
    name = "messages.jsonl" if backend == "files" else "context.db"
    whole = (tmp_path / "task" / name).read_bytes()

    def check(data: bytes) -> None:
        (tmp_path / "task" / name).write_bytes(data)
        for left in (tmp_path / "task").glob(f"{name}-*"):
            left.unlink()
        _refused_or(_read_all)(tmp_path / "task")

    fuzz(fuzz_examples, spoiled(whole), check)


def _read_all(folder: Path) -> None:
    with closing(open_for_reading(folder, SETTINGS)) as store:
        list(store.messages())
        list(store.view_lines())


@pytest.mark.parametrize("number", range(len(SAMPLES)), ids=[f"{at}-{one.format}" for at, one in enumerate(SAMPLES)])
def test_transcripts_of_others(tmp_path: Path, number: int, fuzz_examples: int) -> None:
    """A spoiled file is imported as far as it goes: no importer fails, and nothing is written elsewhere."""
    sample = SAMPLES[number]
    path = sample.make(tmp_path / "theirs")
    whole = path.read_bytes()
    base = tmp_path / "base"
    outside = tree(tmp_path, without=path)

    def check(data: bytes) -> None:
        path.write_bytes(data)
        report = import_transcripts(base, SETTINGS, [path.parent], user="me")
        failed = [problem.said for problem in report.problems if problem.cause == "failed"]
        assert not failed, failed

    fuzz(max(1, fuzz_examples // 8), spoiled(whole), check)
    left = {name: seen for name, seen in tree(tmp_path, without=base).items() if name != str(path)}
    assert left == {name: seen for name, seen in outside.items() if name != str(path)}


def test_what_is_nested_very_deeply(tmp_path: Path) -> None:
    """No stack of ours is as deep as what somebody can write into a line."""
    nested = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(ValueError, match=r"nested|recursion"):
        jsonio.decode(nested)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"role":"user","content":"good"}\n{"role":"user","content":' + nested + b"}\n")
    report = import_transcripts(tmp_path / "base", SETTINGS, [path], user="me")
    assert [task.messages for task in report.tasks] == [1]
    with pytest.raises(OrihonError):
        Message.from_chat({"role": "user", "content": deep(2000)})


@pytest.mark.parametrize(
    "read",
    [
        lambda: sanitize_arguments("```json" + " \n" * 200_000),
        lambda: sanitize_arguments("```\n" + "\n" * 200_000),
        lambda: without_markers("\n" * 200_000 + "x"),
        lambda: Sources([Message("tool", "ignore " * 50_000, tool_call_id="1")], ()).has_only_printed("ignore all"),
    ],
    ids=["fence with blanks", "fence with line ends", "markers", "trust"],
)
def test_long_texts_of_one_kind(read: Callable[[], object]) -> None:
    """These once took time that grew with the square or the cube of the text: hours, for texts as long as here."""
    with no_hang(), suppress(OrihonError):
        read()
