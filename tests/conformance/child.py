"""A task opened in another process, which does what it is told: one JSON line per command and per answer.

Run as ``python -m tests.conformance.child BACKEND FOLDER OPTIONS``; ``OtherProcess`` is its remote control.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from orihon import MessageStore, errors
from orihon.errors import OrihonError
from orihon.values.view import PlannedFold
from tests.conformance.backends import BACKENDS, SEALED, Backend
from tests.conformance.invariants import check_task

ROOT = Path(__file__).parents[2]
PATIENCE = 240.0


class Lines:
    """The lines that another process writes, waited for but not for ever."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._received = b""

    def next(self) -> bytes:
        give_up = time.monotonic() + PATIENCE
        while b"\n" not in self._received:
            ready, _, _ = select.select([self._stream], [], [], max(0.0, give_up - time.monotonic()))
            chunk = os.read(self._stream.fileno(), 1 << 20) if ready else b""
            assert chunk, "no answer from the other process"
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        return line


class OtherProcess:
    """A process with its own store on a task."""

    def __init__(
        self,
        backend: Backend,
        folder: Path,
        *,
        umask: int = -1,
        before: Sequence[str] = (),
        plain_environment: bool = False,
        **options: Any,
    ) -> None:
        """``before`` is a command that runs the process (strace, setpriv); a plain environment measures nothing."""
        environment = unmeasured() if plain_environment else dict(os.environ)
        if before or umask != -1:  # what it compiles is not to be a part of what is watched
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", __name__, backend.label, str(folder), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            umask=umask,
            env=environment,
        )
        assert self.process.stdout is not None
        self._lines = Lines(self.process.stdout)

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, command: str, **arguments: Any) -> Any:
        """The answer to a command; an error of the other process is raised here."""
        self.send(command, **arguments)
        return self.answer()

    def send(self, command: str, **arguments: Any) -> None:
        """A command whose answer is fetched later."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, arguments]).encode() + b"\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        """The next answer."""
        reply = json.loads(self._lines.next())
        if "error" in reply:
            raise getattr(errors, reply["error"])(reply["reason"], **reply["fields"])
        return reply["ok"]

    def answer_line(self) -> str:
        """The next line that is not an answer to a command."""
        return self._lines.next().decode()

    def stop(self) -> None:
        """Let it stand still, and wait until it does."""
        self.process.send_signal(signal.SIGSTOP)
        _, status = os.waitpid(self.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As by ``kill -9``; nothing is tidied up."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if kind is not None:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def unmeasured() -> dict[str, str]:
    """The environment without what would make a process measure its coverage."""
    return {key: value for key, value in os.environ.items() if not key.startswith(("COV_", "COVERAGE_"))}


# ---- the other side --------------------------------------------------------------------------------------------


def _append(store: MessageStore, texts: list[str]) -> list[int]:
    return [store.add_message("user", text) for text in texts]


def _append_until_told(store: MessageStore, at_most: int) -> int:
    """Appends and folds until a line comes in; says how many messages there are then."""
    number = 0
    while number < at_most and not select.select([sys.stdin], [], [], 0)[0]:
        number = store.add_message("user", f"message {number + 1} " + "x" * (number % 500))
        if number % 40 == 0:
            store.create_summary(number - 30, number - 10, f"what happened from {number - 30} to {number - 10}")
    return number


def _fold(store: MessageStore, start: int, end: int, text: str) -> int:
    return store.folding.compress([PlannedFold(start, end, text)]).id


def _fork_and_append(store: MessageStore) -> list[str]:
    """What a forked child sees when it uses the store it inherited."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = f"seq {store.add_message('user', 'from the fork')}"
        except OrihonError as error:
            answer = type(error).__name__
        os.write(writer, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    return [os.read(reader, 1000).decode(), f"seq {store.add_message('user', 'from the parent')}"]


def _write_with_a_fork(store: MessageStore, rounds: int) -> int:
    """Parent and forked child write by turns; the parent has closed its store in between."""
    store.add_message("user", "before the fork")
    to_child, to_parent = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        for number in range(rounds):
            os.read(to_child[0], 1)
            store.add_message("user", f"child {number}")
            os.write(to_parent[1], b".")
        os._exit(0)
    store.close()
    for number in range(rounds):
        os.write(to_child[1], b".")
        os.read(to_parent[0], 1)
        store.add_message("user", f"parent {number}")
    os.waitpid(child, 0)
    return store.count_messages()


def _hold_the_task(store: MessageStore) -> None:
    """Stays in the middle of a change until a line comes in."""
    with store.task_store.changing():
        sys.stdout.write("held\n")
        sys.stdout.flush()
        select.select([sys.stdin], [], [], PATIENCE)


COMMANDS: dict[str, Callable[..., Any]] = {
    "append": _append,
    "append_until_told": _append_until_told,
    "told": lambda store: None,
    "fold": _fold,
    "undo": lambda store: store.folding.undo().id,
    "fork_and_append": _fork_and_append,
    "write_with_a_fork": _write_with_a_fork,
    "hold_the_task": _hold_the_task,
    "count": lambda store: store.count_messages(),
    "tokens": lambda store: store.get_current_token_count(),
    "contents": lambda store: [stored.message.content for stored in store.get_messages()],
    "view": lambda store: store.get_messages_for_llm(),
    "view_file": lambda store: str(store.get_current_context_file()),
    "check": lambda store: check_task(store),
    "close": lambda store: store.close(),
}


def main() -> None:
    """Open the task at the first command, and obey."""
    backend, folder, options = sys.argv[1:4]
    store: MessageStore | None = None
    with open(0, "rb", buffering=0) as commands:  # unbuffered, so that select sees what is waiting
        for line in iter(commands.readline, b""):
            command, arguments = json.loads(line)
            reply: dict[str, Any]
            try:
                store = store or (BACKENDS | SEALED)[backend].open(Path(folder), **json.loads(options))
                reply = {"ok": COMMANDS[command](store, **arguments)}
            except OrihonError as error:
                fields = {name: str(value) for name, value in error.fields.items()}
                reply = {"error": type(error).__name__, "reason": error.reason, "fields": fields}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
