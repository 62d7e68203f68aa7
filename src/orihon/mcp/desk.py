"""``Desk``: one base as those who ask over MCP may use it, and who it is that asks.

Over standard streams it is whoever has started the server, who has the files in any case. Over HTTP it is the one
whose token the gate has seen, for each message anew; where there is none, nothing is answered. What goes wrong is told
in words: an error of ours as it is, anything else by its name alone.
"""

from __future__ import annotations

import dataclasses
import functools
import getpass
from collections.abc import Callable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, INVALID_REQUEST

from orihon.audit import acting_as
from orihon.errors import InvalidInput, NoSuchMessage, NothingToUndo, OrihonError, TaskNotFound
from orihon.guard.logs import masked
from orihon.tasks.base import OpenBase
from orihon.texts import text
from orihon.web.access import Role, Visitor
from orihon.web.site import Turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")
_VISITOR: ContextVar[Visitor] = ContextVar("orihon_mcp_visitor")
_NOT_THERE = (TaskNotFound, NoSuchMessage, NothingToUndo, InvalidInput)


@dataclass(frozen=True, slots=True)
class Desk:
    """``local`` asks where no request says who does; nobody may without one where there is none."""

    base: OpenBase
    local: Visitor | None = None
    turns: Turns = field(default_factory=Turns)

    @property
    def visitor(self) -> Visitor:
        """Who asks."""
        return _VISITOR.get()

    def task(self, name: str) -> str:
        """The UUID of the task that is meant. One that the visitor may not see is not there for them."""
        return self.base.resolve(name, user=self.visitor.only)

    def needs(self, role: Role) -> None:
        """Refuse what the visitor's token is not good for."""
        if not self.visitor.may(role):
            raise InvalidInput("mcp_role", role=role)

    async def received(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Around every message: from here on it is known who asks, for the audit too."""
        visitor, address = self._who(ctx.request)
        token = _VISITOR.set(visitor)
        try:
            with acting_as(visitor.user, address):
                return await call_next(ctx)
        finally:
            _VISITOR.reset(token)

    def _who(self, request: Any) -> tuple[Visitor, str]:
        if request is None and self.local is not None:
            return self.local, ""
        visitor = None if request is None else request.scope.get("state", {}).get("visitor")
        if not isinstance(visitor, Visitor):
            raise MCPError(code=INVALID_REQUEST, message=text("web.refused.token.cause"))
        return visitor, "" if request.client is None else request.client.host


def local_visitor() -> Visitor:
    """Whoever runs this process."""
    try:
        return Visitor(getpass.getuser(), "admin")
    except (KeyError, OSError):  # a container may know no name for its user
        return Visitor("mcp", "admin")


def told_by_tool(act: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """A tool whose errors are told to the model in words."""

    @functools.wraps(act)
    def told(*given: _Given.args, **named: _Given.kwargs) -> _Answer:
        try:
            return cast(_Answer, legible(act(*given, **named)))
        except OrihonError as error:
            raise ToolError(legible(masked(str(error)))) from error

    return told


def told_by_resource(act: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """The same for a resource; what is not there is said to be wrong in the request."""

    @functools.wraps(act)
    def told(*given: _Given.args, **named: _Given.kwargs) -> _Answer:
        try:
            return act(*given, **named)
        except OrihonError as error:
            kind = ResourceNotFoundError if isinstance(error, _NOT_THERE) else ResourceError
            raise kind(masked(str(error))) from error

    return told


def legible(value: Any) -> Any:
    """An answer that can be sent: half a character, as dirty tool output has it, is written out (``\\udc80``)."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
        case list() | tuple():
            return type(value)(map(legible, value))
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {one.name: legible(getattr(value, one.name)) for one in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
    return value


@contextmanager
def told_by_prompt() -> Iterator[None]:
    """The same for a prompt."""
    try:
        yield
    except OrihonError as error:
        raise MCPError(code=INVALID_PARAMS, message=masked(str(error))) from error


def quoted() -> str:
    """What stands beside every text of a log: whose words these are."""
    return text("mcp.quoted")
