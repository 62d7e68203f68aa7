"""One message of the log as HTML: who said it, when, with which model; what was said; calls and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orihon.texts import text
from orihon.transfer.export.about import call_statistics, moment, role_name
from orihon.transfer.export.html_text import Html, escape, join, tag
from orihon.transfer.export.pieces import MessagePiece, call_arguments, call_name, pieces_of
from orihon.transfer.export.prose import code, prose
from orihon.transfer.export.story import StoryMessage
from orihon.values.message.parts import ToolCall

#: Longer texts are closed at first: outputs and instructions sooner than what people and models say.
_MOST_SHOWN = {"tool": 1_200, "system": 1_200, "developer": 1_200, "summary": 3_000}
_MOST_SAID = 12_000
_MOST_LINES = 24
_FIRST_LINE = 100
#: Class names of our own, so that nothing from outside becomes one.
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def message(told: StoryMessage) -> Html:
    """The message as an element with its number as its name."""
    stored = told.stored
    role = stored.message.role
    return tag(
        "article",
        tag("h3", _title(told), cls="title"),
        tag("p", join(_notes(told), Html(" · ")), cls="notes"),
        join(_body(told)),
        cls=f"message {role if role in _ROLES else 'other'}{' pinned' if told.pins else ''}",
        id=f"m{stored.seq}",
    )


def outcome(record: Mapping[str, Any]) -> Html:
    """How a call went and how long it took."""
    status = str(record.get("status") or "")
    duration = record.get("duration_ms")
    took = f" {duration:,.0f} ms" if isinstance(duration, int | float) else ""
    error = tag("bdi", f" {record['error']}") if record.get("error") else ""
    return join((tag("span", status, cls="failed" if status == "error" else "fine"), took, error))


def shortened(said: str, role: str = "tool") -> Html:
    """A text as it is; a long one opens on demand."""
    return _on_demand(said, code(said), role)


def long_prose(said: str) -> Html:
    """What somebody has written; a long one opens on demand."""
    return _on_demand(said, prose(said), "summary")


def _title(told: StoryMessage) -> Html:
    said = told.stored.message
    seq = told.stored.seq
    name = said.tool_name or said.name or (told.tool or {}).get("tool_name") or ""
    who = (tag("a", f"{seq}", href=f"#m{seq}"), " ", tag("span", role_name(said.role), cls="role"))
    return join((*who, " ", tag("bdi", name, cls="name")) if name else who)


def _notes(told: StoryMessage) -> Iterator[Html]:
    stored = told.stored
    yield tag("time", moment(stored.timestamp))
    yield escape(text("export.token_count", tokens=stored.tokens))
    if stored.message.tool_call_id is not None:
        yield tag("bdi", stored.message.tool_call_id, cls="id")
    if stored.call is not None:
        yield tag("bdi", call_statistics(stored.call))
    if told.tool is not None:
        yield outcome(told.tool)
    if told.pins:
        yield tag("b", text("export.pinned"))


def _body(told: StoryMessage) -> Iterator[Html]:
    said = told.stored.message
    for piece in pieces_of(said):
        yield _piece(piece, said.role)
    for call in said.tool_calls:
        yield _call(call)
    if told.preview is not None:
        title = tag("summary", text("export.preview", fold=told.preview.id))
        yield tag("details", title, code(told.preview.text), cls="preview")


def _piece(piece: MessagePiece, role: str) -> Html:
    if piece.picture is not None:
        return tag("img", src=f"data:{piece.picture.type};base64,{piece.picture.encoded}", alt="")
    match piece.kind:
        case "thought":
            return tag("details", tag("summary", text("export.thought")), prose(piece.text), cls="thought")
        case "unshown":
            return tag("p", text("export.unshown", what=piece.text), cls="unshown")
        case _:
            shown = code(piece.text) if role in ("tool", "function") else prose(piece.text)
            return _on_demand(piece.text, shown, role)


def _call(call: ToolCall) -> Html:
    title = tag("p", "→ ", tag("bdi", call_name(call), cls="name"), " ", tag("bdi", call.id, cls="id"))
    arguments = call_arguments(call)
    return tag("div", title, shortened(arguments) if arguments.strip() not in ("", "{}") else "", cls="call")


def _on_demand(said: str, shown: Html, role: str) -> Html:
    lines = said.count("\n") + 1
    most = _MOST_SHOWN.get(role, _MOST_SAID)
    if len(said) <= most and (lines <= _MOST_LINES or most == _MOST_SAID):
        return shown
    first = said.lstrip()[:_FIRST_LINE].split("\n")[0]
    size = text("export.size", lines=lines, characters=len(said))
    return tag("details", tag("summary", tag("bdi", first, cls="first"), " … ", tag("span", size, cls="size")), shown)
