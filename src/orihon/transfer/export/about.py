"""What stands above a task's history: names and figures, as pairs of label and text, the same in each form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from orihon.catalogue.metadata import key_in, read_metadata
from orihon.tasks.view_reader import ViewStatistics
from orihon.texts import text
from orihon.transfer.export.prose import one_line
from orihon.transfer.export.story import OpenTask
from orihon.values.records import Compression, Fold, ModelCall

_SECONDS = len("2026-01-31T12:34:56")


@dataclass(frozen=True, slots=True)
class About:
    """A task's head. Texts are from outside, unless they are labels."""

    title: str
    status: str
    facts: tuple[tuple[str, str], ...]
    figures: tuple[tuple[str, str], ...]
    view: ViewStatistics
    error: str


def about(task: OpenTask) -> About:
    """The head of a task; what is not known is left out."""
    view = task.view.figures()
    return About(
        title=_title(task),
        status="" if task.row is None else task.row.status.value,
        facts=tuple((text(f"export.{label}"), value) for label, value in _facts(task) if value),
        figures=tuple((text(f"export.{label}"), f"{count:,}") for label, count in _counts(task, view)),
        view=view,
        error="" if task.row is None else task.row.error_message or "",
    )


def _title(task: OpenTask) -> str:
    key = task.row.key if task.row is not None else key_in(read_metadata(task.records) or {})
    return task.uuid if key is None else key.label


def _facts(task: OpenTask) -> Iterator[tuple[str, str]]:
    yield "uuid", task.uuid
    if (row := task.row) is None:
        return
    yield "type", row.task_type
    yield "user", row.user
    yield "model", " ".join(filter(None, (row.llm_provider, row.model)))
    yield "created", moment(row.created_at)
    yield "started", moment(row.started_at)
    yield "ended", moment(row.completed_at)
    yield "inherits", row.inherits_from or ""
    yield "parent", row.parent_uuid or ""


def _counts(task: OpenTask, view: ViewStatistics) -> Iterator[tuple[str, int]]:
    yield "messages", task.view.last_seq
    yield "entries", view.entries
    yield "tokens", view.tokens
    yield "changes", task.lasts["compressions"]
    yield "tool_calls", task.lasts["tools"]
    if task.row is not None and task.row.llm_call_count:
        yield "llm_calls", task.row.llm_call_count


def moment(value: str | None) -> str:
    """A time for people: to the second, UTC."""
    if not value:
        return ""
    return f"{value[:_SECONDS].replace('T', ' ')} UTC" if "T" in value else value


def role_name(role: str) -> str:
    """A role for people; those that nobody knows by their own name."""
    try:
        return text(f"export.roles.{role}")
    except KeyError:
        return role


def call_statistics(call: ModelCall) -> str:
    """The model that an answer came from, what it used and what it cost."""
    said = [call.model]
    if (usage := call.usage) is not None:
        said.append(text("export.usage", input=usage.input, cached=usage.cached, output=usage.output))
    if call.cost is not None:
        said.append(f"${call.cost:,.4f}")
    return " · ".join(filter(None, said))


def fold_title(fold: Fold) -> str:
    """Which fold it is and what it stands for."""
    if not fold.end_seq:  # added by hand, about no run of the log
        return text("export.summary_title", fold=fold.id)
    return text("export.fold_title", fold=fold.id, start=fold.start_seq, end=fold.end_seq)


def fold_statistics(fold: Fold, made_in: Compression | None) -> str:
    """How much shorter it is, by whom and why."""
    how = "" if made_in is None else " ".join(filter(None, (made_in.strategy or made_in.kind, made_in.level)))
    tokens = text("export.fold_tokens", before=fold.original_tokens, after=fold.tokens)
    trust = text(f"web.task.trust.{fold.trust}") if fold.trust else ""
    said = (tokens, how, fold.reason, fold.made_by, trust, moment(fold.created_at))
    return " · ".join(dict.fromkeys(one_line(part) for part in said if part))


def compression_cells(record: Compression, *, undone: bool) -> tuple[str, ...]:
    """A row of the table of changes."""
    kind = record.kind if record.parent is None else f"{record.kind} {record.parent}"
    return (
        str(record.id),
        kind,
        " ".join(filter(None, (record.trigger, record.strategy, record.level))),
        ", ".join(map(str, record.folds)),
        f"{record.before_tokens:,} → {record.after_tokens:,}",
        record.made_by,
        moment(record.created_at),
        ", ".join(map(call_statistics, record.calls)),
        text("export.undone") if undone else "",
    )


def compression_columns() -> list[str]:
    """The heads of that table."""
    columns = ("number", "kind", "how", "folds", "tokens", "by", "at", "model", "state")
    return [text(f"export.columns.{column}") for column in columns]
