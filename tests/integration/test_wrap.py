"""``orihon wrap`` with real processes: one proxy for all wraps of a base, and it ends with them, however they end."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest
from orihon.proxy.running import ProxyPlace
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from tests.damage import settings_for

ORIHON = Path(sys.executable).with_name("orihon")
PROGRAM = Path(__file__).with_name("wrapped_program.py")
_PATIENCE = 120.0


def _answer(request: ScriptedRequest) -> Reply:
    return Reply(f"answer {len(request.body['messages'])}")


class Wraps:
    """A base, a provider behind it, and wraps that were started before them."""

    def __init__(self, folder: Path, model: ScriptedModel) -> None:
        self.model = model
        self.base = folder / "contexts"
        self.home, self.cwd = folder / "home", folder / "cwd"
        self.home.mkdir()
        self.cwd.mkdir()
        self.place = ProxyPlace(self.base)
        self.started: list[subprocess.Popen[str]] = []

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        return {
            **kept,
            "HOME": str(self.home),
            "ORIHON_LANG": "en",
            "http_proxy": "http://127.0.0.1:9",  # of the network; nobody asks it for this machine
            "ORIHON_PROXY__LINGER_SECONDS": "1",
            "OPENAI_BASE_URL": f"{self.model.base_url}/v1",
        }

    def start(self, *steps: object, before: tuple[str, ...] = (), **more: Any) -> subprocess.Popen[str]:
        """A wrap around our program."""
        command = [str(ORIHON), "--base-dir", str(self.base), "wrap", *before, "--", sys.executable, str(PROGRAM)]
        options: dict[str, Any] = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "env": self.environment,
            "cwd": self.cwd,
            **more,
        }
        process = subprocess.Popen([*command, *map(str, steps)], text=True, **options)
        self.started.append(process)
        return process

    def run(self, *steps: object, before: tuple[str, ...] = (), given: str = "") -> tuple[int, list[str], str]:
        process = self.start(*steps, before=before)
        out, err = process.communicate(given, timeout=_PATIENCE)
        return process.returncode, out.splitlines(), err

    def wait_for_end(self) -> None:
        """The proxy ends by itself."""
        until(lambda: not self.place.is_alive())

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.kill()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with suppress(OSError):
                        stream.close()
            process.wait()
        if (left := self.place.running()) is not None:
            with suppress(ProcessLookupError):
                os.kill(left.pid, signal.SIGTERM)
            self.wait_for_end()


@pytest.fixture
def wraps(tmp_path: Path) -> Iterator[Wraps]:
    with ScriptedModel(_answer) as model:
        made = Wraps(tmp_path, model)
        try:
            yield made
        finally:
            made.end()


def until(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _PATIENCE
    while not is_so():
        assert time.monotonic() < give_up
        time.sleep(0.05)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: subprocess.Popen[str], said: str = "") -> None:
    assert process.stdin is not None
    process.stdin.write(f"{said}\n")
    process.stdin.flush()


def test_a_program_runs_as_ever_and_its_conversation_is_kept(wraps: Wraps) -> None:
    steps = ("ask", "one", *("ask", "many words " * 300) * 9, "read", "exit", 7)
    status, out, err = wraps.run(*steps, before=("--json", "--window", "3000"), given="typed\n")
    assert status == 7, err
    assert [out[0], out[-1], len(out)] == ["answer 1", "typed", 11]
    assert [request.path for request in wraps.model.requests if request.body] == ["/v1/chat/completions"] * 10
    report = json.loads(err)
    assert report["status"] == 7
    (task,) = report["conversations"]
    assert (task["messages"], task["calls"], task["title"]) == (20, 10, "one")
    assert report["folds"] == task["folds"] > 0
    assert report["saved_tokens"] == task["saved_tokens"] > 1000
    assert list(wraps.home.iterdir()) == list(wraps.cwd.iterdir()) == []
    wraps.wait_for_end()
    row = OpenBase(wraps.base, settings_for("files")).needed_catalogue().tasks.get(task["task"])
    assert row.status is TaskStatus.PAUSED
    assert sorted(path.name for path in wraps.place.folder.iterdir()) == ["alive", "lock", "proxy.log"]
    assert (wraps.place.folder / "proxy.log").read_text() == ""


def test_wraps_share_a_proxy_and_one_that_is_killed_leaves_its_program_none_the_worse(wraps: Wraps) -> None:
    steps = ("pid", "env", "OPENAI_BASE_URL", "ask", "hello", "read", "ask", "again")
    both = [wraps.start(*steps), wraps.start(*steps)]
    pids, addresses = zip(*((int(line(one)), line(one)) for one in both), strict=True)
    ports = {address.split("/")[2] for address in addresses}
    assert len(ports) == 1
    assert addresses[0] != addresses[1], "each has a session of its own"
    assert [line(one) for one in both] == ["answer 1"] * 2
    proxy = wraps.place.running()
    assert proxy is not None
    assert proxy.token
    _nobody_reads(proxy.token)
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"http://127.0.0.1:{proxy.port}/v1/models").status_code == 401
    both[0].kill()
    both[0].wait()
    say(both[1], "go on")
    assert [line(both[1]), line(both[1])] == ["go on", "answer 3"]
    assert both[1].wait(_PATIENCE) == 0
    time.sleep(3)  # longer than it lingers
    assert wraps.place.running() == proxy, "the program of the killed wrap needs it"
    say(both[0], "go on")
    assert [line(both[0]), line(both[0])] == ["go on", "answer 3"]
    wraps.wait_for_end()
    until(lambda: not Path(f"/proc/{pids[0]}").exists())


def _nobody_reads(secret: str) -> None:
    """Arguments are for everybody."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            assert secret.encode() not in path.read_bytes()


