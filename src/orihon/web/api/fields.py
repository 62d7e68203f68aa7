"""The fields that several reads of the API take."""

from __future__ import annotations

from orihon.web.call import Call
from orihon.web.fields import Field
from orihon.web.requested_task import users_of

#: No answer has more records than this; ``next`` says where the following ones begin.
MOST_RECORDS = 500
LIMIT = Field("limit", "whole", default=100, high=MOST_RECORDS, about="limit")
SINCE = Field("since", longest=100, about="since_time")
UNTIL = Field("until", longest=100, about="until_time")
USER = Field("user", about="only_user")
REPOSITORY = Field("repository", about="only_repository")


def allowed_users(call: Call) -> tuple[str, ...] | None:
    """Whose tasks are meant: the user that is asked for, as far as the visitor may see them; ``None``: everybody's."""
    asked, users = call.given["user"], users_of(call)
    if asked is None:
        return users
    return (asked,) if users is None or asked in users else ()
