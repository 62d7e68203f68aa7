"""Resources and prompts: tasks, folds and messages under addresses of their own, and a task to go on with.

``orihon://task/{uuid}``, ``…/fold/{number}``, ``…/message/{seq}``. The newest tasks are listed; the names of others are
completed. A message comes whole, as the log has it, or is refused with the way to read it in pieces.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anyio import to_thread
from mcp_types import Completion, Resource

from orihon.errors import InvalidInput
from orihon.mcp.desk import Desk, quoted, told_by_prompt, told_by_resource
from orihon.mcp.tools import overview_of
from orihon.reports.task_list import WantedTasks, page_of_tasks
from orihon.system import jsonio
from orihon.system.json_shapes import to_json
from orihon.tasks.reader import read_anew, reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.texts import text
from orihon.transfer.export.handoff import hand_off
from orihon.values.task import shortened

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from orihon.tasks.base import OpenBase

SCHEME = "orihon://task/"
_JSON = "application/json"
_MOST_BYTES = 4 << 20
_MOST_PROMPT = 2_000_000  # characters
_MOST_LISTED = 50
_MOST_DIGITS = 15


def add_resources(server: MCPServer, desk: Desk) -> None:
    """The addresses of what can be read."""

    def task(uuid: str) -> str:
        return _encoded(asdict(overview_of(desk, desk.task(uuid))))

    def fold(uuid: str, number: str) -> str:
        return _fold(desk.base, desk.task(uuid), _whole(number))

    def message(uuid: str, seq: str) -> str:
        return _message(desk.base, desk.task(uuid), _whole(seq))

    for path, name, act in (
        ("{uuid}", "task", task),
        ("{uuid}/fold/{number}", "fold", fold),
        ("{uuid}/message/{seq}", "message", message),
    ):
        title, about = (text(f"mcp.resources.{name}.{part}") for part in ("title", "about"))
        add = server.resource(f"{SCHEME}{path}", name=name, title=title, description=about, mime_type=_JSON)
        add(told_by_resource(act))


def listed_tasks(desk: Desk) -> list[Resource]:
    """The newest tasks that the visitor may see."""
    page = page_of_tasks(desk.base, WantedTasks(), limit=_MOST_LISTED, user=desk.visitor.only)
    return [
        Resource(
            uri=f"{SCHEME}{one.row.uuid}",
            name=one.row.key.label,
            title=one.title or one.row.key.label,
            description=text("mcp.listed", status=one.row.status.value, created=one.row.created_at),
            mime_type=_JSON,
        )
        for one in page.tasks
    ]


def add_prompts(server: MCPServer, desk: Desk) -> None:
    """What a person chooses in a client: to go on with a task here."""

    @server.prompt("handoff", title=text("mcp.prompts.handoff.title"), description=text("mcp.prompts.handoff.about"))
    def handoff(task: str) -> str:
        with told_by_prompt():
            said = hand_off(desk.base, desk.task(task), "prompt", clear=True).text
            if len(said) > _MOST_PROMPT:
                raise InvalidInput("mcp_prompt_size", task=shortened(task), characters=len(said), most=_MOST_PROMPT)
            return said

    async def complete(_reference: Any, argument: Any, _context: Any) -> Completion:
        """Tasks by the beginning of their UUID; of anything else, nothing."""
        if argument.name not in ("task", "uuid"):
            return Completion(values=[], total=0, has_more=False)
        values = await to_thread.run_sync(_beginning_with, desk, argument.value)
        return Completion(values=values, total=len(values), has_more=False)

    server.completion()(complete)  # type: ignore[no-untyped-call]


def _beginning_with(desk: Desk, typed: str) -> list[str]:
    page = page_of_tasks(desk.base, WantedTasks(), limit=_MOST_LISTED, user=desk.visitor.only)
    return [one.row.uuid for one in page.tasks if one.row.uuid.startswith(typed)]


@read_anew
def _fold(base: OpenBase, task: str, number: int) -> str:
    with reading_task(base, task) as (store, row):
        known = ViewReading(store, row, base.settings).known_fold(number)
        return _encoded({"about": quoted(), "task": store.name, "fold": to_json(known)})


@read_anew
def _message(base: OpenBase, task: str, seq: int) -> str:
    with reading_task(base, task) as (store, _):
        return _encoded({"about": quoted(), "task": store.name, **store.message(seq).as_dict()}, seq)


def _encoded(value: Any, seq: int = 0) -> str:
    data = jsonio.encode(to_json(value))
    if len(data) > _MOST_BYTES:
        raise InvalidInput("mcp_resource_size", seq=seq, size=len(data), most=_MOST_BYTES)
    return data.decode()


def _whole(number: str) -> int:
    if not (number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS):
        raise InvalidInput("mcp_number", value=shortened(number))
    return int(number)
