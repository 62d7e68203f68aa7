"""``handoff``: the view of a task as it is now, to go on with elsewhere: a prompt, a document, or a request.

System prompt, pins and notes come first, then the conversation, and it says where the originals lie and how to recall
them. What was said stands in quotes and fences, as in every export: nothing of it can speak for us. A request is legal
for its provider: calls that nobody has answered get a result that says so. Only looks, also at a task at work.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from orihon.audit.trail import audited
from orihon.errors import InvalidInput
from orihon.system import jsonio
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.notes import NOTE, note_number
from orihon.tasks.reader import read_anew
from orihon.tasks.view_reader import ShownEntry
from orihon.texts import text
from orihon.transfer.export.about import about, fold_title, moment, role_name
from orihon.transfer.export.export import new_file
from orihon.transfer.export.markdown import content_blocks, fenced, plain, quoted
from orihon.transfer.export.prose import one_line
from orihon.transfer.export.story import OpenTask, opened_task
from orihon.values.message.provider_shapes import SYSTEM_ROLES, anthropic_messages, anthropic_system, with_user

HandoffForm = Literal["prompt", "markdown", "openai", "anthropic"]
HANDOFF_FORMS: tuple[HandoffForm, ...] = get_args(HandoffForm)
#: So many of the newest notes are handed on.
_MOST_NOTES = 50


@dataclass(frozen=True, slots=True)
class Handoff(AsJson):
    """A task to go on with; ``file`` is where it was written, if it was."""

    json_fields = "task form file bytes text"

    task: str
    form: HandoffForm
    text: str
    file: Path | None = None

    @property
    def bytes(self) -> int:
        return len(self.text.encode())


def hand_off(
    base: OpenBase,
    task: str,
    form: HandoffForm = "prompt",
    out: Path | str | None = None,
    *,
    force: bool = False,
    clear: bool = False,
) -> Handoff:
    """The view in a form, in a file too where one is named; of a sealed task only with ``clear``: it is readable."""
    if form not in HANDOFF_FORMS:
        raise InvalidInput("export_form", value=str(form), known=", ".join(HANDOFF_FORMS))
    uuid, said = _written(base, task, form, clear=clear)
    if out is None:
        return Handoff(uuid, form, said)
    with new_file(Path(out), force=force) as file:
        file.write(said.encode())
    return Handoff(uuid, form, said, Path(out))


@read_anew
def _written(base: OpenBase, task: str, form: HandoffForm, *, clear: bool) -> tuple[str, str]:
    with (
        opened_task(base, task) as opened,
        audited(base.path, base.settings, "export", opened.uuid, begun=True, format=f"handoff {form}"),
    ):
        if opened.records.is_sealed and not clear:
            raise InvalidInput("sealed_export", task=opened.uuid, format=form)
        if form in ("openai", "anthropic"):
            return opened.uuid, jsonio.encode(_request(base, opened, form)).decode() + "\n"
        return opened.uuid, "\n\n".join(_blocks(base, opened, for_model=form == "prompt")) + "\n"


# ---- for people and for any model --------------------------------------------------------------------------------


def _blocks(base: OpenBase, task: OpenTask, *, for_model: bool) -> Iterator[str]:
    head = about(task)
    yield f"# {plain(text('export.handoff.title', label=head.title))}"
    if for_model:
        yield text("export.handoff.prompt")
    else:
        yield "\n".join(f"- {label}: {plain(value)}" for label, value in (*head.facts, *head.figures))
    yield f"## {text('export.handoff.originals_title')}"
    yield _originals(base, task)
    entries = list(task.view.entries())
    system = _system_head(entries)
    if system:
        yield f"## {text('export.handoff.system')}"
        for one in system:
            yield from _said(task, one)
    pinned = {pin.seq for pin in task.view.pins if not pin.line and pin.seq > len(system)}
    yield from _pins(task, {seq for seq in pinned if not note_number(task.store.message(seq).message)})
    yield from _notes(task)
    yield f"## {text('export.handoff.conversation')}"
    for one in entries[len(system) :]:
        yield f"### {_title(one)}"
        if one.entry.start in pinned:
            yield f"*{text('export.handoff.above')}*"
        else:
            yield from _said(task, one)
    if for_model:
        yield f"## {text('export.handoff.now_title')}"
        yield text("export.handoff.now")


def _originals(base: OpenBase, task: OpenTask) -> str:
    place = text("export.handoff.database") if base.settings.database.url else str(base.path)
    return text("export.handoff.originals", place=one_line(place), uuid=task.uuid, messages=task.view.last_seq)


def _system_head(entries: Sequence[ShownEntry]) -> list[ShownEntry]:
    head: list[ShownEntry] = []
    for one in entries:
        if one.entry.fold is not None or one.entry.role not in SYSTEM_ROLES:
            break
        head.append(one)
    return head


def _pins(task: OpenTask, whole: set[int]) -> Iterator[str]:
    lines = [pin for pin in task.view.pins if pin.line]
    if not whole and not lines:
        return
    yield f"## {text('export.handoff.pins')}"
    for seq in sorted(whole):
        message = task.store.message(seq).message
        yield f"### {seq} · {role_name(message.role)}"
        yield from content_blocks(message)
    for pin in lines:
        yield f"### {pin.seq} · {text('export.handoff.line')}"
        yield quoted(pin.line)


def _notes(task: OpenTask) -> Iterator[str]:
    last = task.lasts["planning"]
    plans = task.store.read("planning", 1, last) if last else iter(())
    notes = [plan for plan in plans if plan["plan_type"] == NOTE and isinstance(plan["plan_content"], dict)]
    if notes:
        yield f"## {text('export.handoff.notes')}"
    for plan in notes[-_MOST_NOTES:]:
        content = plan["plan_content"]
        yield f"### {plain(moment(plan.get('created_at')))} · {plain(content.get('by', ''))}"
        yield quoted(str(content.get("note", "")))


def _title(one: ShownEntry) -> str:
    entry = one.entry
    if entry.fold is not None and entry.fold.form == "summary":
        return f"⟪ {fold_title(entry.fold)}"
    return " · ".join(filter(None, (str(entry.start), role_name(entry.role), plain(one.message.get("name") or ""))))


def _said(task: OpenTask, one: ShownEntry) -> Iterator[str]:
    fold = one.entry.fold
    if fold is not None and fold.form == "summary":
        yield quoted(fold.text)
        return
    blocks = list(content_blocks(task.store.message(one.entry.start).message, None if fold is None else fold.text))
    yield from blocks or [fenced("")]


# ---- for a provider ----------------------------------------------------------------------------------------------


def _request(base: OpenBase, task: OpenTask, form: HandoffForm) -> dict[str, Any]:
    view = [jsonio.decode(line) for line in task.view.lines()]
    at = len(_system_head(list(task.view.entries())))
    view.insert(at, {"role": "system", "content": _originals(base, task)})
    view = with_user([*view, *_unanswered(view)])
    if form == "openai":
        return {"messages": view}
    system, rest = anthropic_system(view)
    messages = jsonio.decode(b"[" + b"".join(anthropic_messages(rest)) + b"]")
    return {"system": system, "messages": messages} if system else {"messages": messages}


def _unanswered(view: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results for calls that still wait for one: whoever goes on cannot give them any more."""
    answered = {message.get("tool_call_id") for message in view if message["role"] == "tool"}
    calls = [call["id"] for message in view for call in message.get("tool_calls") or ()]
    said = text("export.handoff.unanswered")
    return [{"role": "tool", "tool_call_id": call, "content": said} for call in calls if call not in answered]