def test_a_proxy_that_is_killed_is_started_again_under_the_program(wraps: Wraps) -> None:
    process = wraps.start("ask", "one", "read", "ask", "two")
    assert line(process) == "answer 1"
    before = wraps.place.running()
    assert before is not None
    os.kill(before.pid, signal.SIGKILL)
    say(process, "go on")
    assert [line(process), line(process)] == ["go on", "answer 3"]
    after = wraps.place.running()
    assert after is not None
    assert (after.port, after.token) == (before.port, before.token)
    assert after.pid != before.pid
    _, err = process.communicate(timeout=_PATIENCE)
    assert process.returncode == 0
    assert "has ended; it is started again" in err
    assert f"back at port {before.port}" in err
    assert "conversations: 1; messages kept: 4; folds: 0" in err


def test_where_the_proxy_cannot_come_back_it_is_said_what_to_do(wraps: Wraps) -> None:
    process = wraps.start("ask", "one", "read")
    assert line(process) == "answer 1"
    proxy = wraps.place.running()
    assert proxy is not None
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with wraps.place.locked():  # nobody starts it meanwhile
            os.kill(proxy.pid, signal.SIGKILL)
            until(lambda: not wraps.place.is_alive())
            other.bind(("127.0.0.1", proxy.port))
            other.listen()
        assert process.stderr is not None
        assert "has ended" in process.stderr.readline()
        assert f"orihon --base-dir {wraps.base} proxy --port {proxy.port}" in process.stderr.readline()
    say(process)
    assert process.wait(_PATIENCE) == 0


def test_signals_and_the_way_a_program_ends_are_passed_on(wraps: Wraps) -> None:
    numbers = (signal.SIGUSR1, signal.SIGINT, signal.SIGHUP, signal.SIGWINCH, signal.SIGTERM)
    process = wraps.start("signals", len(numbers), "die", signal.SIGTERM.value)
    assert line(process) == "ready"
    for number in numbers:
        process.send_signal(number)
        time.sleep(0.05)
    out, err = process.communicate(timeout=_PATIENCE)
    assert sorted(map(int, out.split())) == sorted(numbers)
    assert process.returncode == -signal.SIGTERM
    assert "No request came through the proxy" in err


def test_a_key_of_the_terminal_reaches_the_program_once(wraps: Wraps) -> None:
    with _terminal() as (ours, theirs):
        process = wraps.start(
            "signals",
            1,
            "exit",
            3,
            before=("-q",),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_takes_terminal,
        )
        os.close(theirs)
        shown = b""
        while b"ready" not in shown:
            shown += os.read(ours, 1000)
        os.write(ours, b"\x03")
        assert process.wait(_PATIENCE) == 3
        with suppress(OSError):  # the other side is closed
            while piece := os.read(ours, 1000):
                shown += piece
    assert shown.split()[1:] in ([b"^C2"], [b"^C", b"2"])


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)


def _takes_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_proxy_that_was_started_by_hand_is_used_and_left_alone(wraps: Wraps, tmp_path: Path) -> None:
    command = [str(ORIHON), "--base-dir", str(wraps.base), "proxy", "--port", "0", "--json", "--window", "50000"]
    by_hand = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=wraps.environment)
    wraps.started.append(by_hand)
    until(lambda: wraps.place.running() is not None)
    found = wraps.place.running()
    assert found is not None
    status, out, err = wraps.run("env", "OPENAI_BASE_URL", "ask", "one")
    assert (status, out[1]) == (0, "answer 1"), err
    assert out[0].startswith(f"http://127.0.0.1:{found.port}/w/")
    status, _, err = wraps.run("ask", "one", before=("--window", "9000"))
    assert status == 2
    assert "in use with another window (50000)" in err
    # Of another base: neither nested, nor is a proxy started.
    wraps.place = ProxyPlace(tmp_path / "other")
    command = [str(ORIHON), "--base-dir", str(tmp_path / "other"), "wrap", "--", "env"]
    address = f"http://127.0.0.1:{found.port}/to/{wraps.model.base_url}/v1"
    environment = {**wraps.environment, "OPENAI_BASE_URL": address}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert ended.returncode == 0
    assert f"OPENAI_BASE_URL={address}\n" in ended.stdout
    assert "another base already" in ended.stderr
    assert not (tmp_path / "other").exists()
    time.sleep(2)  # longer than one for wraps would linger
    assert by_hand.poll() is None
    wraps.place = ProxyPlace(wraps.base)


def test_what_is_not_installed_is_said_before_anything_is_started(wraps: Wraps) -> None:
    command = [str(ORIHON), "--base-dir", str(wraps.base), "wrap", "codex", "--", "exec"]
    environment = {**wraps.environment, "PATH": str(wraps.cwd)}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert ended.returncode == 2
    assert "codex is not installed" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not wraps.base.exists()
