"""Who is asking, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from orihon.tasks.grants import ROLES, Role

__all__ = ["ROLES", "Role", "Visitor"]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who has shown a token. ``session`` is empty for a program that sends its token with every request.

    ``grant`` names the grant whose token it is; empty for the token of the server itself.
    """

    user: str
    role: Role
    session: str = ""
    grant: str = ""

    def may(self, role: Role) -> bool:
        """Is this allowed to somebody of that role?"""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def only(self) -> str | None:
        """The user beside whom there is nobody for this visitor; ``None`` for those who see everybody's tasks."""
        return None if self.may("admin") else self.user
