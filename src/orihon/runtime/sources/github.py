"""Issues and pull requests of GitHub with a label, through PyGithub (the extra ``github``).

A task is taken by removing the label: GitHub answers one of those who try, and tells the others that the label is not
there. Promises that the token is never logged or part of an error. Refuses to wait for a rate limit longer than
``Retry.longest_wait``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from orihon.runtime.sources.base import SourceComment, SourceTask
from orihon.runtime.sources.forge import (
    PAGE,
    ForgeOptions,
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
    from github.Issue import Issue
    from github.PullRequest import PullRequest
    from github.Repository import Repository

_TRIPPED = (AttributeError, LookupError, TypeError)


class GitHubSource(ForgeSource):
    """Tasks from the repositories (``owner/name``) of one GitHub server."""

    name = "github"
    _longest_comment = 65_000  # GitHub's limit is 65,536 characters
    _types = ("issue", "pull_request")
    _token_variable = "GITHUB_TOKEN"  # noqa: S105 - the name of a variable
    _default_url = "https://api.github.com"
    _package = "PyGithub"

    def __init__(
        self, repositories: Sequence[str], *, write_pause: float = 1.0, **options: Unpack[ForgeOptions]
    ) -> None:
        self._write_pause = write_pause
        super().__init__(repositories, **options)

    def _connect(self, address: str, secret: str, timeout: float) -> Library:
        import github
        from requests.exceptions import RequestException

        self._github = github.Github(
            auth=github.Auth.Token(secret),
            base_url=address,
            timeout=max(1, round(timeout)),
            retry=None,
            per_page=PAGE,
            seconds_between_requests=0,
            seconds_between_writes=self._write_pause,
            lazy=True,  # a repository is not asked for before its issues are
        )
        self._not_found = github.UnknownObjectException
        # PyGithub trips over an answer that is no JSON, such as a proxy's page, in ways of its own.
        return (github.GithubException, github.BadAttributeException, RequestException, *_TRIPPED), _explain

    def close(self) -> None:
        """Give the connections back."""
        self._github.close()

    def _listed(self, repository: str, label: str) -> Iterator[SourceTask]:
        repo = self._github.get_repo(repository)
        # Whole lists before the first task is handed out: claiming one would move the others over the pages.
        if "issue" in self._wanted:
            for issue in self._call(lambda: _labelled_issues(repo, label)):
                yield self._call(partial(self._found, repository, "issue", issue))
        if "pull_request" in self._wanted:
            for pull in self._call(lambda: _labelled_pulls(repo, label)):
                yield self._call(partial(self._found, repository, "pull_request", pull))

    # Issues and pull requests are alike and have no common type. Any attribute of theirs may cost a request: they are
    # read inside a call only.

    def _found(self, repository: str, kind: str, item: Any) -> SourceTask:
        is_pull = kind == "pull_request"
        said = (*_said_of(item, kind), *(item.get_review_comments() if is_pull else ()))
        user = _login(item.user)
        found = SourceTask(
            key=self._key(repository, kind, item.number, user),
            title=item.title,
            body=item.body or "",
            url=item.html_url,
            user=user,
            labels=tuple(label.name for label in item.labels),
            source_branch=item.head.ref if is_pull else "",
            target_branch=item.base.ref if is_pull else "",
            association=_association(item),
            assignees=tuple(_login(each) for each in item.assignees),
        )
        return with_latest(found, [_comment(comment) for comment in said], self.speakers)

    def _item(self, key: TaskKey) -> Any:
        repo, number = self._github.get_repo(key.repository), task_number(key, self.name)
        if key.task_type == "pull_request":
            return self._call(lambda: repo.get_pull(number).complete())
        return self._call(lambda: repo.get_issue(number).complete())

    def _standing(self, key: TaskKey) -> Standing:
        item = self._item(key)
        return self._call(lambda: Standing(_label_names(item), item.state == "open"))

    def _take(self, key: TaskKey) -> bool:
        item, labels = self._item(key), self._labels
        before = self._call(lambda: _label_names(item))
        if labels.processing not in before:
            self._call(lambda: item.add_to_labels(labels.processing))
        tried = False

        def remove() -> bool:
            nonlocal tried
            again, tried = tried, True
            try:
                item.remove_from_labels(labels.todo)
            except self._not_found:
                # An earlier try of ours may have worked although its answer was lost. A task that two take is
                # sorted out by the queue; one that nobody takes would be lost.
                return again
            return True

        won = self._call(remove)
        if not won:
            self._undo_late_label(key, before)
        return won

    def _undo_late_label(self, key: TaskKey, before: frozenset[str]) -> None:
        """The winner may have ended the task before our label arrived; what it ended as before says nothing."""
        now = self._standing(key).labels
        if (now - before) & self._labels.ended and self._labels.processing in now:
            self._change_labels(key, (), (self._labels.processing,))

    def _change_labels(self, key: TaskKey, add: Sequence[str], remove: Sequence[str]) -> None:
        item = self._item(key)
        if add:
            self._call(lambda: item.add_to_labels(*add))
        for name in remove:
            self._call(partial(self._remove_label, item, name))

    def _remove_label(self, item: Any, name: str) -> None:
        try:
            item.remove_from_labels(name)
        except self._not_found:
            return

    def _post_once(self, key: TaskKey, body: str, mark: str) -> None:
        item = self._item(key)

        def post() -> None:
            for comment in _said_of(item, key.task_type):
                if mark in (comment.body or "") and self._is_mine(_login(comment.user)):
                    return
            if key.task_type == "pull_request":
                item.create_issue_comment(body)
            else:
                item.create_comment(body)

        self._call(post)

    def _who_am_i(self) -> str:
        import github

        try:
            return self._github.get_user().login
        except github.GithubException as error:
            limited = isinstance(error, github.RateLimitExceededException)
            if error.status in (403, 404) and not limited:  # an app's token has no user
                return ""
            raise


def _said_of(item: Any, kind: str) -> Iterable[Any]:
    return item.get_issue_comments() if kind == "pull_request" else item.get_comments()  # type: ignore[no-any-return]


def _label_names(item: Any) -> frozenset[str]:
    return frozenset(label.name for label in item.labels)


def _labelled_issues(repo: Repository, label: str) -> list[Issue]:
    """Without the pull requests that GitHub lists among them, told by their address: to ask for anything that an
    issue does not have costs a request."""
    issues = repo.get_issues(state="open", labels=[label], sort="created", direction="asc")
    return [issue for issue in issues if issue.html_url.split("/")[-2] != "pull"]


def _labelled_pulls(repo: Repository, label: str) -> list[PullRequest]:
    pulls = repo.get_pulls(state="open", sort="created", direction="asc")
    return [pull for pull in pulls if label in {each.name for each in pull.labels}]


def _login(user: Any) -> str:
    """Who wrote it; people who left are shown as GitHub does."""
    return user.login if user is not None else "ghost"


def _comment(comment: Any) -> SourceComment:
    path = getattr(comment, "path", None)
    line = getattr(comment, "line", None)
    return SourceComment(
        author=_login(comment.user),
        text=comment.body or "",
        created_at=comment.created_at.isoformat(timespec="seconds"),
        place=place_of(path, line),
        association=_association(comment),
    )


def _association(item: Any) -> str:
    """What GitHub says of its author; from what was sent, since to ask for what was not costs a request."""
    return str(vars(item).get("_rawData", {}).get("author_association") or "")


def _explain(error: Exception) -> Trouble:
    import github

    if isinstance(error, (github.BadAttributeException, github.IncompletableObject, *_TRIPPED)):
        return Trouble("answer", f"{type(error).__name__}: {error}")
    if isinstance(error, github.GithubException):
        data = error.data if isinstance(error.data, dict) else {}
        detail = str(data.get("message") or error.message or "")
        limited = isinstance(error, github.RateLimitExceededException) or (
            error.status == 403 and any(name.lower() == "retry-after" for name in error.headers or {})
        )
        return refusal(error.status, detail, error.headers or {}, limited=limited)
    return unreachable(error)
