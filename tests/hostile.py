"""A task that means harm: markup, scripts, links and marks that turn text round, in every field that takes a text."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from orihon.settings import load_settings
from orihon.store.checkpoints import Approval, Checkpoint, CheckpointLog
from orihon.store.task_store import TaskStore
from orihon.tasks.context import TaskContextManager
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold
from tests.damage import edit_record, with_fields
from tests.helpers import raw_database

#: What the test page calls when something of a task runs.
SENTINEL = "caught"
#: Nobody answers there; asking would be the harm.
ELSEWHERE = "https://harm.invalid"

SETTINGS = load_settings({"context_storage": {"blob_bytes": 1024}}, environ={})

_ENDINGS = "-->]]></style></title></script></pre></details></summary></textarea>"
_SHORT = f"'\"`><script>{SENTINEL}(1)</script><img src=x onerror={SENTINEL}(2)>\u202e{{{{7*7}}}}"
_LONG = "\n".join(
    (
        _ENDINGS + _SHORT,
        f"<svg onload={SENTINEL}(3)><iframe src='javascript:parent.{SENTINEL}(4)'></iframe>",
        f"<a href='javascript:{SENTINEL}(5)'>x</a> [x](javascript:{SENTINEL}(6)) ![x]({ELSEWHERE}/a.png)",
        f"<meta http-equiv=refresh content='3600;url={ELSEWHERE}'><base href={ELSEWHERE}>",
        f"<link rel=stylesheet href={ELSEWHERE}>",
        f"<form action={ELSEWHERE}><input autofocus onfocus={SENTINEL}(7)></form><object data={ELSEWHERE}></object>",
        f"<style>body{{background:url({ELSEWHERE}/b.png)}}</style><body onload={SENTINEL}(8)>",
        "\u2066\u200f\u200b\ufeff\x00\x1b[31m\x07\ud800 \U000e0041",
        f"```html\n<script>{SENTINEL}(9)</script>\n```\n# <b onclick={SENTINEL}(10)>h</b>\n`<i>` **<u>**",
        f"```diff\n+<script>{SENTINEL}(11)</script>\n-<s>\n```",
    )
)
SVG = f"<svg xmlns='http://www.w3.org/2000/svg' onload='{SENTINEL}(12)'><script>{SENTINEL}(13)</script></svg>"
#: One red point.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def short(field: str) -> str:
    """What a small field holds; its name can be found in the page."""
    return f"[{field}]{_SHORT}"


def long(field: str) -> str:
    """What a text holds."""
    return f"[{field}]{_LONG}"


def hostile_task(base: Path) -> tuple[str, set[str]]:
    """A finished task, and the fields that an export has to show."""
    fields = (f"key.{name}" for name in ("source", "owner", "repo", "type", "id", "user"))
    task = TaskContextManager(base, TaskKey(*map(_key, fields)), SETTINGS, uuid="hostile-1")
    store = task.message_store.task_store
    _talk(store)
    _ask(store)
    store.records.keep_file("outputs/[file]<img src=x onerror=caught(14)>.txt", b"x")
    (store.records.folder / "outputs" / "[strange]<img src=x onerror=caught(15)>\u202e.txt").write_bytes(b"x")
    task.planning_store.add_plan(short("plan.type"), long("plan.text"))
    task.planning_store.add_plan("data", {short("plan.key"): [long("plan.value")]})
    _fold(task)
    task.fail(long("error"))
    task.catalogue.close()
    folder = base / "completed" / task.uuid
    (folder / "final_summary.txt").write_text(long("final_summary").replace("\ud800", ""), encoding="utf-8")
    _falsify(base, folder)
    return task.uuid, _SHOWN


def _key(field: str) -> str:
    return short(field)[:200]


def _talk(store: TaskStore) -> None:
    pictures: list[dict[str, Any]] = [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {
            "type": "image_url",
            "image_url": {"url": f"data:image/svg+xml;base64,{base64.b64encode(SVG.encode()).decode()}"},
        },
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(SVG.encode()).decode()}"}},
        {"type": "image_url", "image_url": {"url": f"{ELSEWHERE}/[picture.url].png"}},
        {"type": "image_url", "image_url": {"url": f"javascript:{SENTINEL}(15)"}},
        {"type": short("part.type"), "title": short("part.title")},
        {"type": "file", "file": {"filename": short("part.file"), "file_data": f"data:text/html,{SVG}"}},
        {"type": "text", "text": long("part.text")},
    ]
    call = {"id": short("call.id"), "type": "function"}
    called = {"name": short("call.name"), "arguments": long("call.arguments")}
    thinking = {"reasoning_content": long("thought"), "refusal": long("refusal")}
    usage = Usage(10, 5, 2)
    store.append(Message("system", long("system")))
    store.append(Message("user", long("user"), name=short("name")))
    store.append(
        Message.from_chat(
            {"role": "assistant", "content": long("assistant"), "tool_calls": [{**call, "function": called}]}
        ),
        call=ModelCall(short("call.model"), usage, 0.5),
    )
    store.append(Message("tool", long("result"), tool_call_id=short("call.id"), tool_name=short("tool.name")))
    store.append(Message.from_chat({"role": "assistant", "content": long("assistant.2"), **thinking}))
    store.append(Message.from_chat({"role": "user", "content": pictures}))
    for number in range(4):
        store.append(Message("user" if number % 2 else "assistant", long(f"later.{number}")))
    record = {
        "tool_name": short("tool.record"),
        "arguments": {"x": long("tool.arguments")},
        "result": long("tool.result"),
    }
    about = {"status": short("tool.status"), "error": long("tool.error"), "duration_ms": 5}
    store.add("tools", {**record, **about, "call_id": short("call.id")})
    store.add("tools", {**record, "status": short("lone.status"), "error": long("lone.error"), "duration_ms": "5"})


def _ask(store: TaskStore) -> None:
    log = CheckpointLog(store)
    log.begin_phase(short("phase"))
    store.append(Message("assistant", "[in the phase]"))
    asked = log.ask(Checkpoint(0, short("question.name"), long("question"), long("question.context")))
    log.answer(asked.id, Approval("revise", short("answer.by"), long("answer.comment")))
    log.ask(Checkpoint(0, short("open.name"), long("open.question")))


def _fold(task: TaskContextManager) -> None:
    folding = task.message_store.folding
    made: dict[str, Any] = {
        "trigger": short("trigger"),
        "strategy": short("strategy"),
        "level": short("level"),
        "made_by": short("made_by"),
        "calls": [ModelCall(short("summary.model"), Usage(3, 2, 1), 0.1)],
    }
    folding.compress([PlannedFold(7, 8, long("former.fold"), reason=short("former.reason"))], **made)
    folding.undo()
    plans = [
        PlannedFold(7, 8, long("fold"), reason=short("reason")),
        PlannedFold(2, 2, long("preview"), "preview", short("preview.reason")),
    ]
    folding.compress(plans, **made)
    folding.pin(9)


def _falsify(base: Path, folder: Path) -> None:
    """What only somebody with an editor can write."""
    edit_record(folder, "messages", 9, with_fields(timestamp=short("timestamp")))
    edit_record(folder, "planning", 1, with_fields(created_at=short("plan.created_at")))
    with raw_database(base / "tasks.db") as connection:
        connection.execute(
            "UPDATE tasks SET model = ?, llm_provider = ?, created_at = ?, inherits_from = ?, parent_uuid = ?",
            [short(field) for field in ("model", "provider", "created_at", "inherits", "parent")],
        )


_SHOWN = {
    *("key.source", "key.owner", "key.repo", "key.type", "key.id", "key.user"),
    *("system", "user", "name", "assistant", "call.id", "call.name", "call.arguments", "call.model", "result"),
    *("tool.name", "tool.status", "tool.error", "thought", "assistant.2", "refusal", "later.0", "later.3"),
    *("picture.url", "part.type", "part.title", "part.file", "part.text", "in the phase"),
    *("tool.record", "tool.arguments", "tool.result", "lone.status", "lone.error"),
    *("phase", "question.name", "question", "question.context", "answer.by", "answer.comment", "open.name"),
    *("open.question", "plan.type", "plan.text", "plan.key", "plan.value", "plan.created_at"),
    *(
        "summary.model",
        "trigger",
        "strategy",
        "level",
        "made_by",
        "former.fold",
        "former.reason",
        "fold",
        "reason",
        "preview",
    ),
    *("error", "final_summary", "timestamp", "model", "provider", "created_at", "inherits", "parent", "file"),
}
