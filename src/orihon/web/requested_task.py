"""Which task a request means, whether its visitor may see it, and who a change of it is made by."""

from __future__ import annotations

from orihon.web.call import Call


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
