"""The errors of Orihon. Each says what happened and what to do about it, in the reader's language.

    OrihonError
    ├── InvalidInput          the caller handed over something that cannot be taken; nothing was changed
    │   ├── InvalidMessage    role, type, size or encoding of a message
    │   ├── ToolCallError     a tool result without its call, a reused id, calls still waiting for results
    │   ├── InvalidId         an id that must not become a path
    │   ├── InvalidSettings   a key or value of the configuration
    │   ├── NoSuchMessage     a number or line that is not in the log
    │   ├── IllegalFold       a fold that a cut rule forbids
    │   └── GaveUp            work on a task that has come to an end without success; trying again would not help
    ├── StateError            not possible in the state the task is in
    │   ├── IllegalTransition a change of status that does not exist
    │   ├── TaskNotFound      no task by that name
    │   ├── TaskBusy          another live process owns the task
    │   ├── StaleWriter       this process owned the task once; another one has taken it over
    │   ├── NothingToUndo     no compression to undo, redo or open
    │   ├── QuotaExceeded     a user has as much as the settings allow
    │   └── NotWaiting        a checkpoint that cannot be answered: not asked, answered already, or too late
    ├── StorageError          the disk or the database said no
    │   ├── DamagedStore      stored data that cannot be right; see ``orihon doctor``
    │   ├── NewerSchema       written by a newer Orihon
    │   ├── KeyUnavailable    a key of the encryption that is missing, erased, or not the right one
    │   └── StorageUnavailable full, read-only, locked for too long, or of a kind that cannot be used
    ├── Waiting               the task waits for a person; nothing is wrong with it
    ├── BudgetExceeded        the protected text alone is larger than the window
    ├── ToolFailed            a tool could not do what it was asked; the model is told
    │   └── ToolServerError   an MCP server that does not start, ends, hangs or has changed
    ├── SourceError           a task source (GitHub, GitLab, a folder) could not be reached, or refused
    └── LLMError              a call of a model that came to nothing; no answer was stored
        ├── Unreachable       no connection to the provider
        ├── TimedOut          no answer within the time limit
        ├── Refused           the provider answered with an error
        ├── Overflow          the request does not fit the model's window
        ├── CutOff            the answer ended before it was complete
        ├── NotJSON           what came back is not an answer of this provider
        ├── EmptyAnswer       neither text nor tool calls
        └── Cancelled         somebody ended the call

An error is raised with a reason and named fields; cause and remedy are looked up under ``errors.<Class>.<reason>`` in
``orihon/texts``. Drivers' exceptions are wrapped once, in the back end, and kept as ``__cause__``.
"""

from __future__ import annotations

from typing import Any

from orihon.texts import text


class OrihonError(Exception):
    """Base of every error that Orihon raises on purpose."""

    def __init__(self, reason: str, /, **fields: Any) -> None:
        super().__init__(reason, fields)
        self.reason = reason
        self.fields = fields

    @property
    def cause(self) -> str:
        """What happened."""
        return self._text("cause")

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self._text("remedy")

    def __str__(self) -> str:
        return f"{self.cause} {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.reason, self.fields))

    def _text(self, which: str) -> str:
        return text(f"errors.{type(self).__name__}.{self.reason}.{which}", **self.fields)


def _rebuild(kind: type[OrihonError], reason: str, fields: dict[str, Any]) -> OrihonError:
    return kind(reason, **fields)


class InvalidInput(OrihonError, ValueError):
    """The caller handed over something that cannot be taken; nothing was changed."""


class InvalidMessage(InvalidInput):
    """Role, type, size or encoding of a message."""


class ToolCallError(InvalidInput):
    """A tool result without its call, a reused id, or calls that still wait for results."""


class InvalidId(InvalidInput):
    """An id that must not become a path."""


class InvalidSettings(InvalidInput):
    """A key or value of the configuration."""


class NoSuchMessage(InvalidInput):
    """A number or line that is not in the log."""


class IllegalFold(InvalidInput):
    """A fold that a cut rule forbids."""


class GaveUp(InvalidInput):
    """The work on a task has come to an end without success, and trying again would not help."""


class StateError(OrihonError):
    """Not possible in the state the task is in."""


class IllegalTransition(StateError):
    """A change of status that does not exist."""


class QuotaExceeded(StateError):
    """A user has as much as the settings allow."""


class TaskNotFound(StateError):
    """No task by that name."""


class TaskBusy(StateError):
    """Another live process owns the task."""


class StaleWriter(StateError):
    """This process owned the task once; another one has taken it over."""


class NothingToUndo(StateError):
    """No compression to undo, redo or open."""


class NotWaiting(StateError):
    """A checkpoint that cannot be answered: not asked, answered already, or too late."""


class Waiting(OrihonError):
    """The task waits for a person. It was let go of in good order; open it again when the answer is there."""


class StorageError(OrihonError):
    """The disk or the database said no."""


class DamagedStore(StorageError):
    """Stored data that cannot be right."""


class NewerSchema(StorageError):
    """Written by a newer Orihon."""


class KeyUnavailable(StorageError):
    """A key of the encryption at rest that is missing, erased, or not the right one."""


class StorageUnavailable(StorageError):
    """Full, read-only, locked for too long, or of a kind that cannot be used."""


class BudgetExceeded(OrihonError):
    """The protected text alone is larger than the window."""


class SourceError(OrihonError):
    """A task source could not be reached, or refused."""


class LLMError(OrihonError):
    """A call of a model that came to nothing; no answer was stored."""


class Unreachable(LLMError):
    """No connection to the provider."""


class TimedOut(LLMError):
    """No answer within the time limit."""


class Refused(LLMError):
    """The provider answered with an error."""


class Overflow(LLMError):
    """The request does not fit the model's window."""


class CutOff(LLMError):
    """The answer ended before it was complete."""


class NotJSON(LLMError):
    """What came back is not an answer of this provider."""


class EmptyAnswer(LLMError):
    """Neither text nor tool calls."""


class Cancelled(LLMError):
    """Somebody ended the call."""


class ToolFailed(OrihonError):
    """A tool could not do what it was asked; the model is told."""


class ToolServerError(ToolFailed):
    """An MCP server that does not start, ends, hangs or has changed."""
