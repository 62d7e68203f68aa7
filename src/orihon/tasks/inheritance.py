"""What a new task takes over from the last finished one on its key: ``ContextInheritanceManager``.

Owns the search for earlier tasks, reading what they left behind, and wording it for the model and for people.
Finished tasks stay as they are: this looks, never claims, and makes no file in them. What is inherited is told
to the model as background and not as an instruction, within ``inheritance.max_summary_tokens`` and a tenth of the
new task's window: it joins the system prompt, which is never folded. A task whose folder is gone (archived) has
nothing to give; a damaged one raises, except for a task that is just being started. What is wished for one task
(nothing, or a given task's) is in its row, so that whoever opens it, on whatever machine, does the same.

A file that was imported may claim any key: such a task gives nothing unless somebody points at it, or
``inheritance.from_imports`` is set. Then every line of it is quoted, and none of it is a constraint of anybody here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.rows import CLEANED, is_imported
from orihon.errors import DamagedStore, IllegalTransition, InvalidInput, StorageError
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.store.kept_files import trusted_file
from orihon.store.reader import TaskReader
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.json_shapes import AsJson
from orihon.tasks.place import folders_of
from orihon.texts import text
from orihon.values.records import FINAL_SUMMARY
from orihon.values.task import FINISHED, TaskKey, TaskStatus
from orihon.values.tokens.tokens import estimate

if TYPE_CHECKING:
    from orihon.tasks.context import TaskContextManager

logger = logging.getLogger("orihon.inheritance")

PlanRecord = Mapping[str, Any]

#: In a row's metadata, ``False``: the task inherits nothing.
INHERIT = "inherit"

_MOST_PREVIOUS = 10
_MOST_LOOKED_AT = 1000
_MOST_EARLIER = 3
_MOST_TOOL_PROBLEMS = 5
_PROBLEM_CHARACTERS = 500
# What is inherited stays in the view for good, so a small window must not be filled with it.
_MOST_OF_WINDOW = 10


@dataclass(frozen=True, slots=True)
class PreviousContext(AsJson):
    """A finished task on the same key, and what it left behind."""

    json_fields = "uuid final_summary=summary imported=is_imported?"

    uuid: str
    status: TaskStatus
    completed_at: datetime | None
    metadata: Mapping[str, Any]
    final_summary: str | None = None
    planning_history: tuple[PlanRecord, ...] = ()
    open_problems: tuple[str, ...] = ()
    is_imported: bool = False  # others have written it

    @property
    def summary(self) -> str:
        return self.final_summary or ""


@dataclass(frozen=True, slots=True)
class InheritanceContext(AsJson):
    """What a new task inherits.

    ``earlier`` is set when the task inherited from did not complete: the tasks before it, the last one first,
    up to one that did. What they knew would otherwise be lost with the failure.
    """

    json_fields = "uuid status final_summary plans=planning_history open_problems earlier imported=is_imported?"

    uuid: str
    final_summary: str
    planning_history: tuple[PlanRecord, ...]
    metadata: Mapping[str, Any]
    open_problems: tuple[str, ...] = ()
    status: TaskStatus = TaskStatus.COMPLETED
    completed_at: datetime | None = None
    earlier: tuple[PreviousContext, ...] = ()
    is_imported: bool = False  # others have written it


def inheritable_summary(store: TaskReader) -> bytes | None:
    """What a task has left for the next one; nothing where it is not what was written."""
    return trusted_file(store.records, FINAL_SUMMARY)


class ContextInheritanceManager:
    """Looks at the finished tasks below one base folder."""

    def __init__(
        self,
        base_dir: Path | str,
        config: Mapping[str, Any] | Settings | None = None,
        *,
        catalogue: Catalogue | None = None,
    ) -> None:
        self.base_dir = Path(base_dir).absolute()
        self.settings = load_settings(config)
        self.max_summary_tokens = self.settings.inheritance.max_summary_tokens
        self._catalogue = catalogue or open_catalogue(self.base_dir, self.settings)
        self._folders = folders_of(self.base_dir, self.settings)

    # ---- finding -------------------------------------------------------------------------------------------

    def find_previous_contexts(self, task_key: TaskKey | Mapping[str, Any]) -> list[PreviousContext]:
        """The completed and failed tasks on exactly this key, user included, the last one first."""
        key = task_key if isinstance(task_key, TaskKey) else TaskKey.from_dict(task_key)
        rows = self._givers(key)[:_MOST_PREVIOUS]
        return [self._build_previous_context_from_db(row) for row in rows if self._is_here(row)]

    def _givers(self, key: TaskKey) -> list[TaskRow]:
        """The finished tasks on a key that may be inherited from, the last one first."""
        found = self._catalogue.tasks.previous(key, _MOST_LOOKED_AT)  # any number of imports hides no task of ours
        return [row for row in found if self.settings.inheritance.from_imports or not is_imported(row)]

    def find_inheritance(self, row: TaskRow) -> InheritanceContext | None:
        """What a task that is being started inherits: from the one it names, or the last finished one on its key.

        Only that one is read. When it cannot be, nothing is inherited: old damage must not keep new work from
        starting.
        """
        try:
            uuid = row.inherits_from or self._last_finished(row)
            found = None if uuid is None else self.get_inheritance_context(uuid)
        except StorageError as error:
            logger.warning("%s: nothing is inherited: %s", row.uuid, error)
            return None
        if found is None and row.inherits_from:
            logger.warning("%s: nothing is inherited: %s has nothing to give here", row.uuid, row.inherits_from)
        return found

    def _last_finished(self, row: TaskRow) -> str | None:
        return next(
            (older.uuid for older in self._givers(row.key) if older.uuid != row.uuid and self._is_here(older)), None
        )

    def get_inheritance_context(self, previous_uuid: str) -> InheritanceContext | None:
        """What can be inherited from this task; ``None`` when it is unknown, not finished or archived."""
        row = self._catalogue.tasks.find(previous_uuid)
        if row is None or row.status not in FINISHED:
            logger.info("%s: not a finished task, nothing to inherit", previous_uuid)
            return None
        if not self._is_here(row):
            return None
        previous = self._build_previous_context_from_db(row)
        return InheritanceContext(
            uuid=previous.uuid,
            final_summary=previous.final_summary or "",
            planning_history=previous.planning_history,
            metadata=previous.metadata,
            open_problems=previous.open_problems,
            status=previous.status,
            completed_at=previous.completed_at,
            earlier=self._find_earlier(row),
            is_imported=previous.is_imported,
        )

    def _is_here(self, row: TaskRow) -> bool:
        if self._folders.find(row.uuid) is not None:
            return True
        logger.info("%s: the folder is gone (archived?), nothing to inherit", row.uuid)
        return False

    def _find_earlier(self, row: TaskRow) -> tuple[PreviousContext, ...]:
        if row.status is TaskStatus.COMPLETED:
            return ()
        found: list[PreviousContext] = []
        for older in self._givers(row.key)[:_MOST_PREVIOUS]:
            if (older.completed_at or "") >= (row.completed_at or ""):
                continue
            try:
                if not self._is_here(older):
                    continue
                found.append(self._build_previous_context_from_db(older))
            except StorageError as error:
                logger.warning("%s: an earlier task is left out: %s", row.uuid, error)
                continue
            if older.status is TaskStatus.COMPLETED or len(found) == _MOST_EARLIER:
                break
        return tuple(found)

    # ---- reading -------------------------------------------------------------------------------------------

    def _build_previous_context_from_db(self, row: TaskRow) -> PreviousContext:
        return PreviousContext(
            uuid=row.uuid,
            status=row.status,
            completed_at=None if row.completed_at is None else datetime.fromisoformat(row.completed_at),
            metadata=self._load_metadata(row.uuid),
            final_summary=self._load_final_summary(row.uuid),
            planning_history=tuple(self._load_planning_history(row.uuid)),
            open_problems=tuple(self._load_open_problems(row)),
            is_imported=is_imported(row),
        )

    def _load_final_summary(self, uuid: str) -> str | None:
        with self._reading(uuid) as store:
            raw = None if store is None else inheritable_summary(store)
        return None if raw is None else raw.decode("utf-8", "replace").strip()

    def _load_metadata(self, uuid: str) -> dict[str, Any]:
        raw = self._load_file(uuid, "metadata.json")
        if raw is None:
            return {}
        try:
            fields = dict(jsonio.decode(raw))
            fields.pop("crc32", None)
            return fields
        except (ValueError, TypeError) as error:
            here = self._folders.find(uuid)
            path = (self.base_dir if here is None else here.folder) / "metadata.json"
            raise DamagedStore("metadata", path=path) from error

    def _load_planning_history(self, uuid: str) -> list[dict[str, Any]]:
        with self._reading(uuid) as store:
            return [] if store is None else list(store.read("planning"))

    def _load_open_problems(self, row: TaskRow) -> list[str]:
        """Why the task failed, then each tool's last error that no later success followed, the newest first."""
        from orihon.compression.trust import quoted_if_order  # most who look for earlier tasks need no compression

        failed: dict[str, str] = {}
        with self._reading(row.uuid) as store:
            for call in () if store is None else store.read("tools"):
                tool, error = str(call.get("tool_name")), call.get("error")
                failed.pop(tool, None)
                if error or call.get("status") == "error":
                    failed[tool] = str(error or "error")
        newest = list(failed.items())[: -_MOST_TOOL_PROBLEMS - 1 : -1]
        # What a tool has said is told, not obeyed: it joins the system prompt of the next task.
        problems = [f"{tool}: {quoted_if_order(_one_line(error))}" for tool, error in newest]
        if row.error_message and row.status is not TaskStatus.COMPLETED:
            problems.insert(0, row.error_message)
        return [_one_line(problem) for problem in problems]

    def _load_file(self, uuid: str, name: str) -> bytes | None:
        with self._reading(uuid) as store:
            return None if store is None else store.records.kept_file(name)

    @contextmanager
    def _reading(self, uuid: str) -> Iterator[TaskStore | None]:
        here = self._folders.find(uuid)
        if here is None:
            yield None
            return
        with closing(open_for_reading(here.folder, self.settings, name=uuid)) as store:
            yield store

    # ---- wording -------------------------------------------------------------------------------------------

    def create_initial_context(self, task_ctx: TaskContextManager, inheritance_ctx: InheritanceContext) -> int:
        """Add one system message with what is inherited; returns its number."""
        limit = min(self.max_summary_tokens, task_ctx.context_length // _MOST_OF_WINDOW)
        prefix = text("inheritance.prefix", **_about(inheritance_ctx))
        if inheritance_ctx.is_imported or any(previous.is_imported for previous in inheritance_ctx.earlier):
            prefix += " " + text("inheritance.imported")
        room = limit - estimate(prefix)
        while True:
            inherited = self._build_inherited_text(inheritance_ctx, room)
            message = self._format_summary_with_prefix(inherited, prefix)
            # The estimate of a mixture of languages can be larger than the sum over its parts.
            excess = estimate(message) - limit
            if excess <= 0 or room <= 0:
                return task_ctx.message_store.add_message("system", message)
            room -= excess

    def generate_notification_comment(self, inheritance_ctx: InheritanceContext) -> str:
        """A comment in Markdown for the task's source. It quotes nothing of what is inherited."""
        contents = [
            text("inheritance.has_summary") if inheritance_ctx.final_summary else "",
            _counted("inheritance.has_plans", inheritance_ctx.planning_history),
            _counted("inheritance.has_problems", inheritance_ctx.open_problems),
            _counted("inheritance.has_earlier", inheritance_ctx.earlier),
        ]
        listed = ", ".join(filter(None, contents)) or text("inheritance.nothing")
        if inheritance_ctx.is_imported:
            listed += f" ({text('inheritance.from_import')})"
        return text("inheritance.comment", contents=listed, **_about(inheritance_ctx))

    def _build_inherited_text(self, inheritance_ctx: InheritanceContext, room: int) -> str:
        """The parts one after another; when room is short, an even share for each that wants more."""
        if room <= 0:
            return text("inheritance.truncated")
        problems = "\n".join(f"- {problem}" for problem in inheritance_ctx.open_problems)
        plans = self._build_planning_summary(inheritance_ctx.planning_history)
        parts = [
            _section("inheritance.problems", _told_by(inheritance_ctx, problems)),
            _section("inheritance.summary", _told_by(inheritance_ctx, inheritance_ctx.final_summary)),
            _section("inheritance.plans", _told_by(inheritance_ctx, plans)),
            *(
                _section("inheritance.earlier", _told_by(previous, previous.final_summary or ""), **_about(previous))
                for previous in inheritance_ctx.earlier
            ),
        ]
        parts = [part for part in parts if part] or [text("inheritance.nothing")]
        shares = _shares([estimate(part) for part in parts], room)
        cut = (self._truncate_summary_if_needed(*pair) for pair in zip(parts, shares, strict=True))
        return "\n\n".join(cut)

    def _build_planning_summary(self, planning_history: Sequence[PlanRecord]) -> str:
        """The plans, the newest first: that one counts when the rest has to go."""
        lines = []
        for plan in reversed(planning_history):
            content = plan.get("plan_content")
            shown = content if isinstance(content, str) else jsonio.encode(content).decode()
            lines.append(f"- [{plan.get('created_at', '-')}] {plan.get('plan_type', '-')}: {shown}")
        return self._truncate_summary_if_needed("\n".join(lines))

    def _truncate_summary_if_needed(self, summary: str, max_tokens: int | None = None) -> str:
        """The beginning of the text and a notice, when the whole has more tokens than allowed."""
        limit = self.max_summary_tokens if max_tokens is None else max_tokens
        if estimate(summary) <= limit:
            return summary
        notice = text("inheritance.truncated")
        kept = summary[: 4 * limit]
        while kept and (excess := estimate(f"{kept}\n{notice}") - limit) > 0:
            # A token is at least two characters, so this never takes too much away.
            kept = kept[: -2 * excess].rstrip()
        return f"{kept}\n{notice}" if kept else notice

    @staticmethod
    def _format_summary_with_prefix(summary: str, prefix: str) -> str:
        return f"{prefix}\n\n{summary}"


def inheritance_request(
    catalogue: Catalogue, settings: Settings, uuid: str, *, inherit: bool = True, inherit_from: str | None = None
) -> dict[str, Any]:
    """The columns of a new task's row that say what it inherits; raises where the wish cannot be met.

    A task that is there already keeps what its row says: to wish the same again is no mistake, anything else is.
    """
    if inherit_from is None:
        return {} if inherit else {"metadata": {INHERIT: False}}
    if not inherit:
        raise InvalidInput("options_together", first="inherit=False", second="inherit_from")
    if (known := catalogue.tasks.find(uuid)) is not None:
        if known.inherits_from != inherit_from:
            raise IllegalTransition("inherit_settled", uuid=uuid, source=known.inherits_from or "-")
        return {}
    if not settings.inheritance.enabled:
        raise InvalidInput("inheritance_off")
    source = catalogue.tasks.get(inherit_from)
    if CLEANED in source.metadata:
        raise IllegalTransition("cleaned", uuid=source.uuid, at=source.metadata[CLEANED].get("at", "-"))
    if source.status is TaskStatus.ARCHIVED:
        raise IllegalTransition("inherit_archived", uuid=source.uuid)
    if source.status not in FINISHED:
        raise IllegalTransition("inherit_unfinished", uuid=source.uuid, status=source.status.value)
    return {"inherits_from": source.uuid}


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """How much each may have: what it needs, or an even part of what the smaller ones leave."""
    shares = [0] * len(sizes)
    for place, index in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[index] = min(sizes[index], room // (len(sizes) - place))
        room -= shares[index]
    return shares


def _told_by(task: PreviousContext | InheritanceContext, said: str) -> str:
    """What a task has left: of one that others have written every line as a quotation."""
    from orihon.compression.trust import quoted_lines

    return quoted_lines(said) if task.is_imported and said.strip() else said


def _section(key: str, body: str, **fields: str) -> str:
    return f"# {text(key, **fields)}\n{body}" if body.strip() else ""


def _counted(key: str, items: Sequence[object]) -> str:
    return text(key, count=len(items)) if items else ""


def _about(task: PreviousContext | InheritanceContext) -> dict[str, str]:
    ended = task.completed_at
    return {
        "uuid": task.uuid,
        "status": text(f"inheritance.status.{task.status}"),
        "time": "-" if ended is None else ended.strftime("%Y-%m-%d %H:%M UTC"),
    }


def _one_line(problem: str) -> str:
    line = " ".join(problem[: 2 * _PROBLEM_CHARACTERS].split())
    return line if len(line) <= _PROBLEM_CHARACTERS else line[: _PROBLEM_CHARACTERS - 1] + "…"
