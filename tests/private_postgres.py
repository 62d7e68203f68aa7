"""A PostgreSQL of a test's own, to be restarted, filled up and locked: the shared one is never touched.

Listens on the loopback and has its data in a temporary folder. The server refuses to run as root, so root runs it as
``postgres``. Without the programs a test is skipped, or in continuous integration fails.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import free_port

_SECONDS = 240
_SETTINGS = """
listen_addresses = '127.0.0.1'
shared_buffers = 16MB
max_connections = 40
fsync = off                 # no power is cut here, and restarts shall be quick
wal_writer_delay = 10s      # what nobody waits for stays in memory long enough to be seen there
max_wal_size = 64MB
min_wal_size = 32MB
wal_level = replica
"""


class PrivatePostgres:
    """One server, its data and its port."""

    def __init__(self, data: Path, port: int) -> None:
        self.data = data
        self.port = port
        self._bin = _programs()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._control("start", "-w", "-l", str(self.data / "server.log"))

    def restart(self, mode: str = "immediate") -> None:
        """End it (``immediate``: as a crash does) and start it again; it recovers before it lets anybody in."""
        self._control("restart", "-w", "-m", mode, "-l", str(self.data / "server.log"))

    def stop(self) -> None:
        self._control("stop", "-w", "-m", "immediate")

    def copy(self, data: Path, port: int) -> PrivatePostgres:
        """A standby of this server, not started."""
        self.run(
            "pg_basebackup",
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "postgres",
            "-D",
            str(data),
            "-R",
            "-c",
            "fast",
        )
        standby = PrivatePostgres(data, port)
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(f"port = {port}\n")
        return standby

    def allow(self, line: str) -> None:
        """A line for the beginning of ``pg_hba.conf``, at once."""
        rules = self.data / "pg_hba.conf"
        rules.write_text(f"{line}\n{rules.read_text()}")
        self._control("reload")

    def _control(self, *arguments: str) -> None:
        self.run("pg_ctl", "-D", str(self.data), "-s", "-t", str(_SECONDS), *arguments)

    def run(self, program: str, *arguments: str) -> None:
        """One of the server's own programs."""
        run_program([str(self._bin / program), *arguments])


def run_program(command: list[str]) -> None:
    # Not through pipes: the server would inherit them, and they would stay open as long as it runs.
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(command, stdout=said, stderr=said, timeout=_SECONDS, check=False, cwd="/", user=_user())
        said.seek(0)
        assert done.returncode == 0, (command, said.read().decode())


def _user() -> str | None:
    return "postgres" if os.geteuid() == 0 else None


def _programs() -> Path:
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
    found = str(installed[-1]) if installed else shutil.which("pg_ctl")
    if found is None:
        reason = "no PostgreSQL server programs (initdb, pg_ctl) on this machine; install the package postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return Path(found).parent


@contextmanager
def own_folder() -> Iterator[Path]:
    """A folder that belongs to the user who runs the servers."""
    with tempfile.TemporaryDirectory(prefix="orihon-postgres-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if user := _user():
            owner = pwd.getpwnam(user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        yield folder


@contextmanager
def private_postgres() -> Iterator[PrivatePostgres]:
    """A running server, gone afterwards."""
    with own_folder() as folder:
        server = PrivatePostgres(folder / "data", free_port())
        server.run("initdb", "-D", str(server.data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        with (server.data / "postgresql.conf").open("a") as settings:
            settings.write(f"{_SETTINGS}port = {server.port}\nunix_socket_directories = '{folder}'\n")
        server.start()
        try:
            yield server
        finally:
            server.stop()
