"""The demo of people in the loop: three game engines are compared, and a person answers.

One process, real records, no model: what an agent would have written comes from the texts, everything else happens.
The answers are given as ``orihon approve`` and ``orihon reject`` give them, to a task that waits and that nobody holds.
All figures are read from the task. An interrupted demo leaves its task paused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from orihon.errors import Waiting
from orihon.settings import load_settings
from orihon.tasks.approvals.answers import Answered, approve, reject
from orihon.tasks.approvals.phase_restore import read_phase
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.reader import TaskStore
from orihon.tasks.verify.verify import verify
from orihon.texts import text
from orihon.transfer.archive import ArchivedTask, archive_task, restore_task
from orihon.values.task import TaskKey, TaskStatus

KEY = TaskKey("local", "demo", "engines", "issue", "1", "you")
#: Lines of comparison for each engine.
ENGINES = {"Unity": 500, "Godot": 300, "Phaser": 200}
SECTION = "Godot"
_SHOWN_ITEMS = 2  # of a long list
_SETTINGS = {
    "compression.preset": "default",
    "compression.ladder": None,
    "compression.auto_compress_on_approval": True,
    "compression.confirm_before_compress": False,
    "compression.archive_format": "markdown",
}


@dataclass(frozen=True, slots=True)
class CheckpointAnswer:
    """A person's answer, and the tokens of the view before and after it."""

    checkpoint: str
    decision: str
    by: str
    comment: str
    before_tokens: int
    after_tokens: int


@dataclass(frozen=True, slots=True)
class PhasesReport:
    """What the story has led to."""

    uuid: str
    status: str
    base_dir: Path
    storage: str
    messages: int
    log_tokens: int
    view_tokens: int
    answers: tuple[CheckpointAnswer, ...]
    before: str  # the exploration in the view, before the approval
    after: str  # what the approval has left of it
    reopened: str  # the same place after the rejection
    files: tuple[str, ...]  # archives of phases, and the log of compressions
    archive: str
    archive_bytes: int
    archived_bytes: int  # what is in it
    section: str  # as it was restored
    findings: int

    @property
    def is_complete(self) -> bool:
        """Did it fold, open again, end and come back undamaged?"""
        folded = len(self.after) < len(self.before) == len(self.reopened)
        return folded and self.status == TaskStatus.COMPLETED.value and bool(self.section) and not self.findings


