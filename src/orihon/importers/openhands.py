"""Conversations of OpenHands, in the forms that its versions have written them.

    *.json                          a list of events (a saved or downloaded trajectory)
    output.jsonl                    results of evaluations and of the resolver of issues, one a line, with the events or
                                    pairs of them in ``history``
    <session>/events/<n>.json       one event a file
    <session>/events/event-*.json   the same of the newer agent SDK, with ``base_state.json`` beside the folder

A folder of events is read when its last file is; the others give nothing, so that it is read once and again when it has
grown. What events mean is known to ``openhands_events`` and ``openhands_sdk``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from orihon.importers.base import Importer, Problem, Thread, ThreadEnd, TranscriptPart
from orihon.importers.lines import json_document, json_lines
from orihon.importers.openhands_events import OpenHandsConversation, is_event
from orihon.importers.openhands_sdk import SdkConversation, is_sdk_event
from orihon.importers.peek import peek
from orihon.importers.shapes import (
    RecordOrProblem,
    as_json,
    fields,
    identity,
    items,
    name_for,
    objects,
    read_each,
    title,
    words,
)

_FILE = re.compile(r"^(?:event[-_])?(\d+)(?:[-_][\w-]+)?\.json$")
_BESIDE = frozenset(("base_state.json", "metadata.json", "agent_state.pkl", "conversation_stats.pkl"))


class OpenHands(Importer):
    """Trajectories, sessions and evaluation results of OpenHands."""

    name = "openhands"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        first = seen.first
        if _is_result(first):
            return not seen.is_list
        wrapped = items(first.get("trajectory"))
        return any(is_event(one) or is_sdk_event(one) for one in (first, fields(wrapped[0] if wrapped else None)))

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        if path.suffix == ".jsonl":
            yield from _lines(path)
        elif (path.parent.name == "events" or path.name.startswith("event")) and _FILE.match(path.name):
            if path.name == _last_file(path.parent, path.parent.stat().st_mtime_ns):
                yield from _folder(path.parent)
        else:
            yield from _document(path)

    def ignores(self, path: Path) -> bool:
        return path.parent.name == "event_cache" or (path.name in _BESIDE and (path.parent / "events").is_dir())


def _is_result(record: Mapping[str, Any]) -> bool:
    """Is this what came of an instance of an evaluation, or of an issue that was worked on?"""
    if "instance_id" in record:
        return "history" in record or "test_result" in record
    return isinstance(record.get("issue"), Mapping) and ("history" in record or "instruction" in record)


def _document(path: Path) -> Iterator[TranscriptPart]:
    document = json_document(path)
    if isinstance(document, Problem):
        yield document
        return
    known = fields(document)
    if _is_result(known):
        yield from _instance(path, known)
        return
    events = list(objects(known.get("trajectory") if "trajectory" in known else document))
    if not events and known:
        events = [known]
    first = [as_json(one.get("id")) + words(one.get("timestamp")) for one in events[:2]]
    yield from _events(Thread(name_for(path, *first)), [(0, event) for event in events])


def _lines(path: Path) -> Iterator[TranscriptPart]:
    """Results of an evaluation, or one event a line."""
    events: list[RecordOrProblem] = []
    for record in json_lines(path):
        if isinstance(record, Problem):
            yield record
        elif _is_result(record[1]):
            yield from _instance(path, record[1], record[0])
        else:
            events.append(record)
    if events:
        first = events[0]
        mark = "" if isinstance(first, Problem) else as_json(first[1].get("id"))
        yield from _events(Thread(name_for(path, mark)), events)


def _instance(path: Path, result: Mapping[str, Any], line: int = 0) -> Iterator[TranscriptPart]:
    """One instance of an evaluation."""
    issue = fields(result.get("issue"))
    repository = "/".join(filter(None, (words(issue.get("owner")), words(issue.get("repo")))))
    named = identity(result.get("instance_id")) or f"{repository}-{identity(issue.get('number'))}".strip("-")
    history = items(result.get("history"))
    events = [event for one in history for event in (one if isinstance(one, list) else [one])]
    metrics, instance = fields(result.get("metrics")), fields(result.get("instance"))
    about = {
        "instance": named,
        "error": result.get("error"),
        "cost": metrics.get("accumulated_cost"),
        "usage": metrics.get("accumulated_token_usage"),
        "patch": fields(result.get("test_result")).get("git_patch") or result.get("git_patch"),
    }
    times = "".join(words(event.get("timestamp")) for event in list(objects(events))[:2])
    thread = Thread(
        name_for(Path(named or path.name), times or str(line)),
        title(issue.get("title")) or title(named),
        repository=words(instance.get("repo")) or repository,
        model=words(fields(fields(result.get("metadata")).get("llm_config")).get("model")),
        about={key: value for key, value in about.items() if value},
    )
    yield from _events(thread, [(line, event) for event in objects(events)], metrics)


def _events(
    thread: Thread, events: list[RecordOrProblem], metrics: Mapping[str, Any] | None = None
) -> Iterator[TranscriptPart]:
    firsts = (one[1] for one in events if not isinstance(one, Problem))
    is_new = is_sdk_event(next(firsts, {}))
    conversation = SdkConversation(thread, metrics or {}) if is_new else OpenHandsConversation(thread, metrics or {})
    yield from read_each(events, conversation.take)
    yield from conversation.end()
    yield ThreadEnd(thread.id)


def _folder(folder: Path) -> Iterator[TranscriptPart]:
    session = folder.parent if folder.name == "events" else folder
    state = fields(_quietly(session / "base_state.json")) or fields(_quietly(session / "metadata.json"))
    named = identity(state.get("id")) or identity(state.get("conversation_id")) or session.name
    model = words(fields(fields(state.get("agent")).get("llm")).get("model")) or words(state.get("llm_model"))
    thread = Thread(
        named,
        title(state.get("title")),
        cwd=words(fields(state.get("workspace")).get("working_dir")),
        repository=words(state.get("selected_repository")),
        model=model,
    )
    stats = fields(fields(fields(state.get("stats")).get("usage_to_metrics")).get("agent"))
    yield from _events(thread, list(_in_order(folder)), stats)


def _in_order(folder: Path) -> Iterator[RecordOrProblem]:
    for name in _files(folder):
        event = json_document(folder / name)
        if isinstance(event, Problem):
            yield Problem("event_file", fields={"name": name})
        else:
            yield 0, fields(event)


def _files(folder: Path) -> list[str]:
    """The names of the event files, in their order."""
    named = [(int(found.group(1)), one.name) for one in folder.iterdir() if (found := _FILE.match(one.name))]
    return [name for _, name in sorted(named)]


@lru_cache(maxsize=4)  # each of its files asks for it
def _last_file(folder: Path, _changed: int) -> str:
    return next(reversed(_files(folder)), "")


def _quietly(path: Path) -> object:
    found = json_document(path) if path.is_file() else None
    return None if isinstance(found, Problem) else found
