"""The tools that change something: ``pin``, ``unfold``, ``remember``. They are there only where somebody wants them.

Each makes a record that can be undone or is added beside the log; none can shorten a history. A token has to be good
for ``operate``. Who has asked is recorded as ``mcp:<user>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from mcp_types import ToolAnnotations

from orihon.mcp.desk import Desk
from orihon.mcp.tools import about, add_tool
from orihon.tasks.hand_edits import LONGEST_NOTE, change_view, remember

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

_CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
_LONGEST_LINE = 20_000


@dataclass(frozen=True)
class Changed:
    """A change of a view, by its number (``orihon undo TASK --compression N`` takes it back), and how full it is."""

    task: str
    compression: int
    kind: str
    entries: int
    usage: float


@dataclass(frozen=True)
class Remembered:
    task: str
    note: int  # its number among the plans


def add_changing_tools(server: MCPServer, desk: Desk) -> None:
    """The tools for whoever may change views."""

    def changed(task: str, act: str, *values: int | str) -> Changed:
        desk.needs("operate")
        uuid = desk.task(task)
        with desk.turns.of(uuid):
            made = change_view(desk.base, uuid, act, *values, made_by=_maker(desk))
        return Changed(uuid, made.record.id, made.record.kind, made.entries, round(made.usage, 4))

    def pin(
        task: Annotated[str, about("task")],
        seq: Annotated[int, about("pin_seq", ge=1)],
        line: Annotated[str, about("line", max_length=_LONGEST_LINE)] = "",
    ) -> Changed:
        return changed(task, "pin", seq, line)

    def unfold(task: Annotated[str, about("task")], fold: Annotated[int, about("fold", ge=1)]) -> Changed:
        return changed(task, "unfold", fold)

    def keep(
        task: Annotated[str, about("task")], note: Annotated[str, about("note", max_length=LONGEST_NOTE)]
    ) -> Remembered:
        desk.needs("operate")
        uuid = desk.task(task)
        with desk.turns.of(uuid):
            return Remembered(uuid, remember(desk.base, uuid, note, made_by=_maker(desk)))

    add_tool(server, "pin", pin, _CHANGES)
    add_tool(server, "unfold", unfold, _CHANGES)
    add_tool(server, "remember", keep, _CHANGES)


def _maker(desk: Desk) -> str:
    return f"mcp:{desk.visitor.user}"
