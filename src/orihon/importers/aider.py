"""Chat histories of aider (``.aider.chat.history.md``): markdown that only a few marks make a conversation.

    # aider chat started at …    a session begins; each becomes a thread
    #### …                       what a person said, line by line
    > …                          what aider said: files, edits, commits, shell output, tokens and costs
    anything else                what the model said

What aider said was never a message of anybody; it is kept as system messages, since commits and shell output stand
nowhere else: one until somebody speaks, then one for each thing, so that a file that grows changes none of them.
Answers may quote and have headings, too: aider ends its own lines with two spaces, which tells them apart; where an
editor has taken those away, a mark inside a code block is the answer's. Of something that aider says in several lines
only the first one is marked, and the last one ends so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from orihon.importers.registry import Importer, Problem, SaidItem, Thread, TranscriptEvent, TranscriptPart, check_bounds
from orihon.importers.shapes import message, model_call, name_for
from orihon.values.records import ModelCall, Usage

_START = "# aider chat started at "
_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_TOKENS = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kM]?) sent"
    r"(?:, (?P<write>[\d.,]+[kM]?) cache write)?(?:, (?P<hit>[\d.,]+[kM]?) cache hit)?"
    r"(?:, (?P<received>[\d.,]+[kM]?) received)?"
)
_COST = re.compile(r"Cost: \$(?P<cost>[\d.,]+) message")
_MODEL = re.compile(r"^(?:Main model|Model|Models): (?P<model>\S+)")
_REPORT = "> Tokens: "
_PLAIN = re.compile(r"(?!#|>| {0,3}(?:`{3}|~{3}))")  # a line of an answer that can be nothing else
_LONGEST = 8 << 20  # of a line
_LARGEST_FIGURE = 1e12


class Aider(Importer):
    """Chat histories of aider."""

    name = "aider"

    def recognises(self, head: bytes, path: Path) -> bool:
        begun = head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(_START.encode())
        return begun or (path.name == ".aider.chat.history.md" and f"\n{_START}".encode() in head)

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        history = _History(path)
        try:
            with path.open("rb") as file:
                number = 0
                while raw := file.readline(_LONGEST):
                    number += 1
                    check_bounds(len(raw))
                    line = _decoded(raw, number, history)
                    if not history.goes_on_with(line):
                        yield from history.take(line, number)
        except OSError as error:
            yield Problem("unreadable", fields={"detail": error.strerror or str(error)})
        yield from history.end()

    def ignores(self, path: Path) -> bool:
        return path.name == ".aider.input.history" or path.name.startswith(".aider.tags.cache")


def _decoded(raw: bytes, number: int, history: _History) -> str:
    try:
        return raw.decode() if number > 1 else raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        history.problems.append(Problem("encoding", number))
        return raw.decode("utf-8", "replace")


@dataclass(slots=True)
class _History:
    path: Path
    problems: list[Problem] = field(default_factory=list)
    _mark: str = ""  # the first session's time: it tells this file from others
    _thread: Thread | None = None
    _begun: dict[str, int] = field(default_factory=dict)  # ids of sessions -> how often
    _model: str = ""
    _role: str = ""
    _lines: list[str] = field(default_factory=list)
    _first: int = 0  # line where those begin
    _fence: str = ""
    _is_marked: bool | None = None  # do its lines end as aider writes them? Editors take such spaces away
    _goes_on: bool = False  # inside something aider said in several lines
    _answer: tuple[SaidItem, int] | None = None  # the report of its tokens comes after it
    _after: list[tuple[SaidItem, int]] = field(default_factory=list)  # what aider has said since that answer
    _is_announced: bool = False
    _before: list[tuple[str, int]] = field(default_factory=list)  # what aider has said until somebody speaks

    def goes_on_with(self, line: str) -> bool:
        """Take a line that can only belong to the answer before it; most lines are such."""
        if self._role == "assistant" and not self._goes_on and _PLAIN.match(line):
            self._lines.append(line.rstrip("\r\n"))
            return True
        return False

    def take(self, line: str, number: int) -> Iterator[TranscriptPart]:
        bare = line.rstrip("\r\n")
        if bare.startswith(_START):
            yield from self._flush()
            self._begin(bare.removeprefix(_START).strip())
            return
        role, said = self._of(bare)
        is_mark = role != "assistant" and bare.startswith(("#### ", "> "))
        is_next = is_mark and (role == "system" or self._lines[-1:] == [""])  # a prompt begins after a gap
        if is_next or (role != self._role and (said.strip() or role != "assistant")):
            yield from self._close()
            self._role, self._first = role, number
        if role == "assistant" or role == self._role:
            self._lines.append(said)

    def end(self) -> Iterator[TranscriptPart]:
        yield from self._flush()
        yield from self.problems

    def _of(self, line: str) -> tuple[str, str]:
        """Who says this line, and what of it is said."""
        ends, is_mark = line.endswith("  "), line.startswith(("#### ", "> ")) or line == ">"
        if self._is_marked is None and is_mark:
            self._is_marked = ends
        if self._goes_on and not is_mark:
            self._goes_on = not ends
            return "system", line.rstrip() if ends else line
        self._goes_on = False
        if is_mark and self._is_ours(line, ends):
            self._fence = ""
            said = line.partition(" ")[2]
            self._goes_on = line[0] == ">" and not ends and (self._is_marked is True or line.startswith(_REPORT))
            return "user" if line[0] == "#" else "system", said.rstrip() if ends else said
        if not line.strip() and self._role != "assistant":
            return self._role, ""
        self._watch_fence(line)
        return "assistant", line

    def _is_ours(self, line: str, ends: bool) -> bool:
        """Is the mark of this line aider's, or does an answer quote or have a heading?"""
        if ends or line.startswith(_REPORT):
            return True
        if self._role != "assistant":
            return True
        if self._fence:
            return False
        # After an answer, aider leaves two lines empty before what a person says.
        return self._lines[-2:] == ["", ""] if line[0] == "#" else not self._is_marked

    def _watch_fence(self, line: str) -> None:
        if fence := _FENCE.match(line):
            mark = fence.group(1)
            if not self._fence:
                self._fence = mark
            elif mark[0] == self._fence[0] and len(mark) >= len(self._fence) and line.strip() == mark:
                self._fence = ""

    def _begin(self, started: str) -> None:
        self._mark = self._mark or started
        named = name_for(Path("-".join(re.findall(r"\d+", started)) or "session"), self._mark)
        self._begun[named] = self._begun.get(named, 0) + 1
        if self._begun[named] > 1:
            named = f"{named}-{self._begun[named]}"
        is_at_home = self.path.name == ".aider.chat.history.md"
        cwd = str(self.path.resolve().parent) if is_at_home else ""
        time = started.replace(" ", "T") if re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", started) else None
        self._thread = Thread(named, created_at=time, cwd=cwd)
        self._is_announced = False
        self._before = []
        self._model = ""

    def _close(self) -> Iterator[TranscriptPart]:
        """What was said until here, as a message."""
        said = "\n".join(self._lines).strip("\n")
        role, line, self._lines, self._role = self._role, self._first, [], ""
        if not said.strip() or not role:
            return
        if role == "system" and self._answer is not None:
            self._after.append((SaidItem(message(role, said)), line))
            self._report(said)
            return
        self._report(said if role == "system" else "")
        yield from self._flush_answer()
        if role == "assistant":
            call = ModelCall(self._model) if self._model else None
            self._answer = (SaidItem(message(role, said), call=call), line)
        else:
            yield from self._say(SaidItem(message(role, said)), line)

    def _report(self, said: str) -> None:
        """What aider tells of models, tokens and costs."""
        for told in said.splitlines():
            if found := _MODEL.match(told):
                self._model = found["model"]
        tokens, cost = _TOKENS.search(said), _COST.search(said)
        if tokens is None or self._answer is None:
            return
        item, line = self._answer
        sent = _count(tokens["sent"])
        used = Usage(sent, min(_count(tokens["hit"]), sent), _count(tokens["received"]))
        call = model_call(self._model, used, _figure(cost["cost"]) if cost else None) or ModelCall("")
        self._answer = (SaidItem(item.message, item.timestamp, call), line)

    def _flush(self) -> Iterator[TranscriptPart]:
        yield from self._close()
        yield from self._flush_answer()
        self._fence = ""

    def _flush_answer(self) -> Iterator[TranscriptPart]:
        if self._answer is not None:
            all_of_it, self._answer, self._after = [self._answer, *self._after], None, []
            for item, line in all_of_it:
                yield from self._say(item, line)

    def _say(self, item: SaidItem, line: int) -> Iterator[TranscriptPart]:
        if self._thread is None:
            self._begin("")
        assert self._thread is not None
        if not self._is_announced:
            if item.message.role == "system":  # a session in which nobody says anything is none
                self._before.append((item.message.text, line))
                return
            self._is_announced = True
            yield self._thread
            if self._before:
                head = "\n".join(said for said, _ in self._before)
                yield TranscriptEvent(self._thread.id, SaidItem(message("system", head)), self._before[0][1])
        yield TranscriptEvent(self._thread.id, item, line)


def _count(written: str | None) -> int:
    """``3.7k`` is about 3,700."""
    if not written:
        return 0
    factor = {"k": 1000, "M": 1_000_000}.get(written[-1], 1)
    return round((_figure(written.rstrip("kM")) or 0) * factor)


def _figure(written: str) -> float | None:
    try:
        figure = float(written.rstrip(".,").replace(",", ""))
    except ValueError:
        return None
    return figure if figure < _LARGEST_FIGURE else None
