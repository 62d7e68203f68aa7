"""Pages from templates, with their style sheets and scripts.

Everything that is put in is escaped; scripts and styles carry the nonce of their answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, Response
from starlette.types import Scope

from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.texts import LANGUAGES, language, speaking, text
from orihon.web.access import Visitor
from orihon.web.filters import FILTERS, timeline_names

LANGUAGE_COOKIE = "orihon_language"
THEME_COOKIE = "orihon_theme"
THEMES = ("auto", "light", "dark")
#: The pages in the order of the navigation: name and address.
PLACES = (
    *(("tasks", "/"), ("approvals", "/approvals"), ("search", "/search"), ("statistics", "/statistics")),
    *(("workers", "/workers"), ("notifications", "/notifications"), ("settings", "/settings")),
)
#: What cannot be shown for one user alone.
_FOR_ADMINISTRATORS = ("workers",)
#: The texts that scripts use.
SCRIPT_TEXTS = (
    *("live_on", "live_off", "failed", "unreachable", "undo", "view_archive", "close", "ago_seconds", "ago_minutes"),
    *("ago_hours", "ago_days", "waiting"),
    *("new_messages", "loading", "copied", "tip_point", "tip_fold", "tip_change", "tip_pin", "budget", "chart_label"),
    *("folds_left_out",),
    *("undone", "answer", "open_task", "more_notices", "see_feed", "logged_out", "log_in"),
)


@cache
def templates() -> Environment:
    """The templates of this package, and those shared with exported files."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader("orihon.web"), PackageLoader("orihon.transfer.export")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals.update(t=text, language=language, asset=asset, themes=THEMES)
    made.globals.update(script_texts=script_texts, inline=inline, now=utc_now, timeline_names=timeline_names)
    made.filters.update(FILTERS)
    made.filters["tojson"] = script_json
    return made


@cache
def asset(name: str) -> str:
    """The address of a static file, which changes with its content: browsers may keep it for ever."""
    digest = hashlib.sha256(files(__package__).joinpath("static", name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?v={digest}"


@cache
def inline(name: str) -> Markup:
    """A static file of ours inside a page: the login page loads nothing, for nothing is handed out without a token."""
    return Markup(files(__package__).joinpath("static", name).read_text(encoding="utf-8"))  # noqa: S704


def script_texts() -> dict[str, str]:
    """What scripts say, in the reader's language: all texts of the table ``web.script``."""
    return {name: text(f"web.script.{name}") for name in SCRIPT_TEXTS}


def script_json(value: Any) -> Markup:
    """JSON that can stand inside a ``script`` element whatever it holds."""
    encoded = jsonio.encode(value).decode()
    for mark in "<>&\u2028\u2029":
        encoded = encoded.replace(mark, f"\\u{ord(mark):04x}")
    return Markup(encoded)  # noqa: S704 - every mark that HTML knows is written as an escape


def language_of(scope: Scope) -> str:
    """The reader's language: what was chosen, what the browser asks for, what the server speaks."""
    connection = HTTPConnection(scope)
    chosen = connection.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in LANGUAGES:
        return chosen
    for wanted in Headers(scope=scope).get("accept-language", "").lower().split(","):
        if wanted.strip()[:2] in LANGUAGES:
            return wanted.strip()[:2]
    return language()


@contextmanager
def spoken_to(scope: Scope) -> Iterator[None]:
    """Texts are in the reader's language inside this block."""
    with speaking(language_of(scope)):
        yield


def places_for(visitor: Visitor | None) -> tuple[tuple[str, str], ...]:
    """The entries of the navigation that lead somewhere for this visitor."""
    is_for_all = visitor is not None and visitor.may("admin")
    return tuple(one for one in PLACES if is_for_all or one[0] not in _FOR_ADMINISTRATORS)


def render(scope: Scope, template: str, shows: Mapping[str, Any], status: int = 200, place: str = "") -> Response:
    """A page as an answer."""
    # A lone surrogate, which tools do print, cannot be sent; it is shown as what it is.
    return HTMLResponse(rendered(scope, template, shows, place).encode("utf-8", "backslashreplace"), status)


def rendered(scope: Scope, template: str, shows: Mapping[str, Any], place: str = "") -> str:
    """A page as text."""
    state = scope.get("state", {})
    visitor: Visitor | None = state.get("visitor")
    theme = HTTPConnection(scope).cookies.get(THEME_COOKIE, "")
    around = {
        "nonce": state.get("nonce", ""),
        "mark": state.get("mark", ""),
        "visitor": visitor,
        "places": places_for(visitor),
        "read_only": state.get("read_only", False),
        "theme": theme if theme in THEMES else "auto",
        "place": place,
    }
    return templates().get_template(template).render({**around, **shows})


# ---- style sheets and scripts ----------------------------------------------------------------------------------------

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _contents() -> dict[str, bytes]:
    folder = files(__package__).joinpath("static")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def static_file(request: Request) -> Response:
    """One file; only what lies there has a name."""
    name = request.path_params["name"]
    content = _contents().get(name)
    if content is None:
        raise HTTPException(404)
    kind = _KINDS.get(name[name.rfind(".") :], "application/octet-stream")
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(content, media_type=kind, headers=headers)
