"""Which task a conversation is: ``proxy.db`` in the base folder. Derived: what it says stands in the logs, too.

Holds digests and numbers, no text, no id of a client, no credential. Losing it costs a look at the tasks that came in
through the proxy; a conversation that is not found begins a new task with all that the client sends.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orihon.drivers.postgres import statements
from orihon.drivers.sqlite import SqliteConnection, database_errors, open_database, transaction
from orihon.errors import DamagedStore, NewerSchema
from orihon.system import jsonio

logger = logging.getLogger("orihon.proxy")

FILE = "proxy.db"
_TIMEOUT = 10.0
_AT_ONCE = 400


@dataclass(frozen=True, slots=True)
class KnownConversation:
    """A conversation as the index has it."""

    uuid: str
    seed: bytes
    first: bytes  # the chain after its first step
    tip: bytes  # the chain after its last one
    session: bytes | None
    steps: int
    kind: str
    asked: bytes | None = (
        None  # the chain before the answer at its end, while nobody knows whether the client has got it
    )


class ConversationIndex:
    """The table of conversations of one base."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._lock = threading.Lock()
        self.is_new = not self.path.exists()
        self._sql = {name: said.decode() for name, said in statements(__package__, "index.sql").items()}
        try:
            self._connection = self._opened()
        except (DamagedStore, NewerSchema) as error:  # derived: made anew from the tasks
            logger.warning("%s is made anew: %s", self.path, error)
            for path in folder.glob(f"{FILE}*"):
                path.unlink()
            self.is_new = True
            self._connection = self._opened()

    def _opened(self) -> SqliteConnection:
        schema = self._sql["schema"]
        return open_database(
            self.path,
            schema=schema,
            steps=[self._sql["to_version_2"]],
            timeout=_TIMEOUT,
            durable=False,
            create=True,
            shared=True,
        )

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def by_tip(self, chains: Sequence[bytes]) -> list[KnownConversation]:
        """The conversations whose last step is the latest of these, as far as one ends there at all."""
        for end in range(len(chains), 0, -_AT_ONCE):
            found = self._known("by_tip", chains=_listed(chains[max(end - _AT_ONCE, 0) : end]))
            if found:
                places = {chain: place for place, chain in enumerate(chains)}
                latest = max(places[known.tip] for known in found)
                return [known for known in found if places[known.tip] == latest]
        return []

    def by_first(self, chain: bytes) -> list[KnownConversation]:
        """The conversations that begin with this step, the latest first."""
        return self._known("by_first", first=chain)

    def by_asked(self, chain: bytes) -> list[KnownConversation]:
        """The conversations that end with an answer to this, which may never have been heard."""
        return self._known("by_asked", asked=chain)

    def of_session(self, session: bytes) -> list[KnownConversation]:
        """The conversations under a client's own id, the latest first."""
        return self._known("of_session", session=session)

    def find(self, uuid: str) -> KnownConversation | None:
        return next(iter(self._known("find", uuid=uuid)), None)

    def by_response(self, response: bytes) -> tuple[str, int] | None:
        """The task of an answer, and how many steps the conversation had with it."""
        rows = self._rows("by_response", id=response)
        return (rows[0][0], rows[0][1]) if rows else None

    def keep(self, known: KnownConversation, response: bytes | None = None) -> None:
        """How a conversation stands now, and the answer that it ends with."""
        with self._lock, database_errors(self.path, _TIMEOUT), transaction(self._connection):
            self._connection.execute(self._sql["keep"], {**asdict(known), "updated": time.time()})
            if response is not None:
                kept: dict[str, Any] = {"id": response, "uuid": known.uuid, "steps": known.steps}
                self._connection.execute(self._sql["keep_response"], kept)

    def tell(self, uuid: str) -> None:
        """The client has got the answer that the conversation ends with."""
        with self._lock, database_errors(self.path, _TIMEOUT):
            self._connection.execute(self._sql["tell"], {"uuid": uuid})

    def keep_answer(self, uuid: str, seq: int, marks: Sequence[bytes]) -> None:
        """By what the answer with that number in the log is known again."""
        if marks:
            kept = {"uuid": uuid, "seq": seq, "marks": _listed(marks)}
            with self._lock, database_errors(self.path, _TIMEOUT):
                self._connection.execute(self._sql["keep_answer"], kept)

    def by_answer(self, groups: Sequence[Sequence[bytes]]) -> str | None:
        """The conversation that the latest of these is the last answer of, and of no other; each has several marks."""
        known: dict[str, dict[str, bool]] = {}
        every = [mark for marks in groups for mark in marks]
        for start in range(0, len(every), _AT_ONCE):
            for mark, uuid, is_last in self._rows("by_answer", marks=_listed(every[start : start + _AT_ONCE])):
                known.setdefault(mark, {})[uuid] = bool(is_last)
        for marks in reversed(groups):
            found = [known[mark.hex()] for mark in marks if mark.hex() in known]
            if found:
                uuids = {uuid for one in found for uuid in one}
                return (
                    uuids.pop()
                    if len(uuids) == 1 and all(is_last for one in found for is_last in one.values())
                    else None
                )
        return None

    def forget(self, uuid: str) -> None:
        """A task that is there no longer."""
        with self._lock, database_errors(self.path, _TIMEOUT), transaction(self._connection):
            for name in ("forget", "forget_responses", "forget_answers"):
                self._connection.execute(self._sql[name], {"uuid": uuid})

    def _known(self, name: str, **values: Any) -> list[KnownConversation]:
        return [KnownConversation(*row) for row in self._rows(name, **values)]

    def _rows(self, name: str, **values: Any) -> list[Any]:
        with self._lock, database_errors(self.path, _TIMEOUT):
            return list(self._connection.execute(self._sql[name], values))


def _listed(digests: Sequence[bytes]) -> str:
    return jsonio.encode([digest.hex() for digest in digests]).decode()
