"""A request as pages and the API see it: who asks, for what, with which checked values; and what they answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from orihon.settings import Settings
from orihon.tasks.approvals.question_cache import QuestionMemory
from orihon.tasks.base import OpenBase
from orihon.web.fields import Field
from orihon.web.previews import Drafts
from orihon.web.task_locks import Turns
from orihon.web.visitor import Role, Visitor

if TYPE_CHECKING:
    from orihon.web.broadcaster import Broadcaster


@dataclass(frozen=True, slots=True)
class Site:
    """What one running server shows."""

    base: OpenBase
    live: Broadcaster
    read_only: bool = False
    config: Path | None = None  # the configuration file that was read, for the page of settings
    drafts: Drafts = field(default_factory=Drafts)  # compressions that somebody is looking at
    questions: QuestionMemory = field(default_factory=QuestionMemory)
    turns: Turns = field(default_factory=Turns)


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
