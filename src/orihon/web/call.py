"""A request as pages and the API see it: who asks, for what, with which checked values; and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import urlencode

from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.web.access import Role, Visitor
from orihon.web.fields import Field
from orihon.web.site import Site


@dataclass(frozen=True, slots=True)
class Call:
    """One request. ``given`` has every field that its route names, from path, query and body."""

    site: Site
    visitor: Visitor
    given: Mapping[str, Any]
    address: str = ""  # where it came from, for the records

    @property
    def base(self) -> OpenBase:
        return self.site.base

    @property
    def settings(self) -> Settings:
        return self.site.base.settings


@dataclass(frozen=True, slots=True)
class Page:
    """A page, or a piece of one: a template and what it shows."""

    template: str
    shows: Mapping[str, Any]
    status: int = 200


def page_of(template: str, shows: Callable[[Call], Mapping[str, Any]]) -> Callable[[Call], Page]:
    """A page that shows what a function finds; several templates may show the same."""
    return lambda call: Page(template, shows(call))


@dataclass(frozen=True, slots=True)
class Download:
    """A file that is written while it is sent."""

    name: str
    media_type: str
    write: Callable[[BinaryIO], object]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address that answers with HTML, or with a file. ``place`` is its entry of the navigation."""

    path: str
    act: Callable[[Call], Page | Download]
    place: str = ""
    query: tuple[Field, ...] = ()
    role: Role = "read"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address of the JSON API. ``name`` is its ``operationId``; its summary is the text ``web.api.<name>``.

    A ``POST`` changes something: it needs a role, and is refused in read-only mode.
    """

    method: str
    path: str
    act: Callable[[Call], Any]
    name: str
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] = ()
    answer: Any = Mapping  # the type of what comes back, or its JSON schema
    role: Role = "read"
    #: Changes nothing although it is a POST, such as a preview.
    only_looks: bool = False

    @property
    def changes(self) -> bool:
        return self.method != "GET" and not self.only_looks


def address_of(path: str, fields: Mapping[str, object]) -> str:
    """The address of a page with these fields, but for the empty ones."""
    given = [(name, value) for name, value in fields.items() if value]
    return f"{path}?{urlencode(given)}" if given else path


# ---- what a request means --------------------------------------------------------------------------------------------


def task_of(call: Call) -> str:
    """The UUID of the task that the address names, as everywhere: by UUID, the beginning of one, key, ``@last``.

    A task that the visitor may not see is not there for them.
    """
    return call.base.resolve(call.given["task"], user=call.visitor.only)


def wanted_task(call: Call) -> str | None:
    """The same where a task may be named among the filters, and need not be."""
    return None if call.given["task"] is None else task_of(call)


def users_of(call: Call) -> tuple[str, ...] | None:
    """Whose tasks the visitor may see; everybody's without an answer."""
    return None if call.visitor.only is None else (call.visitor.only,)


def maker(call: Call) -> str:
    """Who changes a view, as the records of changes say it."""
    return f"web:{call.visitor.user}"


def allowed_users(call: Call) -> tuple[str, ...] | None:
    """Whose tasks are meant: the user that is asked for, as far as the visitor may see them; ``None``: everybody's."""
    asked, users = call.given["user"], users_of(call)
    if asked is None:
        return users
    return (asked,) if users is None or asked in users else ()
