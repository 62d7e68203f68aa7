"""``shell_run``: a command in the workspace. Off by default: it can do whatever the user can.

The command gets no input and a small environment, and has until the time-out; then, and also when it ends by itself or
when this process dies, everything that it has started is ended by its guard (``system.processes``). Of its output the
beginning and the end are kept, whatever its length. Status other than zero is not a failure of the tool: the status is
told, and of a command that a signal has ended 128 and the signal's number.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
from pathlib import Path

from orihon.errors import ToolFailed
from orihon.runtime.builtin_tools import BuiltinTool, Deadline
from orihon.runtime.tool import Arguments, ServerAnswer
from orihon.system.processes import GuardedProcess, start_guarded
from orihon.texts import text

INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER")
KEPT_BYTES = 4 << 20  # of the beginning, and again of the end
_BLOCK = 1 << 16
_TICK = 0.1


class Shell:
    """Runs commands in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._lock = threading.Lock()
        self._running: set[GuardedProcess] = set()
        self._closed = False

    def tool(self) -> BuiltinTool:
        return BuiltinTool(
            "run",
            "Run a shell command in the workspace and give its output and exit status. "
            "Nothing that it starts outlives the call.",
            {
                "command": {"type": "string", "description": "The command, for /bin/sh."},
                "timeout": {"type": "integer", "description": "Seconds until it is ended, if fewer than usual."},
            },
            self._run,
            ["command"],
            repeatable=False,
            ordered=True,
        )

    def close(self) -> None:
        """End the commands under way."""
        with self._lock:
            self._closed = True
            running = list(self._running)
        for command in running:
            command.pipe.close()

    def _run(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        wanted = arguments.text("command")
        if "\0" in wanted or not wanted.strip():
            raise ToolFailed("argument_missing", name="command")
        seconds = min(arguments.number("timeout", 1 << 20), deadline.seconds)
        command = self._start(wanted)
        try:
            output = HeadAndTail(KEPT_BYTES)
            in_time = _read(command, output, Deadline.after(min(seconds, deadline.left)))
        finally:
            command.end()
            with self._lock:
                self._running.discard(command)
        if not in_time:
            return ServerAnswer(output.text(text("tools.command_timed_out", seconds=seconds)), is_error=True)
        return ServerAnswer(output.text(text("tools.exit_status", status=command.guard.returncode)))

    def _start(self, wanted: str) -> GuardedProcess:
        with self._lock:
            if self._closed:
                raise ToolFailed("closed", tool="shell_run")
            try:
                command = start_guarded(
                    ["/bin/sh", "-c", wanted],
                    cwd=self._folder,
                    env={name: os.environ[name] for name in INHERITED if name in os.environ},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                )
            except OSError as error:
                raise ToolFailed("io", path=self._folder, detail=error.strerror or str(error)) from error
            self._running.add(command)
            return command


class HeadAndTail:
    """Bytes that go by, of which the first and the last are kept."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, block: bytes) -> None:
        room = self._kept - len(self._head)
        self._head += block[:room]
        self._tail += block[room:]
        if len(self._tail) > 2 * self._kept:
            self._trim()

    def _trim(self) -> None:
        over = len(self._tail) - self._kept
        if over > 0:
            self._dropped += over
            del self._tail[:over]

    def text(self, last_line: str) -> str:
        """What was kept, the gap between named, and one line more."""
        self._trim()
        gap = f"\n{text('tools.bytes_dropped', size=self._dropped)}\n" if self._dropped else ""
        body = (self._head.decode(errors="replace") + gap + self._tail.decode(errors="replace")).rstrip("\n")
        return f"{body}\n{last_line}" if body else last_line


def _read(command: GuardedProcess, output: HeadAndTail, deadline: Deadline) -> bool:
    """Until the shell has ended or the time is up; a child of it that holds the output open is not waited for."""
    stdout = command.guard.stdout
    assert stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(stdout, selectors.EVENT_READ)
        while deadline.left:
            ready = selector.select(min(deadline.left, _TICK))
            if ready:
                block = os.read(stdout.fileno(), _BLOCK)
                if not block:
                    return command.ends_within(deadline.left)
                output.add(block)
            elif command.guard.poll() is not None:
                return True
    return False
