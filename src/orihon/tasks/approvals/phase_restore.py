"""Opening what a phase has folded: into the view, or as a text for somebody who only wants to look.

Into the view means that folds are opened, which is a change of the view like any other: it is recorded and can be
undone. A text is read from the archive of the phase or, when that has been deleted, from the log.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from orihon.errors import InvalidInput
from orihon.store import TaskMessages
from orihon.store.checkpoints import read_ledger
from orihon.store.reader import TaskReader
from orihon.tasks.approvals.phase_archives import (
    archived_text,
    extract_section,
    phase_archive,
    phase_text,
    section_seqs,
)
from orihon.tasks.base import OpenBase
from orihon.tasks.editing import changing_task


@dataclass(frozen=True, slots=True)
class Restored:
    """What was opened in the view."""

    folds: tuple[int, ...]
    before_tokens: int
    after_tokens: int


def read_phase(base: OpenBase, uuid: str, *, phase: int | None = None, section: str | None = None) -> str:
    """The text of a phase, or of one of its sections; nothing changes. The newest archive without a number."""
    base.open_catalogue()
    folder = base.folders.find(uuid)
    if folder is None:
        raise base.missing(uuid)
    with closing(base.read_store(folder)) as store:
        content = _content(store, phase)
    return archived_text(content) if section is None else extract_section(content, section)


def restore_phase(base: OpenBase, uuid: str, *, phase: int | None = None, section: str | None = None) -> Restored:
    """Open the folds of a phase in the view, or those of the messages that have this section."""
    with changing_task(base, uuid) as task:
        store = task.messages.task_store
        content = _content(store, phase)
        if section is not None:
            extract_section(content, section)  # refuses a name that nothing has
        before = task.messages.get_current_token_count()
        opened = _unfold(task.messages, section_seqs(content, section))
        return Restored(opened, before, task.messages.get_current_token_count())


def _unfold(messages: TaskMessages, seqs: list[int]) -> tuple[int, ...]:
    """Open every fold over these messages, and those that come out of them."""
    opened: list[int] = []
    while True:
        folds = [fold for fold in messages.view().folds if any(fold.start_seq <= seq <= fold.end_seq for seq in seqs)]
        if not folds:
            return tuple(opened)
        for fold in folds:
            messages.folding.unfold(fold.id, made_by="restore")
            opened.append(fold.id)


def _content(store: TaskReader, number: int | None) -> str:
    try:
        return phase_archive(store, number)[1]
    except InvalidInput as error:
        phases = read_ledger(store).phases
        found = next((phase for phase in reversed(phases) if number in (None, phase.number)), None)
        if found is None:
            numbers = [str(phase.number) for phase in phases]
            known = ", ".join(numbers) or error.fields["known"]  # an approval without phases has an archive, too
            raise InvalidInput("no_phase", phase=number or "-", known=known) from None
        return phase_text(store, found, found.end_seq or store.count("messages"))
