"""Puts our session in the place of ``SQLiteSession`` before the SDK's own tests are imported: ``pytest -p …``."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import agents.memory
import agents.memory.sqlite_session

import agents
from orihon.adapters.openai_agents import OrihonSession

_SETTINGS = {"context_storage": {"backend": "sqlite", "durability": "os"}}


class SQLiteSession(OrihonSession):
    """Called as theirs is. Without a file each has a base of its own, which nobody else sees."""

    def __init__(
        self,
        session_id: str,
        db_path: str | Path = ":memory:",
        sessions_table: str = "agent_sessions",
        messages_table: str = "agent_messages",
        session_settings: Any = None,
    ) -> None:
        is_alone = str(db_path) == ":memory:"
        self._aside = tempfile.TemporaryDirectory() if is_alone else None
        where = f"{db_path}.orihon" if self._aside is None else self._aside.name
        super().__init__(session_id, where, _SETTINGS, session_settings=session_settings)
        self.db_path = db_path

    def close(self) -> None:
        super().close()
        if self._aside is not None:
            self._aside.cleanup()


agents.SQLiteSession = SQLiteSession
agents.memory.SQLiteSession = SQLiteSession
agents.memory.sqlite_session.SQLiteSession = SQLiteSession
