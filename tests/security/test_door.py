"""The door of the servers: silence, slowness and crowds on real sockets, and everybody else is served.

The findings M7 (slow requests live for ever) and M8 (a stranger's wrong tokens bar the right one) of the review, and
what is of the same kind. Nothing here measures time: a server that does not close what it should fails by patience.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from orihon import TaskContextManager, TaskKey, new_grant, revoke_grant
from orihon.reports.metrics import MetricsServer
from orihon.settings import Settings, load_settings
from orihon.system.crowd import Crowd, peer_of
from orihon.tasks.base import OpenBase
from orihon.tasks.grants import PREFIX
from orihon.web import access, events
from tests.acceptance.test_cli import ORIHON, environment
from tests.acceptance.test_serve import made_certificate
from tests.damage import start_task
from tests.helpers import Child
from tests.serving import Client, serving
from tests.serving_command import Served, serve

PATIENCE = 240.0
#: For what is promised within 3 seconds: no machine stands still for so long.
PROMPT = 60.0
EXPORT = "/tasks/large-1/export?format=jsonl"
SETTINGS = load_settings({}, environ={})
#: So long that only a limit of another kind can close a connection.
FOR_EVER: dict[str, Any] = {f"ORIHON_WEB__{name}_SECONDS": "3600" for name in ("HEADER", "BODY", "IDLE", "WRITE")}
SOON: dict[str, Any] = dict.fromkeys(FOR_EVER, "1")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("door") / "contexts"
    start_task(folder, SETTINGS, uuid="done-1").complete()
    return folder


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A task whose export is far larger than what lies in the buffers of a connection."""
    folder = tmp_path_factory.mktemp("large") / "contexts"
    settings = load_settings({"masking": {"enabled": False}}, environ={})
    key = TaskKey("github", "team", "repo", "issue", "1", "ann")
    task = TaskContextManager(folder, key, settings, uuid="large-1", inherit=False)
    for number in range(32):
        task.message_store.add_message("user", f"{number} some words " * 50_000)
    task.stop()
    return folder


def line_to(port: int, *said: bytes) -> socket.socket:
    """A connection on which something was said."""
    line = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    with suppress(ConnectionError):  # it may have had to go already
        for one in said:
            line.sendall(one)
    return line


def heard(line: socket.socket, patience: float = PATIENCE) -> bytes:
    """Everything until the other side closes; it must, some day."""
    found = b""
    line.settimeout(patience)
    try:
        while piece := line.recv(1 << 16):
            found += piece
    except TimeoutError:
        pytest.fail(f"still open after {patience:.0f} silent seconds; heard until then: {found[-200:]!r}")
    except ConnectionError:
        pass
    return found


def talk_on(line: socket.socket) -> None:
    """One header after another, until the other side has had enough."""
    line.settimeout(0.1)
    with pytest.raises(ConnectionError):
        for number in range(int(PATIENCE * 10)):
            with suppress(TimeoutError):
                if not line.recv(100):
                    raise ConnectionError
            line.sendall(f"X-{number}: x\r\n".encode())


def wait_until_cut(line: socket.socket, patience: float = PATIENCE) -> None:
    """Without reading anything: until the connection is gone."""
    poll = select.poll()
    poll.register(line, select.POLLHUP | select.POLLERR)
    assert poll.poll(patience * 1000), f"still open after {patience:.0f} seconds"


def head(port: int, path: str, token: str = "", method: str = "GET") -> bytes:
    bearer = f"Authorization: Bearer {token}\r\n" if token else ""
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{bearer}".encode()


def descriptors(served: Served) -> int:
    return sum(1 for _ in Path(f"/proc/{served.pid}/fd").iterdir())


def is_served(served: Served) -> bool:
    """A person with a token, and one who has yet to show it."""
    page = httpx.get(served.address, headers=served.bearer, timeout=PATIENCE).status_code
    return page == 200 and httpx.get(f"{served.address}login", timeout=PATIENCE).status_code == 200


