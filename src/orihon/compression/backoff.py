"""Back-off after a compression that saved nothing: whether another attempt is worth it yet."""

from __future__ import annotations

from orihon.values.ladder import Fullness, Ladder

_GROWTH = 1.1


def should_back_off(now: Fullness, then: Fullness | None, ladder: Ladder, many: int) -> bool:
    """Did the last attempt (``then``) save nothing, and has little changed? ``many`` new entries are not little."""
    if then is None or (now.usage > 1 and now.entries != then.entries):
        return False  # what cannot be sent: whatever is new may help
    return (
        ladder.height(now) <= ladder.height(then)
        and then.tokens <= now.tokens < _GROWTH * then.tokens
        and now.entries < then.entries + many
    )
