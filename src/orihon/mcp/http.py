"""``HistoryHttpServer``: the MCP server over streamable HTTP, on this machine alone.

It stands behind the door and the gate of the page: connections are counted, Host and Origin have to be ours
(CVE-2025-66416), and every request shows a token, that of the server or a grant's, which decides for each message whose
tasks are seen and what may be changed. A session of the protocol belongs to the token that began it: with another one
it is not there. Only the address of MCP answers; there is no page.
"""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from orihon.errors import InvalidInput
from orihon.mcp.desk import Desk
from orihon.mcp.server import HistoryServer
from orihon.values.task import shortened
from orihon.web.gate import Gate, Names
from orihon.web.refusal import MCP, Refusal, refusal
from orihon.web.server import Listening, WebServer, is_loopback

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from orihon.settings import Settings
    from orihon.web.access import Access
    from orihon.web.site import Site

_ADDRESS = re.compile(r"(?:(?P<host>[^:\s]+|\[[0-9A-Fa-f:.]+\]):)?(?P<port>[0-9]{1,5})")
_MOST_PORT = 65535
#: A session takes memory until it has been idle for so long.
_MOST_SESSIONS, _IDLE_SECONDS = 200, 1800.0
_MOST_BODY = 1 << 20


def listening_at(address: str, names: Sequence[str] = ()) -> Listening:
    """Where to listen: ``PORT`` or ``HOST:PORT``, on loopback."""
    found = _ADDRESS.fullmatch(address.strip())
    if found is None or int(found["port"]) > _MOST_PORT:
        raise InvalidInput("mcp_address", value=shortened(address))
    host = (found["host"] or "127.0.0.1").strip("[]")
    if not is_loopback(host):
        raise InvalidInput("mcp_beyond_loopback" if _is_host(host) else "mcp_address", host=host, value=host)
    return Listening("127.0.0.1" if host == "localhost" else host, int(found["port"]), tuple(names))


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return bool(re.fullmatch(r"[A-Za-z0-9.-]+", host))
    return True


class HistoryHttpServer(WebServer):
    """Use it in a ``with`` block; ``serve`` until interrupted, or ``start`` beside."""

    def __init__(
        self, base_dir: Path | str, settings: Settings, listening: Listening, *, allow_changes: bool = False
    ) -> None:
        self._allow_changes = allow_changes
        super().__init__(base_dir, settings, listening)

    @property
    def address(self) -> str:
        """Where clients connect."""
        return super().address.rstrip("/") + MCP

    def _history(self, desk: Desk) -> HistoryServer:
        return HistoryServer(desk, allow_changes=self._allow_changes)

    def _application(self, site: Site, access: Access, names: Names) -> ASGIApp:
        app = self._history(Desk(site.base, turns=site.turns)).streamable_http_app(
            streamable_http_path=MCP,
            session_idle_timeout=_IDLE_SECONDS,
            max_sessions=_MOST_SESSIONS,
            max_request_body_size=_MOST_BODY,
            # The gate has looked at Host and Origin, and knows by which names this server may be called.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        return Gate(_Sessions(app), access, names)


class _Sessions:
    """Tells the SDK whose request it is, so that it gives a session to nobody else; and answers at no other address."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["path"] != MCP:
            await refusal({**scope, "path": MCP}, Refusal(404, "no_mcp"))(scope, receive, send)
            return
        scope["user"] = AuthenticatedUser(_shown(scope["state"]["visitor"]))
        await self._app(scope, receive, send)


def _shown(visitor: Any) -> AccessToken:
    """Who it is for the SDK: the grant and its user, never the token."""
    name = visitor.grant or "server"
    return AccessToken(token=name, client_id=name, scopes=[visitor.role], subject=visitor.user)
