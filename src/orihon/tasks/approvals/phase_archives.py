"""The archives of phases: the whole text of a phase and its decisions, as files of the task that open again.

A phase has two: ``archives/phaseN_exploration`` with every message word for word, under an index of its sections, and
``archives/phaseN_decisions`` with what the next phase needs. Both are made from the log, which is the truth and keeps
everything: an archive is made again whenever it is wanted, and the old ones of exploration may be deleted. Markdown or
JSON, as the settings say. Any Markdown document can be opened as an archive.
"""

from __future__ import annotations

import hashlib
import logging
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orihon.compression.documents.markdown import MarkdownSection, parse
from orihon.compression.documents.sections import CompressionLevel, compress_document
from orihon.errors import InvalidInput, OrihonError
from orihon.store.checkpoints import Checkpoint, Phase, read_ledger
from orihon.store.reader import TaskReader
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import wrapping
from orihon.tasks.base import OpenBase
from orihon.texts import text
from orihon.values.message.message import Message

logger = logging.getLogger("orihon.phases")

_SUFFIXES = {"markdown": "md", "json": "json"}
_HEAD = re.compile(r"<!-- orihon:archive (\{.*\}) -->")
_EXPLORATION = re.compile(r"archives/phase(\d+)_exploration\.(?:md|json)")
MOST_KNOWN = 20  # section names that an error lists


@dataclass(frozen=True, slots=True)
class _Piece:
    """One message of an archive."""

    seq: int
    role: str
    text: str


# ---- making --------------------------------------------------------------------------------------------------------


def archive_phase(store: TaskStore, phase: Phase, last_seq: int, archive_format: str) -> str:
    """Write both archives of a phase, as far as ``last_seq``; returns the name of the one with everything."""
    pieces = _messages(store, phase, last_seq)
    suffix = _SUFFIXES[archive_format]
    exploration, decisions = (f"archives/phase{phase.number}_{part}.{suffix}" for part in ("exploration", "decisions"))
    answered = [one for one in read_ledger(store).checkpoints if _belongs(one, phase)]
    head = _head(store, phase, last_seq)
    decided = _decisions(pieces, answered)
    make = _as_markdown if archive_format == "markdown" else _as_json
    bodies = {exploration: make(head, pieces), decisions: make(head, [_Piece(last_seq, "", decided)])}

    def keep(tail: object) -> None:
        for name, body in bodies.items():
            store.records.keep_file(name, body.encode("utf-8", "replace"))

    store.change(keep)
    return exploration


def phase_text(store: TaskReader, phase: Phase, last_seq: int) -> str:
    """What the archive of a phase would be."""
    return _as_markdown(_head(store, phase, last_seq), _messages(store, phase, last_seq))


def _head(store: TaskReader, phase: Phase, last_seq: int) -> dict[str, Any]:
    span = {"first": phase.start_seq, "last": last_seq, "created_at": utc_now()}
    return {"task": store.name, "phase": phase.number, "name": phase.name, **span}


def _messages(store: TaskReader, phase: Phase, last_seq: int) -> list[_Piece]:
    return [
        _Piece(stored.seq, stored.message.role, _written(stored.message))
        for stored in store.messages(phase.start_seq, last_seq)
        if stored.message.role not in ("system", "developer")
    ]


def decisions_of(store: TaskReader, phase: Phase, last_seq: int) -> str:
    """What the next phase needs of this one: what was decided, and what people said about it."""
    messages = store.messages(phase.start_seq, last_seq)
    pieces = [_Piece(stored.seq, stored.message.role, stored.message.text) for stored in messages]
    return _decisions(pieces, [one for one in read_ledger(store).checkpoints if _belongs(one, phase)])


def _belongs(checkpoint: Checkpoint, phase: Phase) -> bool:
    return checkpoint.phase is None or checkpoint.phase.number == phase.number


def _decisions(pieces: Sequence[_Piece], checkpoints: Sequence[Checkpoint]) -> str:
    parts = [f"# {text('approvals.archive.decisions')}"]
    for piece in pieces:
        if piece.role == "assistant" and parse(piece.text).children:
            parts.append(compress_document(piece.text, CompressionLevel.AGGRESSIVE).text.strip())
    answered = [one for one in checkpoints if one.answer is not None and not one.compression]
    if answered:
        parts.append(f"## {text('approvals.archive.answers')}")
        parts.append("\n".join(_answer_line(one) for one in answered))
    return "\n\n".join(part for part in parts if part) + "\n"


