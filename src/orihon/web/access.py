"""Who may come in: the token, the session cookie, the mark against forged requests, and how often one may guess.

The token lies in ``web.key`` of the base folder, for its owner's eyes only, so that a page that is open outlives a
restart of the server. A browser shows it once and gets a signed cookie; every change that a browser asks for carries a
mark that only our pages know. A program sends the token as a bearer token. Nothing here is written to a log. The token
of a grant (``orihon grants``) does the same for its user; a session that it began is worth nothing without the grant.
A grant that is revoked is out within ``SECONDS``, one that runs out at once. A token is compared first: the wrong ones
of others keep nobody out who has a right one.
"""

from __future__ import annotations

import base64
import hmac
import math
import re
import secrets
import threading
import time
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orihon.catalogue.grants import Grant
from orihon.errors import DamagedStore
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, replace_file, wrapping
from orihon.tasks.base import OpenBase
from orihon.tasks.grants import PREFIX, ROLES, Role, digest_of

# ---- who asks --------------------------------------------------------------------------------------------------------

__all__ = ["Role", "Visitor"]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who has shown a token. ``session`` is empty for a program that sends its token with every request.

    ``grant`` names the grant whose token it is; empty for the token of the server itself.
    """

    user: str
    role: Role
    session: str = ""
    grant: str = ""
    until: float = math.inf  # when the session is over

    def may(self, role: Role) -> bool:
        """Is this allowed to somebody of that role?"""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def only(self) -> str | None:
        """The user beside whom there is nobody for this visitor; ``None`` for those who see everybody's tasks."""
        return None if self.may("admin") else self.user


# ---- a cache of grants -----------------------------------------------------------------------------------------------

#: How long a look is believed. With the time between two looks at those who are in: less than three seconds.
SECONDS = 1.0
_MOST_KEPT = 1000


class Granted:
    """The grants of one base folder. Threads may share it."""

    def __init__(self, base: OpenBase) -> None:
        self._base = base
        self._looked: OrderedDict[str, tuple[float, Grant | None]] = OrderedDict()  # by the grant's own name
        self._names: OrderedDict[str, str] = OrderedDict()  # of grants, by the digests of their tokens
        self._lock = threading.Lock()

    def by_token(self, token: str) -> Grant | None:
        """The grant that a token belongs to, good or not."""
        digest = digest_of(token)
        with self._lock:
            name = self._names.get(digest)
        if name is not None:
            return self.by_name(name)
        found = self._read(digest=digest)
        if found is not None:
            with self._lock:
                self._names[digest] = found.id
                _limit(self._names)
            self._keep(found.id, found)
        return found

    def by_name(self, name: str) -> Grant | None:
        """A grant by its own name, good or not."""
        with self._lock:
            at, found = self._looked.get(name, (0.0, None))
        if at and time.monotonic() - at < SECONDS:
            return found
        found = self._read(name=name)
        self._keep(name, found)
        return found

    def _keep(self, name: str, found: Grant | None) -> None:
        with self._lock:
            self._looked.pop(name, None)
            self._looked[name] = (time.monotonic(), found)
            _limit(self._looked)

    def _read(self, *, name: str = "", digest: str = "") -> Grant | None:
        catalogue = self._base.open_catalogue()
        if catalogue is None:
            return None
        return catalogue.grants.by_digest(digest) if digest else catalogue.grants.find(name)


def is_good(grant: Grant | None) -> bool:
    """Does it let anybody in now?"""
    return grant is not None and grant.is_good(utc_now())


def _limit(kept: OrderedDict[str, Any]) -> None:
    while len(kept) > _MOST_KEPT:
        kept.popitem(last=False)


# ---- letting in ------------------------------------------------------------------------------------------------------

KEY_FILE = "web.key"
#: Seconds for which a browser need not show the token again.
SESSION_SECONDS = 14 * 24 * 3600
#: So many wrong tokens of one peer within so many seconds, and its further ones are told to wait.
MOST_FAILURES = 10
FAILURE_SECONDS = 60.0
_KEY_BYTES = 32
_FOR_OTHERS = 0o077
_KEY = re.compile(rb"[0-9a-f]{64}\n?")
_SESSION = re.compile(r"([0-9]{1,12}\.([A-Za-z0-9_-]{22})(?:\.([0-9a-f]{8}))?)\.([A-Za-z0-9_-]{43})")


@dataclass(slots=True)
class Failures:
    """Counts wrong tokens, for each of the peers that have shown some lately."""

    _times: OrderedDict[str, deque[float]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, peer: str) -> None:
        """One more; those of somebody who has to wait make the wait no longer."""
        with self._lock:
            if not self._wait(peer):
                self._times.setdefault(peer, deque(maxlen=MOST_FAILURES)).append(time.monotonic())
                self._times.move_to_end(peer)
                _limit(self._times)

    def seconds_to_wait(self, peer: str) -> float:
        """0 where a wrong token is answered as such."""
        with self._lock:
            return self._wait(peer)

    def _wait(self, peer: str) -> float:
        times = self._times.get(peer, deque())
        return max(0.0, times[0] + FAILURE_SECONDS - time.monotonic()) if len(times) == MOST_FAILURES else 0.0


