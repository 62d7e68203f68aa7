"""Whether trying again is worth it after a compression that was in vain."""

from __future__ import annotations

from orihon.values.ladder import Fullness, Ladder

_GROWTH = 1.1


def still_in_vain(now: Fullness, then: Fullness | None, ladder: Ladder, many: int) -> bool:
    """Was the last attempt (``then``) in vain, and has little changed since? ``many`` new entries are not little."""
    if then is None or (now.usage > 1 and now.entries != then.entries):
        return False  # what cannot be sent: whatever is new may help
    return (
        ladder.height(now) <= ladder.height(then)
        and then.tokens <= now.tokens < _GROWTH * then.tokens
        and now.entries < then.entries + many
    )