class PhasesStory:
    """Plays the stages one by one."""

    def __init__(self, folder: Path, stage: Callable[[str], object], line: Callable[[str], object]) -> None:
        self._settings = load_settings().replace(**_SETTINGS)
        self._base = OpenBase(folder / "contexts", self._settings, create=True)
        self.base_dir = self._base.path
        self._stage, self._line = stage, line
        self._answers: list[CheckpointAnswer] = []
        self.uuid, self._report_seq = "", 0  # the task, and its message with the comparison

    def run(self) -> PhasesReport:
        """Play it all."""
        with self._base:
            return self._play()

    def _play(self) -> PhasesReport:
        self._explore()
        before = self._in_view()
        self._answer(2, "concept", approve)
        after = self._in_view()
        self._show("after", after.splitlines())
        self._show_files()
        self._plan(3, "plan")
        self._answer(4, "plan", reject)
        reopened = self._in_view()
        self._show("reopened", _outline(reopened))
        self._plan(5, "new_plan")
        self._answer(6, "new_plan", approve)
        archived = self._complete()
        section = self._restore(archived)
        return self._report((before, after, reopened), archived, section)

    def _explore(self) -> None:
        self._say_stage(1)
        with TaskContextManager(self.base_dir, KEY, self._settings, inherit=False) as ctx:
            self.uuid = ctx.uuid
            self._say("task", uuid=ctx.uuid, storage=self._settings.context_storage.backend)
            ctx.message_store.add_message("system", _words("system"))
            ctx.message_store.add_message("user", _words("goal"))
            ctx.phase("exploration")
            compared = _words("report", **{name.lower(): _comparison(name) for name in ENGINES})
            self._report_seq = ctx.message_store.add_message("assistant", compared)
            self._show("before", _outline(compared))
            self._ask(ctx, "concept", "concept")

    def _plan(self, stage: int, key: str) -> None:
        """The checkpoint is the same one both times: after a rejection, asking again is a new question."""
        self._say_stage(stage)
        with TaskContextManager.resume(self.base_dir, self.uuid, self._settings) as ctx:
            ctx.phase("design")
            ctx.message_store.add_message("assistant", _words(key))
            self._show("planned", _words(key).splitlines())
            self._ask(ctx, "plan", key)

    def _ask(self, ctx: TaskContextManager, name: str, key: str) -> None:
        """Ask, and let go of the task: whoever answers may open it."""
        tokens = ctx.message_store.get_current_token_count()
        try:
            ctx.checkpoint(name, _words(f"{key}_question"))
        except Waiting as waiting:
            self._say("waits", name=name, question=waiting.fields["question"], tokens=tokens)

    def _answer(self, stage: int, key: str, give: Callable[..., Answered]) -> None:
        self._say_stage(stage)
        done = give(self._base, self.uuid, by=KEY.user, reason=_words(f"{key}_answer"))
        given, name = done.checkpoint.answer, done.checkpoint.name
        assert given is not None
        figures = {"before_tokens": done.before_tokens, "after_tokens": done.after_tokens}
        self._answers.append(CheckpointAnswer(name, given.decision, given.by, given.comment, **figures))
        said = {"decision": text(f"approvals.decision.{given.decision}"), "comment": given.comment}
        self._say("answered", by=given.by, name=name, **said, **figures)

    def _complete(self) -> ArchivedTask:
        self._say_stage(7)
        TaskContextManager.resume(self.base_dir, self.uuid, self._settings).complete()
        archived = archive_task(self._base, self.uuid)
        place, size, content = f"{archived.place}/{archived.key}", archived.bytes, archived.content_bytes
        self._say("archived", place=place, format=archived.format, size=size, content=content)
        return archived

    def _restore(self, archived: ArchivedTask) -> str:
        self._say_stage(8)
        restore_task(self._base, self.uuid)
        self._say("unarchived", members=archived.members, sha256=archived.content_sha256[:12])
        section = read_phase(self._base, self.uuid, phase=1, section=SECTION)
        self._show("section", _outline(section), section=SECTION, lines=len(section.splitlines()))
        return section

    def _report(self, exploration: tuple[str, str, str], archived: ArchivedTask, section: str) -> PhasesReport:
        before, after, reopened = exploration
        _, row = self._base.registered(self.uuid)
        with self._reading() as store:
            tail, files = store.tail, tuple(_archives(store))
        return PhasesReport(
            uuid=self.uuid,
            status=row.status.value,
            base_dir=self.base_dir,
            storage=self._settings.context_storage.backend,
            messages=tail.seq,
            log_tokens=tail.log_tokens,
            view_tokens=tail.view_tokens,
            answers=tuple(self._answers),
            before=before,
            after=after,
            reopened=reopened,
            files=files,
            archive=f"{archived.place}/{archived.key}",
            archive_bytes=archived.bytes,
            archived_bytes=archived.content_bytes,
            section=section,
            findings=len(verify(self._base, self.uuid)),
        )

    def _reading(self) -> closing[TaskStore]:
        place = self._base.folders.find(self.uuid)
        assert place is not None
        return closing(self._base.read_store(place))

    def _in_view(self) -> str:
        """What stands in the view where the comparison was written."""
        with self._reading() as store:
            view, pages = store.pages()
            at = next(n for n, entry in enumerate(view.entries) if entry.end >= self._report_seq)
            return pages[at].text

    def _show_files(self) -> None:
        with self._reading() as store:
            for name in _archives(store):
                self._say("file", name=name, size=len(store.records.kept_file(name) or b""))

    def _show(self, key: str, shown: list[str], **fields: object) -> None:
        self._say(key, **fields)
        for line in shown:
            self._line(f"   │ {line}".rstrip())

    def _say(self, key: str, **fields: object) -> None:
        self._line(f"   {_words(key, **fields)}")

    def _say_stage(self, number: int) -> None:
        self._stage(f"{number}. {_words(f'stage_{number}')}")


def _words(key: str, **fields: Any) -> str:
    return text(f"demo.phases.{key}", **fields)


def _archives(store: TaskStore) -> list[str]:
    return sorted(name for name in store.records.kept_files() if name.startswith("archives/"))


def _comparison(engine: str) -> str:
    """Many lines of measurements, always the same."""
    aspects, count = _words("aspects").split("|"), ENGINES[engine]
    return "\n".join(
        _words("detail", number=n, aspect=aspects[n % len(aspects)], figure=(n * count) % 97 / 10, objects=50 * n)
        for n in range(1, count + 1)
    )


def _outline(document: str) -> list[str]:
    """A document for the screen: of long lists their beginning, and how much more there is."""
    shown: list[str] = []
    for is_item, group in groupby(document.splitlines(), lambda line: line.startswith("- ")):
        lines = list(group)
        left = len(lines) - _SHOWN_ITEMS if is_item else 0
        shown += [*lines[:_SHOWN_ITEMS], _words("more", lines=left)] if left > 1 else lines
    return shown