class LeftSessions:
    """Sessions that somebody has logged out of. One grant fills no memory with them, and ends nobody else's by that."""

    def __init__(self) -> None:
        self._of_grant: dict[str, dict[str, float]] = {}  # when each would have ended
        self._before: dict[str, float] = {}  # all of a grant's that would have ended by then are left
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return sum(map(len, self._of_grant.values()))

    def add(self, grant: str, session: str, until: float) -> None:
        with self._lock:
            left = self._of_grant.setdefault(grant, {})
            left[session] = until
            if len(left) > _MOST_KEPT:  # the older half goes together with all that are as old
                border = self._before[grant] = sorted(left.values())[len(left) // 2]
                self._of_grant[grant] = {name: end for name, end in left.items() if end > border}

    def has(self, grant: str, session: str, until: float) -> bool:
        with self._lock:
            return until <= self._before.get(grant, -math.inf) or session in self._of_grant.get(grant, ())


class Access:
    """What a server lets in."""

    def __init__(self, key: bytes, *, user: str = "", port: int = 0, granted: Granted | None = None) -> None:
        self._key = key
        self._user = user
        self._granted = granted
        # Cookies know no ports: two servers on one machine must not take each other's.
        self.cookie = f"orihon_session_{port}"
        self.failures = Failures()
        self._left = LeftSessions()

    @property
    def token(self) -> str:
        """What is printed at the start."""
        return self._made("token")

    def by_token(self, token: str, peer: str) -> Visitor | None:
        """The one who shows this token; a wrong one is counted. One that was good once is no guess."""
        if self._granted is not None and token.startswith(PREFIX):
            grant = self._granted.by_token(token)
            if grant is not None:
                return self.by_grant(grant.id)
        elif hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode()):
            return Visitor(self._user, "admin")
        self.failures.note(peer)
        return None

    def by_grant(self, name: str, session: str = "", until: float = math.inf) -> Visitor | None:
        """The one whom a grant lets in, as long as it does."""
        grant = None if self._granted is None else self._granted.by_name(name)
        if grant is None or not is_good(grant):
            return None
        role = next((role for role in ROLES if role == grant.role), None)
        return None if role is None else Visitor(grant.user, role, session, grant.id, until)

    def new_session(self, visitor: Visitor) -> str:
        """The value of the cookie for somebody who has shown a token."""
        head = f"{int(time.time()) + SESSION_SECONDS}.{secrets.token_urlsafe(16)}"
        head = f"{head}.{visitor.grant}" if visitor.grant else head
        return f"{head}.{self._made('session ' + head)}"

    def by_session(self, cookie: str) -> Visitor | None:
        """The one whose browser sends this cookie."""
        parts = _SESSION.fullmatch(cookie)
        if parts is None:
            return None
        head, name, grant, mark = parts.groups()
        genuine = hmac.compare_digest(mark, self._made(f"session {head}"))
        until = int(head.partition(".")[0])
        if until <= time.time() or self._left.has(grant or "", name, until) or not genuine:
            return None
        return self.by_grant(grant, name, until) if grant else Visitor(self._user, "admin", name, until=until)

    def is_still_in(self, visitor: Visitor) -> bool:
        """Has this visitor neither left nor lost the grant since, nor any right of it?"""
        if self._left.has(visitor.grant, visitor.session, visitor.until) or visitor.until <= time.time():
            return False
        return not visitor.grant or self.by_grant(visitor.grant, visitor.session, visitor.until) == visitor

    def leave(self, visitor: Visitor) -> None:
        """Whoever has kept a copy of this session's cookie gets nothing for it while this server runs."""
        if visitor.session:
            self._left.add(visitor.grant, visitor.session, visitor.until)

    def mark_of(self, visitor: Visitor) -> str:
        """What a change that this browser asks for has to carry."""
        return self._made(f"mark {visitor.session}")

    def is_marked(self, visitor: Visitor, mark: str) -> bool:
        """Does the mark belong to the session? A program without a session needs none: no page can send its token."""
        return not visitor.session or hmac.compare_digest(
            mark.encode("utf-8", "replace"), self.mark_of(visitor).encode()
        )

    def _made(self, purpose: str) -> str:
        digest = hmac.digest(self._key, purpose.encode(), "sha256")
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def open_access(
    base: Path, *, user: str = "", port: int = 0, renew: bool = False, granted: Granted | None = None
) -> Access:
    """The access to a base folder; ``renew`` makes every earlier token of the server, and every session, worthless.

    A key that others could have read is worthless by itself, and is made anew.
    """
    path = base / KEY_FILE
    with wrapping(path):
        if renew or not path.exists() or path.stat().st_mode & _FOR_OTHERS:
            make_private_folder(base)
            replace_file(path, [secrets.token_hex(_KEY_BYTES).encode(), b"\n"])
        content = path.read_bytes()
    if not _KEY.fullmatch(content):
        raise DamagedStore("web_key", path=path)
    return Access(bytes.fromhex(content.decode().strip()), user=user, port=port, granted=granted)
