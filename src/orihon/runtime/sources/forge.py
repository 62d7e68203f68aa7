"""What GitHub and GitLab have in common: tasks are found by a label, and their labels say where they stand.

Owns the names of the labels and the order of every change, so that a crash between two of them leaves a task that is
found again. Promises one comment for each marker. What a service does in its own way is left to the subclass: how
the task is taken from others who want it too (``_take``), and the single requests.

Calls that may fail and pass are repeated a few times, with back-off, never for long: after what the server asks for
(``Retry-After``, the end of a rate limit), else after a growing time with jitter. The libraries' own repetition is
switched off: it waits as long as the server says, and sends a comment twice. What would have to wait longer than
``longest_wait`` is an error that says how long it would have been.
"""

from __future__ import annotations

import logging
import os
import random
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, TypedDict, TypeVar, Unpack

from orihon.errors import InvalidSettings, SourceError
from orihon.llm.retry import retry_after
from orihon.runtime.sources.base import (
    SourceComment,
    SourceOutcome,
    SourceTask,
    Speakers,
    TaskSource,
    marker,
    without_markers,
)
from orihon.values.task import TaskKey, shortened

_log = logging.getLogger("orihon.sources")

_Answer = TypeVar("_Answer")

#: What GitHub asks of those who hit its secondary limit and were told no time.
SECONDARY_WAIT = 60.0
LONGEST_DETAIL = 200

_MAY_PASS = frozenset((408, 425, 429, *range(500, 600)))
_REASONS = {401: "token", 403: "forbidden", 404: "not_found", 410: "not_found", 429: "rate_limited"}


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how long. ``sleep`` may be a worker's way to wait that a signal ends."""

    tries: int = 4
    first_wait: float = 1.0
    longest_wait: float = 90.0
    sleep: Callable[[float], object] = time.sleep


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failed call, explained."""

    reason: str
    detail: str
    status: int = 0
    wait: float | None = None  # what the server asks for
    may_pass: bool = False


@dataclass(frozen=True, slots=True)
class Calls:
    """Makes calls to one service. ``_kinds`` are its library's exceptions, ``_explain`` reads them."""

    _service: str
    _address: str
    _kinds: tuple[type[Exception], ...]
    _explain: Callable[[Exception], Trouble]
    _retry: Retry
    _secret: str

    def __call__(self, action: Callable[[], _Answer]) -> _Answer:
        """What the action returns. It may run several times and must bear that."""
        attempt = 1
        while True:
            try:
                return action()
            except self._kinds as error:
                trouble = self._explain(error)
                wait = self._wait(trouble, attempt)
                if wait is None:
                    raise self._error(trouble) from error
            _log.info("%s: %s (%s); again in %.1f s", self._service, trouble.reason, trouble.status, wait)
            self._retry.sleep(wait)
            attempt += 1

    def _wait(self, trouble: Trouble, attempt: int) -> float | None:
        if not trouble.may_pass or attempt >= self._retry.tries:
            return None
        if trouble.wait is not None:
            return trouble.wait if trouble.wait <= self._retry.longest_wait else None
        grown = min(self._retry.first_wait * 2.0 ** (attempt - 1), self._retry.longest_wait)
        return grown * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the load, guards nothing

    def _error(self, trouble: Trouble) -> SourceError:
        detail = trouble.detail[:LONGEST_DETAIL]
        return SourceError(
            trouble.reason,
            service=self._service,
            address=self._address,
            status=trouble.status,
            detail=detail.replace(self._secret, "***") if self._secret else detail,
            wait=round(trouble.wait or 0.0),
        )


def refusal(status: int, detail: str, headers: Mapping[str, str], *, limited: bool = False) -> Trouble:
    """The trouble behind an HTTP status; ``limited`` for a rate limit that does not say 429."""
    lower = {name.lower(): value for name, value in headers.items()}
    wait = asked_wait(lower)
    if limited or status == 429:
        return Trouble("rate_limited", detail, status, SECONDARY_WAIT if wait is None else wait, may_pass=True)
    if status in _MAY_PASS:
        return Trouble("server", detail, status, wait, may_pass=True)
    return Trouble(_REASONS.get(status, "refused"), detail, status)