def _answer_line(asked: Checkpoint) -> str:
    assert asked.answer is not None
    said = text(f"approvals.decision.{asked.answer.decision}")
    line = f"- **{asked.name}**: {said}, {asked.answer.by}, {asked.answer.at}"
    return f"{line}: {asked.answer.comment}" if asked.answer.comment else line


def _written(message: Message) -> str:
    calls = [f"→ {call.name} {call.arguments}" for call in message.tool_calls]
    return "\n".join([message.text, *calls] if message.text else calls)


def _as_markdown(head: dict[str, Any], pieces: Sequence[_Piece]) -> str:
    whole = "".join(piece.text for piece in pieces)
    mark = hashlib.sha256(whole.encode("utf-8", "replace")).hexdigest()
    while mark[:12] in whole:  # nobody's text is taken for the beginning of a message
        mark = hashlib.sha256(mark.encode()).hexdigest()
    head = {**head, "mark": mark[:12]}
    written = jsonio.encode(head).decode("utf-8", "replace").replace("-->", "--\\u003e")  # or the comment would end
    lines = [
        f"<!-- orihon:archive {written} -->",
        text("approvals.archive.title", number=head["phase"], name=head["name"]),
        "",
        *(f"{'  ' * (place['level'] - 1)}- {place['title']} ({place['seq']})" for place in _index(pieces)),
    ]
    for piece in pieces:
        lines += ["", f"<!-- {mark[:12]} {piece.seq} {piece.role or '-'} -->", piece.text]
    return "\n".join(lines) + "\n"


def _as_json(head: dict[str, Any], pieces: Sequence[_Piece]) -> str:
    messages = [{"seq": piece.seq, "role": piece.role, "text": piece.text} for piece in pieces]
    return jsonio.encode_pretty({**head, "sections": _index(pieces), "messages": messages}).decode("utf-8", "replace")


def _index(pieces: Sequence[_Piece]) -> list[dict[str, Any]]:
    return [
        {"seq": piece.seq, "level": section.level, "title": section.title}
        for piece in pieces
        for section in parse(piece.text).walk()
        if section.level
    ]


# ---- opening -------------------------------------------------------------------------------------------------------


def restore_context(archive_path: Path | str) -> str:
    """The whole text of an archive, or of any document."""
    path = Path(archive_path)
    with wrapping(path):
        content = path.read_text(encoding="utf-8")
    return archived_text(content)


def partial_restore(archive_path: Path | str, section: str) -> str:
    """One section of an archive, or of any document, with everything below its heading."""
    path = Path(archive_path)
    with wrapping(path):
        content = path.read_text(encoding="utf-8")
    return extract_section(content, section)


def archived_text(content: str) -> str:
    """The messages in an archive, one after the other; another text is given back as it is."""
    pieces = _pieces(content)
    return content if pieces is None else "\n\n".join(piece.text for piece in pieces)


def extract_section(content: str, section: str) -> str:
    """The sections of that name; without one, those whose name contains it."""
    found = [one.text.strip("\n") for one in _sections(content, section)]
    if not found:
        known = list(dict.fromkeys(one.title for root in _roots(content) for one in root.walk() if one.level))
        shown = ", ".join(known[:MOST_KNOWN]) or "-"
        raise InvalidInput("no_section", section=section, known=shown)
    return "\n\n".join(found) + "\n"


def section_seqs(content: str, section: str | None) -> list[int]:
    """The messages of an archive that have such a section; all of them without a name."""
    pieces = _pieces(content) or []
    if section is None:
        return [piece.seq for piece in pieces]
    exact = [piece.seq for piece in pieces if list(_named(parse(piece.text), section, exact=True))]
    return exact or [piece.seq for piece in pieces if list(_named(parse(piece.text), section, exact=False))]


def _sections(content: str, section: str) -> list[MarkdownSection]:
    roots = _roots(content)
    exact = [one for root in roots for one in _named(root, section, exact=True)]
    return exact or [one for root in roots for one in _named(root, section, exact=False)]