KINDS: dict[str, Callable[[int], tuple[bytes, ...]]] = {
    "nothing": lambda port: (),
    "half a head": lambda port: (head(port, "/"),),
    "byte by byte": lambda port: (b"G", b"E"),
    "half a body": lambda port: (head(port, "/login", method="POST") + b"Content-Length: 100\r\n\r\ntoken",),
    "half a chunk": lambda port: (head(port, "/login", method="POST") + b"Transfer-Encoding: chunked\r\n\r\n5\r\nto",),
    "a body that nobody wants": lambda port: (head(port, "/", method="POST") + b"Content-Length: 1000000\r\n\r\nx",),
    "at rest": lambda port: (head(port, "/login") + b"\r\n",),
}


# ---- M7: half-sent requests ------------------------------------------------------------------------------------------


def test_a_thousand_half_requests_keep_nobody_out_and_take_no_more_room_than_there_is(base: Path) -> None:
    """M7."""
    with serve(base, **FOR_EVER, ORIHON_WEB__MAX_CONNECTIONS="50") as served, ExitStack() as open_lines:
        for number in range(1000):
            said = list(KINDS.values())[number % len(KINDS)](served.port)
            open_lines.enter_context(line_to(served.port, *said))
            if number % 100 == 99:
                assert is_served(served)
                assert descriptors(served) < 50 + 50
        assert served.problems() == ""


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_never_finished_is_closed(kind: str, base: Path) -> None:
    """M7."""
    with serve(base, **SOON) as served, line_to(served.port, *KINDS[kind](served.port)) as line:
        heard(line)
        assert is_served(served)


def test_slow_bytes_do_not_begin_the_time_anew(base: Path) -> None:
    """M7: a header every now and then."""
    limits = {**FOR_EVER, "ORIHON_WEB__HEADER_SECONDS": "1"}
    with serve(base, **limits) as served, line_to(served.port, head(served.port, "/")) as line:
        talk_on(line)


def test_with_few_descriptors_visitors_get_in_and_the_log_stays_quiet(base: Path) -> None:
    """M7: ``ulimit -n 128``, and 200 half heads."""
    command = f'ulimit -n 128 && exec "{ORIHON}" --base-dir "{base}" serve --port 0 --json'
    with (
        Child(
            ["sh", "-c", command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment("en"),
            text=True,
        ) as process,
        ExitStack() as open_lines,
    ):
        assert process.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += process.stdout.readline()
        told = json.loads(said)
        port = int(told["address"].rstrip("/").rpartition(":")[2])
        for _ in range(200):
            open_lines.enter_context(line_to(port, head(port, "/")))
        bearer = {"Authorization": f"Bearer {told['token']}"}
        for _ in range(3):
            assert httpx.get(told["address"], headers=bearer, timeout=PATIENCE).status_code == 200
        process.terminate()
        _, problems = process.communicate(timeout=PATIENCE)
        assert problems == ""


def test_half_a_handshake_keeps_nobody_out(base: Path, tmp_path: Path) -> None:
    """M7 where there is TLS."""
    certificate, key = made_certificate(tmp_path)
    tls = ("--tls-cert", str(certificate), "--tls-key", str(key))
    trusting = ssl.create_default_context(cafile=str(certificate))

    def asked(served: Served) -> int:
        return httpx.get(served.address, headers=served.bearer, verify=trusting, timeout=PATIENCE).status_code

    hello = b"\x16\x03\x01\x02\x00\x01"
    with serve(base, *tls, **FOR_EVER, ORIHON_WEB__MAX_CONNECTIONS="20") as served, ExitStack() as open_lines:
        for number in range(200):
            open_lines.enter_context(line_to(served.port, *((hello,) if number % 2 else ())))
        assert asked(served) == 200
        assert descriptors(served) < 20 + 50
        assert served.problems() == ""
    with serve(base, *tls, **SOON) as served, line_to(served.port, hello) as line:
        heard(line)
        assert asked(served) == 200
        assert served.problems() == ""


def test_a_page_that_listens_stays_though_strangers_come_and_go(base: Path) -> None:
    """M7: who was let in and is being answered has no silence to answer for."""
    with serve(base, **SOON, ORIHON_WEB__MAX_CONNECTIONS="20") as served, served.listening("/events") as listening:
        for _ in range(10):
            with ExitStack() as open_lines:
                for _ in range(20):
                    open_lines.enter_context(line_to(served.port, head(served.port, "/")))
        with line_to(served.port, head(served.port, "/")) as late:
            heard(late)  # longer than any of the limits
        start_task(base, SETTINGS, uuid=f"new-{os.getpid()}").complete()
        said = b""
        while b"event: change" not in said:
            piece = listening.recv(1 << 16)
            assert piece
            said += piece


@dataclass(eq=False)
class Waiting:
    """A guest who says nothing."""

    peer: str
    rank: int | None = 0
    is_gone: bool = False

    def end(self) -> None:
        self.is_gone = True


def test_one_peer_has_a_part_of_the_room_and_this_machine_all_of_it() -> None:
    """M7: the limit for each peer."""
    crowd = Crowd(6, 3)
    served = Waiting("192.0.2.1", rank=None)
    others = [Waiting("192.0.2.1") for _ in range(5)]
    assert all(crowd.admit(one) for one in (served, *others))
    assert [one.is_gone for one in (served, *others)] == [False, True, True, True, False, False]
    own = [Waiting(peer_of("127.0.0.1")) for _ in range(9)]
    assert all(crowd.admit(one) for one in own)
    # Of those who wait the oldest one of the peer that has most.
    assert [one.is_gone for one in own] == [True] * 5 + [False] * 4
    assert [one.is_gone for one in (served, *others)] == [False, True, True, True, True, False]
    assert len(crowd.all()) == 6
    for one in crowd.all():
        crowd.leave(one)
    busy = [Waiting(f"192.0.2.{number}", rank=None) for number in range(6)]
    assert all(crowd.admit(one) for one in busy)
    assert not crowd.admit(Waiting("192.0.2.99"))
    assert not any(one.is_gone for one in busy)


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        *(("127.0.0.1", ""), ("127.9.9.9", ""), ("::1", ""), ("::ffff:127.0.0.1", ""), ("192.0.2.7", "192.0.2.7")),
        *(("::ffff:192.0.2.7", "192.0.2.7"), ("2001:db8::1:2:3:4", "2001:db8::/64"), ("fe80::1%eth0", "fe80::/64")),
    ],
)
def test_whose_a_connection_is(host: str, peer: str) -> None:
    """M7: a network of IPv6 has more addresses than any table."""
    assert peer_of(host) == peer


