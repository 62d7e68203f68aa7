"""Issues and merge requests of GitLab with a label, through python-gitlab (the extra ``gitlab``).

GitLab changes labels for everybody who asks, so a task is taken under a lock: a reaction to it (``lock``), of which
the oldest counts. Who has it looks at the labels once more, changes them and takes the reaction back; one left by a
process that died is void after ``LOCK_SECONDS`` of the server's time. Promises that the token is never logged or
part of an error.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from orihon.errors import SourceError
from orihon.runtime.sources.base import SourceComment, SourceTask
from orihon.runtime.sources.forge import (
    PAGE,
    ForgeSource,
    Library,
    Standing,
    Trouble,
    place_of,
    refusal,
    task_number,
    unreachable,
    with_latest,
)
from orihon.values.task import TaskKey

if TYPE_CHECKING:
    from requests import Response

_log = logging.getLogger("orihon.sources")

LOCK = "lock"
_TRIPPED = (AttributeError, LookupError, TypeError, ValueError)
LOCK_SECONDS = 600.0
#: From which level of access on somebody is what: whoever may push is a member, whoever may only look is none.
_LEVELS = ((50, "owner"), (30, "member"), (20, "reporter"), (5, "guest"))


class _Answered(Exception):
    """An answer that the library would handle in its own way, with the headers that it would drop."""

    def __init__(self, status: int, detail: str, headers: dict[str, str]) -> None:
        super().__init__(status)
        self.status = status
        self.detail = detail
        self.headers = headers


class GitLabSource(ForgeSource):
    """Tasks from the projects (``group/subgroup/name``) of one GitLab server."""

    name = "gitlab"
    _longest_comment = 900_000  # GitLab's limit is a million characters
    _types = ("issue", "merge_request")
    _token_variable = "GITLAB_TOKEN"  # noqa: S105 - the name of a variable
    _default_url = "https://gitlab.com"
    _package = "python-gitlab"

    def _connect(self, address: str, secret: str, timeout: float) -> Library:
        import gitlab
        import requests

        self._server_time = ""
        self._session = requests.Session()
        self._session.hooks["response"].append(self._look_at)
        self._gitlab = gitlab.Gitlab(
            address,
            private_token=secret,
            timeout=timeout,
            per_page=PAGE,
            session=self._session,
            retry_transient_errors=False,
        )
        # An answer of another shape than GitLab's, such as a proxy's page, trips whoever reads it.
        return (_Answered, gitlab.GitlabError, requests.RequestException, *_TRIPPED), _explain

    def close(self) -> None:
        """Give the connections back."""
        self._session.close()

    def _look_at(self, response: Response, *_: object, **__: object) -> None:
        self._server_time = response.headers.get("Date", "")
        if response.status_code == 429 or response.status_code >= 500:
            raise _Answered(response.status_code, response.text[:500], dict(response.headers))

    def _listed(self, repository: str, label: str) -> Iterator[SourceTask]:
        for kind in self._wanted:
            manager = self._manager(repository, kind)
            # Whole lists before the first task is handed out: claiming one would move the others over the pages.
            for item in self._call(partial(_listing, manager, label)):
                yield self._call(partial(self._found, repository, kind, item))

    def _manager(self, repository: str, kind: str) -> Any:
        project = self._gitlab.projects.get(repository, lazy=True)
        return project.mergerequests if kind == "merge_request" else project.issues

    def _item(self, key: TaskKey) -> Any:
        number, manager = task_number(key, self.name), self._manager(key.repository, key.task_type)
        return self._call(lambda: manager.get(number))

    def _named(self, key: TaskKey) -> Any:
        """The issue or request without asking for it."""
        return self._manager(key.repository, key.task_type).get(task_number(key, self.name), lazy=True)

    def _found(self, repository: str, kind: str, item: Any) -> SourceTask:
        data: dict[str, Any] = item.attributes
        number, user = int(data["iid"]), _username(data.get("author"))
        notes = item.notes.list(order_by="created_at", sort="asc", get_all=True)
        said = [note.attributes for note in notes if not note.attributes.get("system")]
        known = {_user_id(one.get("author")) for one in (data, *said)}
        levels = {number: self._association(repository, number) for number in known if number}
        found = SourceTask(
            key=self._key(repository, kind, number, user),
            title=str(data.get("title") or ""),
            body=str(data.get("description") or ""),
            url=str(data.get("web_url") or ""),
            user=user,
            labels=tuple(data.get("labels") or ()),
            source_branch=str(data.get("source_branch") or ""),
            target_branch=str(data.get("target_branch") or ""),
            association=levels.get(_user_id(data.get("author")), ""),
            assignees=tuple(map(_username, data.get("assignees") or ())),
        )
        comments = [_comment(note, levels.get(_user_id(note.get("author")), "")) for note in said]
        return with_latest(found, comments, self.speakers)

    def _association(self, repository: str, user: int) -> str:
        """What somebody is to the project or the groups above it; nothing where GitLab does not tell."""
        import gitlab

        members = self._gitlab.projects.get(repository, lazy=True).members_all
        try:
            level = int(members.get(user).attributes["access_level"])
        except gitlab.GitlabError as error:
            if error.response_code in (401, 403, 404):
                return ""
            raise
        return next((name for least, name in _LEVELS if level >= least), "")

    def _standing(self, key: TaskKey) -> Standing:
        data = self._item(key).attributes
        return Standing(frozenset(data.get("labels") or ()), data.get("state") == "opened")

    def _take(self, key: TaskKey) -> bool:
        lock = self._lock(key)
        if lock is None:
            return False
        try:
            if self._labels.todo not in self._standing(key).labels:
                return False
            self._change_labels(key, (self._labels.processing,), (self._labels.todo,))
            return True
        finally:
            self._unlock(key, lock)

    def _lock(self, key: TaskKey) -> int | None:
        """Our reaction, if it is the oldest that counts."""
        reactions = self._named(key).awardemojis
        mine: int | None = None
        try:
            mine = int(self._call(lambda: reactions.create({"name": LOCK})).attributes["id"])
        except SourceError as error:
            if error.reason != "not_found":  # so GitLab calls a second reaction of one user
                raise
        found = [each.attributes for each in self._call(lambda: reactions.list(get_all=True))]
        locks = [each for each in found if each.get("name") == LOCK]
        counting = [each for each in locks if self._age(each) <= LOCK_SECONDS]
        for each in locks:
            if each not in counting and self._is_mine(_username(each.get("user"))):
                self._unlock(key, int(each["id"]))
        if mine is None or mine == min((int(each["id"]) for each in counting), default=None):
            return mine
        self._unlock(key, mine)
        return None

    def _unlock(self, key: TaskKey, lock: int) -> None:
        try:
            self._call(lambda: self._named(key).awardemojis.delete(lock))
        except SourceError as error:
            if error.reason != "not_found":
                _log.warning("%s: the lock %d stays until it is void: %s", key.label, lock, error)

    def _age(self, reaction: dict[str, Any]) -> float:
        """Seconds by the server's clock."""
        now = parsedate_to_datetime(self._server_time) if self._server_time else datetime.now(UTC)
        return (now - datetime.fromisoformat(str(reaction["created_at"]))).total_seconds()

    def _change_labels(self, key: TaskKey, add: Sequence[str], remove: Sequence[str]) -> None:
        number, manager = task_number(key, self.name), self._manager(key.repository, key.task_type)
        change = {"add_labels": ",".join(add), "remove_labels": ",".join(remove)}
        self._call(lambda: manager.update(number, {name: value for name, value in change.items() if value}))

    def _post_once(self, key: TaskKey, body: str, mark: str) -> None:
        notes = self._named(key).notes

        def post() -> None:
            for note in notes.list(get_all=True):
                data = note.attributes
                if mark in (data.get("body") or "") and self._is_mine(_username(data.get("author"))):
                    return
            notes.create({"body": body})

        self._call(post)

    def _who_am_i(self) -> str:
        import gitlab

        try:
            user: Any = self._gitlab.http_get("/user")
            return str(user["username"])
        except gitlab.GitlabHttpError as error:
            if error.response_code in (403, 404):
                return ""
            raise