def unreachable(error: Exception) -> Trouble:
    """No answer at all."""
    return Trouble("unreachable", f"{type(error).__name__}: {error}", may_pass=True)


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server wants us to wait; header names in small letters."""
    if "retry-after" in headers:
        return retry_after(headers)
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", ""))
    spent = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining", "")) == "0"
    return max(0.0, int(reset) - time.time()) + 1.0 if spent and reset.isascii() and reset.isdigit() else None


MAX_COMMENTS = 100
PAGE = 100

_REPOSITORY = re.compile(r"[\w.-]+(?:/[\w.-]+)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Labels:
    """The names of the labels: what waits for the agent, and what became of it."""

    todo: str = "coding agent"
    processing: str = "coding agent processing"
    completed: str = "coding agent done"
    failed: str = "coding agent failed"
    cancelled: str = "coding agent cancelled"
    paused: str = "coding agent paused"

    def __post_init__(self) -> None:
        names: tuple[str, ...] = astuple(self)
        for name in names:
            # Both services separate labels by commas.
            if not name.strip() or "," in name or names.count(name) > 1:
                raise InvalidSettings("source_label", label=shortened(name))

    @property
    def ended(self) -> frozenset[str]:
        """Those of tasks that nobody works on."""
        return frozenset((self.completed, self.failed, self.cancelled))

    def of(self, outcome: SourceOutcome) -> str:
        name: str = getattr(self, outcome)
        return name

    def others(self, name: str) -> frozenset[str]:
        """What must go when a task gets this label; ``todo`` is for people to set and for a claim to take."""
        return (self.ended | {self.processing, self.paused}) - {name}


@dataclass(frozen=True, slots=True)
class Standing:
    """What is asked of a task before it is changed."""

    labels: frozenset[str]
    is_open: bool


#: The exceptions of a service's library, and what explains them.
Library = tuple[tuple[type[Exception], ...], Callable[[Exception], Trouble]]


class ForgeOptions(TypedDict, total=False):
    """What may be said about every such source; without an address, that of the service itself."""

    token: str
    base_url: str
    labels: Labels | None
    types: Sequence[str] | None
    retry: Retry | None
    timeout: float
    speakers: Speakers


class ForgeSource(TaskSource):
    """A service with repositories, issues and labels."""

    is_shared = True

    _longest_comment: int
    _types: tuple[str, ...]
    _token_variable: str
    _default_url: str
    _package: str

    def __init__(self, repositories: Sequence[str], **options: Unpack[ForgeOptions]) -> None:
        self._repositories = self._checked(repositories)
        types = options.get("types")
        self._wanted = self._types if types is None else tuple(types)
        if not self._wanted or not set(self._types).issuperset(self._wanted):
            known = ", ".join(sorted(self._types))
            raise InvalidSettings("source_types", types=", ".join(self._wanted), service=self.name, known=known)
        self._labels = options.get("labels") or Labels()
        self.speakers = options.get("speakers", Speakers())
        self._login: str | None = None
        secret = token_from(options.get("token", ""), self._token_variable, self.name)
        address = service_address(options.get("base_url", self._default_url), self.name)
        try:
            kinds, explain = self._connect(address, secret, options.get("timeout", 30.0))
        except ImportError as error:
            raise InvalidSettings("source_extra", service=self.name, extra=self.name, package=self._package) from error
        self._call = Calls(self.name, address, kinds, explain, options.get("retry") or Retry(), secret)

    def _checked(self, repositories: Sequence[str]) -> tuple[str, ...]:
        if not repositories:
            raise InvalidSettings("no_repositories", service=self.name)
        for repository in repositories:
            if not _REPOSITORY.fullmatch(repository) or ".." in repository.split("/"):
                raise InvalidSettings("repository_name", repository=shortened(repository))
        return tuple(dict.fromkeys(repositories))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._repositories)})"

    def poll(self) -> Iterator[SourceTask]:
        yield from self._everywhere(self._labels.todo)

    def claimed(self) -> Iterator[SourceTask]:
        yield from self._everywhere(self._labels.processing)

    def claim(self, found: SourceTask) -> bool:
        key, labels = found.key, self._labels
        standing = self._standing(key)
        if not standing.is_open or labels.todo not in standing.labels or not self._take(key):
            return False
        try:
            self._show(key, labels.processing)
        except SourceError as error:  # the task is ours; only the label of an earlier run is still there
            _log.warning("%s: %s", key.label, error)
        return True

    def find(self, key: TaskKey) -> SourceTask:
        item = self._item(key)
        return self._call(lambda: self._found(key.repository, key.task_type, item))

    def comment(self, key: TaskKey, said: str, *, kind: str = "") -> None:
        plain = without_markers(said).strip()
        if not plain:
            return
        mark = marker(key, kind, plain)
        if len(plain) + len(mark) + 2 > self._longest_comment:
            plain = plain[: self._longest_comment - len(mark) - 3] + "…"
        self._post_once(key, f"{plain}\n\n{mark}", mark)

    def finish(self, key: TaskKey, outcome: SourceOutcome, said: str) -> None:
        self.comment(key, said, kind=f"finish-{outcome}")
        self._show(key, self._labels.of(outcome))

    def resumed(self, key: TaskKey) -> None:
        self._show(key, self._labels.processing)

    def _everywhere(self, label: str) -> Iterator[SourceTask]:
        """A repository that cannot be read does not stop the others; the first error comes after them."""
        problem: SourceError | None = None
        for repository in self._repositories:
            try:
                yield from self._listed(repository, label)
            except SourceError as error:
                _log.warning("%s %s: %s", self.name, repository, error)
                problem = problem or error
        if problem is not None:
            raise problem

    def _show(self, key: TaskKey, label: str) -> None:
        """The label that tells where the task stands, in place of all others of ours."""
        present = self._standing(key).labels
        add = [] if label in present else [label]
        remove = sorted(present & self._labels.others(label))
        if add or remove:
            self._change_labels(key, add, remove)

    def _is_mine(self, author: str) -> bool:
        """Somebody else who copies a marker must not silence us. Who we are is not always told: then all count."""
        if self._login is None:
            self._login = self._who_am_i()
        return self._login in ("", author)

    def _key(self, repository: str, kind: str, number: int, user: str) -> TaskKey:
        owner, _, repo = repository.rpartition("/")
        return TaskKey(self.name, owner, repo, kind, str(number), user=user)

    @abstractmethod
    def _connect(self, address: str, secret: str, timeout: float) -> Library:
        """Make the library's client. ``ImportError`` where there is no library."""

    @abstractmethod
    def _item(self, key: TaskKey) -> Any:
        """The issue or request as the library gives it."""

    @abstractmethod
    def _found(self, repository: str, kind: str, item: Any) -> SourceTask:
        """The same as a task. Asks the service for more: inside a call only."""

    @abstractmethod
    def _listed(self, repository: str, label: str) -> Iterator[SourceTask]:
        """The open tasks of a repository with this label, oldest first."""

    @abstractmethod
    def _standing(self, key: TaskKey) -> Standing:
        """How the task stands now."""

    @abstractmethod
    def _take(self, key: TaskKey) -> bool:
        """Remove the label ``todo`` so that, of all who try at the same time, one is told ``True``."""

    @abstractmethod
    def _change_labels(self, key: TaskKey, add: Sequence[str], remove: Sequence[str]) -> None:
        """Add first: a task must not be without a label in between."""

    @abstractmethod
    def _post_once(self, key: TaskKey, body: str, mark: str) -> None:
        """Write the comment unless one of ours has the mark."""

    @abstractmethod
    def _who_am_i(self) -> str:
        """The login behind the token; empty when the service does not tell."""