# ---- slow readers ----------------------------------------------------------------------------------------------------


def reading_nothing(port: int, path: str, token: str) -> socket.socket:
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(PATIENCE)
    line.connect(("127.0.0.1", port))
    line.sendall(head(port, path, token) + b"\r\n")
    return line


def test_a_reader_who_does_not_read_is_let_go(large: Path) -> None:
    with serve(large, **SOON) as served:
        with reading_nothing(served.port, EXPORT, served.token) as line:
            wait_until_cut(line)
        assert is_served(served)


def test_slow_downloads_of_one_user_hold_up_nobody(large: Path) -> None:
    """Each one has a thread, and there are forty."""
    made = new_grant(large, SETTINGS, user="ann", role="read")
    with serve(large, **FOR_EVER) as served, ExitStack() as open_lines:
        lines = [reading_nothing(served.port, EXPORT, made.token) for _ in range(60)]
        for line in lines:
            open_lines.enter_context(line)
        refused = lines[-1].recv(12)
        assert is_served(served)
        assert refused == b"HTTP/1.1 429"
        with httpx.stream("GET", f"{served.address[:-1]}{EXPORT}", headers=served.bearer) as answer:
            assert answer.status_code == 200


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_ten_thousand_streams_are_a_few_and_none_of_somebody_elses(base: Path) -> None:
    made = new_grant(base, SETTINGS, user="ann", role="read")
    with serve(base, ORIHON_WEB__MAX_STREAMS_PER_USER="3") as served, ExitStack() as open_lines:
        other = open_lines.enter_context(served.listening("/events"))
        lines = [line_to(served.port, head(served.port, "/events", made.token) + b"\r\n") for _ in range(12)]
        for line in lines:
            open_lines.enter_context(line)
        served.wait_for(lambda: sum(_is_over(line) for line in lines) == 9)
        assert is_served(served)
        assert not _is_over(other)


