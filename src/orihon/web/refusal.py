"""How a request is refused: as JSON to a program, as a page to a person; at a missing token the page asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from orihon.errors import (
    BudgetExceeded,
    IllegalFold,
    InvalidInput,
    KeyUnavailable,
    LLMError,
    NoSuchMessage,
    OrihonError,
    StateError,
    StorageUnavailable,
    TaskNotFound,
)
from orihon.system import jsonio
from orihon.system.json_shapes import to_json
from orihon.texts import text
from orihon.web.renderer import render

API = "/api/"
#: Where ``orihon mcp --http`` answers, behind the same gate.
MCP = "/mcp"
_STATUS: tuple[tuple[type[OrihonError], int], ...] = (
    (NoSuchMessage, 404),
    (IllegalFold, 409),
    (InvalidInput, 400),
    (TaskNotFound, 404),
    (StateError, 409),
    (BudgetExceeded, 409),
    (KeyUnavailable, 409),
    (StorageUnavailable, 503),
    (LLMError, 502),
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request goes no further; its texts are ``web.refused.<reason>``."""

    status: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)


def status_of(error: OrihonError) -> int:
    """The HTTP status that says what kind of error this is."""
    if error.reason == "body_size":
        return 413
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def refusal(scope: Scope, why: Refusal) -> Response:
    """The answer to a request that is refused."""
    cause, remedy = (text(f"web.refused.{why.reason}.{part}") for part in ("cause", "remedy"))
    if why.reason == "token" and not is_for_program(scope):
        answer: Response = render(scope, "login.html", {"failed": False}, 401)
    else:
        answer = explained(scope, why.status, why.reason, cause, remedy)
    answer.headers.update(why.headers)
    return answer


def failed(scope: Scope, error: OrihonError) -> Response:
    """The answer where the library said no."""
    return explained(scope, status_of(error), f"{type(error).__name__}.{error.reason}", error.cause, error.remedy)


def explained(scope: Scope, status: int, reason: str, cause: str, remedy: str) -> Response:
    """Cause and remedy, in the form that the one who asks can read."""
    if is_for_program(scope):
        return json_answer({"error": {"reason": reason, "cause": cause, "remedy": remedy}}, status)
    # Who is not let in gets a page that needs nothing else from here.
    template = "error.html" if "visitor" in scope.get("state", {}) else "refused.html"
    return render(scope, template, {"status": status, "cause": cause, "remedy": remedy}, status)


def json_answer(value: Any, status: int = 200) -> Response:
    """A JSON answer."""
    return Response(jsonio.encode(to_json(value)), status, media_type="application/json")


def is_for_program(scope: Scope) -> bool:
    """Is the answer read by a program, and not shown as a page?"""
    path = str(scope["path"])
    return path.startswith((API, "/static/")) or path.endswith("/events") or path == MCP