def with_latest(found: SourceTask, comments: Sequence[SourceComment], speakers: Speakers) -> SourceTask:
    """The task with its last comments, in the order in which they were written; strangers crowd out no user."""
    ordered = sorted(comments, key=lambda comment: comment.created_at)
    users = [at for at, comment in enumerate(ordered) if speakers.may_order(found, comment)][-MAX_COMMENTS:]
    others = [at for at in range(len(ordered)) if not speakers.may_order(found, ordered[at])]
    kept = sorted((*users, *others[max(0, len(others) - MAX_COMMENTS + len(users)) :]))
    return replace(found, comments=tuple(ordered[at] for at in kept))


def place_of(path: str | None, line: int | None) -> str:
    """File and line of a remark on code, as far as they are known."""
    return f"{path}:{line}" if path and line else path or ""


def token_from(given: str, variable: str, service: str) -> str:
    """The token from the settings, else from the environment."""
    token = given or os.environ.get(variable, "")
    if not token.strip():
        raise InvalidSettings("source_token", service=service, variable=variable)
    if not token.isascii() or any(char.isspace() for char in token.strip()):
        raise InvalidSettings("source_token_text", service=service, variable=variable)
    return token.strip()


def task_number(key: TaskKey, service: str) -> int:
    """The number in a key that names an issue or a request of this service."""
    if key.task_source != service or not (key.task_id.isascii() and key.task_id.isdigit()) or not key.repo:
        raise SourceError("foreign_key", key=key.label, service=service)
    return int(key.task_id)


def service_address(address: str, service: str) -> str:
    """The address as given, if it is one."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(address)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username
    except ValueError:
        good = False
    if not good:
        raise InvalidSettings("source_address", service=service, address=shortened(address))
    return address.rstrip("/")