def _listing(manager: Any, label: str) -> list[Any]:
    found = manager.list(labels=[label], state="opened", order_by="created_at", sort="asc", get_all=True)
    return list(found)


def _username(user: Any) -> str:
    """Who wrote it; people who left are shown as GitLab does."""
    return str(user.get("username") or "ghost") if isinstance(user, dict) else "ghost"


def _user_id(user: Any) -> int:
    """The number by which members are looked up; 0 where there is none."""
    number = user.get("id") if isinstance(user, dict) else None
    return number if isinstance(number, int) else 0


def _comment(note: dict[str, Any], association: str) -> SourceComment:
    position = note.get("position") or {}
    path, line = position.get("new_path"), position.get("new_line")
    return SourceComment(
        author=_username(note.get("author")),
        text=str(note.get("body") or ""),
        created_at=str(note.get("created_at") or ""),
        place=place_of(path, line),
        association=association,
    )


def _explain(error: Exception) -> Trouble:
    import gitlab
    import requests

    if isinstance(error, _Answered):
        return refusal(error.status, error.detail, error.headers)
    if isinstance(error, gitlab.RedirectError):
        return Trouble("redirected", str(error))
    if isinstance(error, gitlab.GitlabError):
        if error.response_code is None:
            return Trouble("answer", str(error))
        return refusal(error.response_code, str(error.error_message), {})
    if isinstance(error, requests.RequestException):
        return unreachable(error)
    return Trouble("answer", f"{type(error).__name__}: {error}")