def _is_over(line: socket.socket) -> bool:
    """Has the other side said the last word?"""
    line.setblocking(False)
    try:
        said = line.recv(1 << 20, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return not said or said.endswith(b"0\r\n\r\n")


@contextmanager
def served_here(base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Where nothing is said and nothing changes for so long that only the look at the grants can end a stream."""
    monkeypatch.setattr(events, "_SECONDS_BETWEEN_SIGNS", 3600.0)
    settings = load_settings({"web": {"write_seconds": 3600, "idle_seconds": 1}}, environ={})
    with serving(base, settings) as server:
        yield server


@pytest.mark.parametrize("way", ["revoked", "expired", "logged out"])
@pytest.mark.parametrize("path", ["/events", "/tasks/large-1/events"])
def test_a_silent_stream_ends_with_the_grant(path: str, way: str, large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver 7: within 3 seconds; it took 15, for it was looked at with the next sign of life."""
    made = new_grant(large, SETTINGS, user="ann", role="read", days=100)
    with served_here(large, monkeypatch) as server:
        client = Client(server, token=made.token)
        asked = head(server.port, path, made.token) + b"\r\n"
        if way == "logged out":
            client.log_in()
            asked = head(server.port, path) + f"Cookie: {client.cookie}\r\n\r\n".encode()
        with line_to(server.port, asked) as line:
            assert line.recv(12) == b"HTTP/1.1 200"
            if way == "revoked":
                revoke_grant(large, SETTINGS, made.grant.id)
            elif way == "expired":
                monkeypatch.setattr(access, "utc_now", lambda: "2999-01-01T00:00:00.000000+00:00")
            else:
                assert client.change("/logout").status == 200
            assert heard(line, PROMPT).endswith(b"0\r\n\r\n")


def test_a_download_ends_with_the_grant(large: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deliver 7: half a file is never taken for the whole, and the rest of it does not come."""
    made = new_grant(large, SETTINGS, user="ann", role="read")
    with served_here(large, monkeypatch) as server, reading_nothing(server.port, EXPORT, made.token) as line:
        assert line.recv(12) == b"HTTP/1.1 200"
        revoke_grant(large, SETTINGS, made.grant.id)
        wait_until_cut(line, PROMPT)
        assert not heard(line).endswith(b"0\r\n\r\n")


# ---- M8: wrong tokens ------------------------------------------------------------------------------------------------


def test_no_number_of_wrong_tokens_bars_a_right_one(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """M8: the server's own, one of a grant that was never shown, and both at the login page."""
    monkeypatch.setattr(access, "FAILURE_SECONDS", 3600.0)
    made = new_grant(base, SETTINGS, user="ann", role="read")
    with serving(base, SETTINGS) as server:
        own, ann = Client(server), Client(server, token=made.token)
        for number in range(30):
            Client(server, token=f"wrong{number}").as_program("GET", "/api/tasks")
            Client(server, token=f"{PREFIX}{number:043}").as_program("GET", "/api/tasks")
            own.ask("POST", "/login", f"token=wrong{number}")
        assert Client(server, token="wrong").as_program("GET", "/api/tasks").status == 429
        assert own.ask("POST", "/login", "token=wrong").status == 429
        for right in (own, ann):
            assert right.as_program("GET", "/api/tasks").status == 200
            assert right.log_in().ask("GET", "/").status == 200


def test_wrong_tokens_are_counted_for_those_who_show_them_and_in_bounded_room() -> None:
    """M8."""
    found = access.Failures()
    for number in range(5000):
        found.note(f"192.0.2.{number}")
    for _ in range(access.MOST_FAILURES + 5):
        found.note("198.51.100.1")
    assert found.seconds_to_wait("198.51.100.1") > 0
    assert found.seconds_to_wait("198.51.100.2") == 0
    assert len(found._times) <= 1000


# ---- odd requests ----------------------------------------------------------------------------------------------------


def test_odd_requests_are_answered_or_closed_and_nothing_is_logged(base: Path) -> None:
    with serve(base, **SOON) as served:
        port, token = served.port, served.token
        whole = head(port, "/api/health", token)
        for said, statuses in {
            b"GET / HTTP/1.0\r\n\r\n": [403],
            whole + b"\r\n" + whole + b"\r\n" + whole + b"\r\n": [200, 200, 200],
            whole + b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n": [200],
            whole + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n": [200],
            whole + b"Range: bytes=0-1,1-2,3-4\r\n\r\n": [200],
            whole + b"".join(b"X-%d: x\r\n" % number for number in range(2000)) + b"\r\n": [400],
            head(port, "/api/tasks?" + "a&" * 20_000, token) + b"\r\n": [400],
            head(port, "/" + "x" * 70_000, token) + b"\r\n": [400],
            b"CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n": [403],
            b"\x00\xff\xfe\r\n\r\n": [400],
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": [403, 400],
            head(port, "/login", method="POST") + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n": [400],
            head(port, "/login", method="POST") + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n": [400],
            # The answer is there before the body, which then turns out to be none.
            head(port, "/", method="POST") + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nno chunk\r\n": [401],
        }.items():
            with line_to(port, said) as line:
                answers = heard(line)
            found = [int(one[:3]) for one in answers.split(b"HTTP/1.1 ")[1:]]
            assert found in (statuses, [400]), (said[:100], answers[:300])
        with line_to(port, head(port, "/", method="POST") + b"Transfer-Encoding: chunked\r\n\r\n") as line:
            assert line.recv(12) == b"HTTP/1.1 401"
            line.sendall(b"no chunk\r\n")
            heard(line)
        packed = {**served.bearer, "content-type": "application/json", "content-encoding": "gzip"}
        zipped = bytes.fromhex("1f8b0800000000000003") + b"x" * 100
        answer = httpx.post(f"{served.address}api/tasks/done-1/pause", content=zipped, headers=packed, timeout=PATIENCE)
        assert answer.status_code == 400
        assert is_served(served)
        assert served.problems() == ""


# ---- the metrics -----------------------------------------------------------------------------------------------------


@contextmanager
def metrics(base: Path, **web: float) -> Iterator[int]:
    chosen: Settings = load_settings({"web": web}, environ={})
    with MetricsServer(base, chosen) as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield int(server.address.rpartition(":")[2].partition("/")[0])
        finally:
            server.close()
            thread.join()


def scraped(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with suppress(ConnectionError):
        connection.request("GET", "/metrics")
        return connection.getresponse().status
    return 0


def test_the_metrics_are_served_though_a_thousand_ask_and_never_finish(base: Path) -> None:
    """M7, the same for all that listens."""
    with metrics(base, header_seconds=3600, max_connections=20) as port, ExitStack() as open_lines:
        for number in range(1000):
            said = (b"GET /metrics HTTP/1.1\r\n",) if number % 2 else ()
            open_lines.enter_context(line_to(port, *said))
        assert scraped(port) == 200
        assert threading.active_count() < 20 + 30
    with metrics(base, header_seconds=1) as port, line_to(port, b"GET /metrics HTTP/1.1\r\n") as line:
        talk_on(line)
        assert scraped(port) == 200


def test_requests_that_are_none_leave_nothing_in_the_log_of_the_metrics(
    base: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with metrics(base, header_seconds=1) as port:
        for said in (
            b"GET /" + b"x" * 70_000,
            b"\x00\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"\x16\x03\x01" + b"x" * 600,
        ):
            with line_to(port, said) as line:
                heard(line)
        assert scraped(port) == 200
    assert capfd.readouterr().err == ""


def test_sessions_that_were_left_are_bounded_and_stay_left(base: Path) -> None:
    """Who logs in and out without end fills no memory, ends no session of others, and no left one comes back."""
    left = access.LeftSessions()
    for number in range(5000):
        left.add("ann", f"s{number}", 1000.0 + number)
    assert len(left) <= access._MOST_KEPT
    assert all(left.has("ann", f"s{number}", 1000.0 + number) for number in range(5000))
    assert not left.has("ann", "new", 6000.0)
    assert not left.has("bob", "old", 1000.0)
    with OpenBase(base, SETTINGS) as opened:
        door = access.open_access(base, granted=access.Granted(opened))
        made = new_grant(base, SETTINGS, user="ann", role="read")
        visitor = door.by_token(made.token, "")
        assert visitor is not None
        first, second = door.new_session(visitor), door.new_session(visitor)
        session = door.by_session(first)
        assert session is not None
        door.leave(session)
        assert not door.is_still_in(session)
        assert [door.by_session(first), door.by_session(second) is None] == [None, False]