def _named(root: MarkdownSection, name: str, *, exact: bool) -> Iterator[MarkdownSection]:
    wanted, title = normal(name), normal(root.title)
    if root.level and wanted and (title == wanted if exact else wanted in title):
        yield root  # with all that is below it
        return
    for child in root.children:
        yield from _named(child, name, exact=exact)


def normal(name: str) -> str:
    """A name as it is compared: width, case and blanks at its ends do not count."""
    return unicodedata.normalize("NFKC", name).casefold().strip()


def _roots(content: str) -> list[MarkdownSection]:
    pieces = _pieces(content)
    return [parse(content)] if pieces is None else [parse(piece.text) for piece in pieces]


def _pieces(content: str) -> list[_Piece] | None:
    """The messages of an archive; ``None`` for a document that is none of ours."""
    head = _HEAD.match(content)
    try:
        if head is not None:
            return _from_markdown(content, str(jsonio.decode(head[1].encode())["mark"]))
        if content.lstrip().startswith("{"):
            messages = jsonio.decode(content.encode("utf-8", "replace"))["messages"]
            return [_Piece(one["seq"], one["role"], one["text"]) for one in messages]
    except (ValueError, KeyError, TypeError):
        return None
    return None


def _from_markdown(content: str, mark: str) -> list[_Piece]:
    begin = re.compile(rf"^<!-- {re.escape(mark)} (\d+) (\S+) -->\n", re.M)
    found = list(begin.finditer(content))
    ends = [match.start() - 1 for match in found[1:]] + [len(content)]
    return [
        _Piece(int(match[1]), "" if match[2] == "-" else match[2], content[match.end() : end].removesuffix("\n"))
        for match, end in zip(found, ends, strict=True)
    ]


# ---- of a task -----------------------------------------------------------------------------------------------------


def archived_phases(store: TaskReader) -> tuple[int, ...]:
    """The numbers of the phases that have an archive."""
    return tuple(sorted(_archives(store)))


def _archives(store: TaskReader) -> dict[int, str]:
    names = store.records.kept_files()
    return {int(match[1]): name for name in names if (match := _EXPLORATION.fullmatch(name))}


def phase_archive(store: TaskReader, number: int | None = None) -> tuple[str, str]:
    """Name and content of the archive of a phase's exploration; the newest one without a number."""
    found = _archives(store)
    wanted = max(found, default=0) if number is None else number
    if wanted not in found:
        known = ", ".join(map(str, sorted(found))) or "-"
        raise InvalidInput("no_phase_archive", phase=wanted or "-", known=known)
    content = store.records.kept_file(found[wanted]) or b""
    return found[wanted], content.decode("utf-8", "replace")


def delete_old_phase_archives(base: OpenBase, *, now: datetime | None = None) -> list[str]:
    """Delete the archives of exploration that are older than ``preserve_exploration_days``; returns what has gone.

    Decisions and the log of compressions stay. So does the history itself: the log has every word of it.
    """
    oldest = (now or datetime.now(UTC)) - timedelta(days=base.settings.compression.preserve_exploration_days)
    deleted: list[str] = []
    base.open_catalogue()
    for uuid in base.uuids():
        try:
            deleted += [f"{uuid}/{name}" for name in _delete_old(base, uuid, oldest.isoformat())]
        except OrihonError as error:  # one damaged task keeps nobody from the others
            logger.warning("%s: %s", uuid, error)
    return deleted


def _delete_old(base: OpenBase, uuid: str, oldest: str) -> list[str]:
    folder = base.folders.find(uuid)
    if folder is None:
        return []
    with closing(base.read_store(folder)) as store:
        names = [name for name in store.records.kept_files() if _EXPLORATION.fullmatch(name)]
        old = [name for name in names if _made_at(store, name) < oldest]
        for name in old:
            store.records.drop_file(name)
    return old


def _made_at(store: TaskReader, name: str) -> str:
    """When an archive was made; one that does not say it is never too old."""
    content = (store.records.kept_file(name) or b"").decode("utf-8", "replace")
    head = _HEAD.match(content)
    try:
        made: str = jsonio.decode((head[1] if head else content).encode("utf-8", "replace"))["created_at"]
        return made
    except (ValueError, KeyError, TypeError):
        return "~"
