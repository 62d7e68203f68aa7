"""``ProxyServer``: the proxy of one base on this machine, until it is told to end.

Listens on loopback. One process serves every wire and every upstream.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import FrameType
from typing import Any

import uvicorn

from orihon.base import Base
from orihon.errors import InvalidInput
from orihon.proxy.app import ProxyApp
from orihon.proxy.running import ProxyPlace
from orihon.proxy.selftest import self_test
from orihon.proxy.service import ProxyService, settings_for_proxy
from orihon.proxy.upstream import check_upstream
from orihon.settings import Settings
from orihon.tasks.door import Door, close_door, open_door

LOOPBACK = "127.0.0.1"
#: Answers that are kept at the same time: each waits for the disk.
_THREADS = 32
PORT = 8378
_BACKLOG = 512
_WORD_BYTES = 24
_SECONDS_TO_FINISH = 10
_NAMES = frozenset((LOOPBACK, "localhost", "[::1]", "::1"))


@dataclass(frozen=True, slots=True)
class ProxyListening:
    """Where to listen, and where requests go on to; an upstream that is not named is the settings'."""

    port: int = PORT
    upstream: str | None = None
    token: str | None = None
    strict: bool = False


class _Uvicorn(uvicorn.Server):
    """Ends well at SIGINT and SIGTERM: its own way would be to die of them before anything is put to rest."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit  # the second time
        self.should_exit = True


class ProxyServer:
    """The proxy, listening from the moment it is made."""

    def __init__(self, path: Any, settings: Settings, listening: ProxyListening) -> None:
        wanted = settings.proxy
        self._upstreams = {
            "openai": check_upstream(listening.upstream or wanted.openai_upstream),
            "anthropic": check_upstream(listening.upstream or wanted.anthropic_upstream),
        }
        self._settings = settings
        self._socket = _listening(listening.port)
        self.port: int = self._socket.getsockname()[1]
        self.trouble: str | None = None
        self.service = ProxyService(Base(path, settings_for_proxy(settings)), strict=listening.strict)
        self._word = secrets.token_urlsafe(_WORD_BYTES)
        self._app = ProxyApp(
            self.service,
            self._upstreams,
            token=listening.token,
            names=_NAMES,
            health=self.health,
            touched=ProxyPlace(self.service.base.path).touch,
            word=self._word,
        )
        self._server: uvicorn.Server | None = None

    def check(self) -> str:
        """Whether folding works here: what is wrong, or nothing. Until it was asked, nobody knows."""
        self.trouble = self_test(self._settings)
        return self.trouble

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def health(self) -> dict[str, Any]:
        """Whether it works, and what it has done."""
        return {
            "healthy": self.trouble == "",
            "self_test": "-" if self.trouble is None else self.trouble or "ok",
            "base": str(self.service.base.path),
            **self.service.status(),
        }

    def serve(self, ready: Callable[[], object] | None = None) -> None:
        """Until SIGINT or SIGTERM."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # answers that were cut off are said by us
        config = uvicorn.Config(
            self._app.app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,  # the upstream's own pass, and there shall be one of each
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_SECONDS_TO_FINISH,
            http="h11",
            ws="none",
        )
        self._server = _Uvicorn(config)
        try:
            asyncio.run(self._run(ready))
        finally:
            self.close()

    async def _run(self, ready: Callable[[], object] | None) -> None:
        assert self._server is not None
        open_door(self.service.base.path, os.getpid(), Door(self.port, self._word))
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(_THREADS, thread_name_prefix="orihon-proxy"))
        if ready is not None:
            ready()
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            await self._app.close()

    def stop(self) -> None:
        """End from another thread."""
        if self._server is not None:
            self._server.should_exit = True

    def close(self) -> None:
        """Pause every conversation, and listen no more."""
        self._socket.close()
        close_door(self.service.base.path, os.getpid())
        self.service.close()


def _listening(port: int) -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        line.bind((LOOPBACK, port))
    except OSError as error:
        line.close()
        raise InvalidInput("proxy_port", port=port, detail=error.strerror or str(error)) from error
    line.listen(_BACKLOG)
    return line
