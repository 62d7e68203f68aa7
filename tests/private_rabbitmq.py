"""A RabbitMQ of one's own, on free ports of loopback, that may be stopped and started again."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests.ports import free_port

_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # Debian's command would change to another user
_PATIENCE = 240.0


def is_installed() -> bool:
    """Can one be started here?"""
    return _SERVER.exists()


class PrivateRabbitMQ:
    """Runs inside the block; ``restart`` keeps what durable queues hold."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._node = f"orihon_{secrets.token_hex(4)}@localhost"
        self._distribution = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def __enter__(self) -> PrivateRabbitMQ:
        for name in ("data", "log"):
            (self._folder / name).mkdir(parents=True, exist_ok=True)
        (self._folder / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{self.port}\n")
        (self._folder / "plugins").write_text("[].\n")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        """Start, and wait until it takes connections."""
        variables = {
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_DIST_PORT": str(self._distribution),
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_PID_FILE": str(self._folder / "pid"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "HOME": str(self._folder),
        }
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [str(_SERVER)], env={**os.environ, **variables}, stdout=out, stderr=out, start_new_session=True
            )
        give_up = time.monotonic() + _PATIENCE
        while time.monotonic() < give_up and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise RuntimeError((self._folder / "out").read_text(errors="replace")[-2000:])

    def stop(self) -> None:
        """End it and what it started."""
        if self._process is not None:
            with_children = os.getpgid(self._process.pid)
            os.killpg(with_children, signal.SIGTERM)
            try:
                self._process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(with_children, signal.SIGKILL)
                self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()
