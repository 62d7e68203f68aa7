"""Who is let in by the web server and who is not: names, tokens, cookies, marks, requests that no browser sends."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.errors import DamagedStore, InvalidInput, StorageUnavailable
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from orihon.transfer.backup import backup
from orihon.web import access
from orihon.web.call import Call, Page, PageRoute
from orihon.web.fields import Field
from orihon.web.routes import PAGES
from orihon.web.server import Listening, WebServer
from tests.damage import start_task
from tests.helpers import refused
from tests.serving import Client, serving

SETTINGS = load_settings({}, environ={})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    base = tmp_path_factory.mktemp("gate") / "contexts"
    start_task(base, SETTINGS, uuid="done-1").complete()
    with serving(base, SETTINGS) as started:
        yield started


@pytest.fixture
def stranger(server: WebServer) -> Client:
    return Client(server)


@pytest.fixture
def reader(server: WebServer) -> Client:
    return Client(server).log_in()


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1.:{port}", "localhost:1", "0.0.0.0:{port}"),
        *(
            "127.0.0.1:{port}@evil.example",
            "evil.example#127.0.0.1:{port}",
            "[::ffff:127.0.0.1]:{port}",
            "127.1:{port}",
        ),
        *(" ", "127.0.0.1:{port}.evil.example", "2130706433:{port}", "127.0.0.1:0{port}"),
    ],
)
def test_only_our_names_are_answered_to(host: str, reader: Client) -> None:
    asked = host.format(port=reader.server.port)
    assert reader.ask("GET", "/", headers={"Host": asked}).status in (400, 403)
    assert reader.ask("GET", "/login", headers={"Host": asked}).status in (400, 403)


@pytest.mark.parametrize("host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}"])
def test_every_name_of_this_machine_is_ours(host: str, reader: Client) -> None:
    asked = host.format(port=reader.server.port)
    assert reader.ask("GET", "/", headers={"Host": asked}).status == 200
    assert reader.ask("GET", "/", headers={"Host": asked, "Origin": f"http://{asked}"}).status == 200


def test_no_host_and_two_hosts_are_refused(reader: Client) -> None:
    own = f"127.0.0.1:{reader.server.port}"
    assert reader.ask("GET", "/", headers={"Host": ""}).status == 400
    assert reader.ask("GET", "/", more=(("Host", "evil.example"),)).status in (400, 403)
    with socket.create_connection(("127.0.0.1", reader.server.port), timeout=60) as line:
        line.sendall(f"GET / HTTP/1.0\r\nCookie: {reader.cookie}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 403")
    with socket.create_connection(("127.0.0.1", reader.server.port), timeout=60) as line:
        line.sendall(f"GET http://evil.example/ HTTP/1.1\r\nHost: {own}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "https://127.0.0.1:{port}",
        "http://127.0.0.1",
        "http://127.0.0.1:{port}.evil.example",
    ],
)
def test_pages_from_elsewhere_get_nothing(origin: str, reader: Client) -> None:
    said = {"Origin": origin.format(port=reader.server.port), "x-csrf-token": reader.mark}
    assert reader.ask("GET", "/", headers=said).status == 403
    assert reader.ask("POST", "/logout", {}, said).status == 403
    both = ((("Origin", reader.origin)), ("Origin", said["Origin"]))
    assert reader.ask("GET", "/", more=both).status == 403
    for site in ("cross-site", "same-site"):
        crossed = {"sec-fetch-site": site, "x-csrf-token": reader.mark}
        assert reader.ask("POST", "/logout", {}, crossed).status == 403


def test_no_answer_allows_another_site_to_read_it(reader: Client, stranger: Client) -> None:
    for answer in (reader.ask("GET", "/"), reader.ask("GET", "/events"), stranger.ask("GET", "/")):
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
    preflight = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    assert stranger.ask("OPTIONS", "/logout", headers=preflight).status == 403


def test_every_answer_has_the_strict_headers(reader: Client, stranger: Client) -> None:
    nonces = set()
    for answer in (reader.ask("GET", "/"), reader.ask("GET", "/nowhere"), stranger.ask("GET", "/login")):
        rules = dict(rule.strip().split(" ", 1) for rule in answer.headers["content-security-policy"].split(";"))
        nonce = rules["script-src"]
        assert re.fullmatch(r"'nonce-[A-Za-z0-9_-]{22}'", nonce)
        nonces.add(nonce)
        assert rules == {
            "default-src": "'none'",
            "script-src": nonce,
            "style-src": nonce,
            "img-src": "'self' data:",
            "connect-src": "'self'",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert "style=" not in answer.text
        assert " on" not in " ".join(re.findall(r"<[^>]*?\s(on[a-z]+)=", answer.text))
    assert len(nonces) == 3


def test_the_session_is_a_cookie_that_scripts_and_other_sites_do_not_get(stranger: Client) -> None:
    answer = stranger.ask("POST", "/login", f"token={stranger.server.token}")
    assert answer.status == 303
    assert answer.headers["location"] == "/"
    name, *rules = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"orihon_session_{stranger.server.port}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(rules)
    assert stranger.server.token not in name


@pytest.mark.parametrize("tail", ["", "x", "."])
def test_a_cookie_that_was_touched_is_none(tail: str, reader: Client) -> None:
    name, _, value = reader.cookie.partition("=")
    until, session, mark = value.split(".")
    for touched in (
        *(f"{int(until) + 1}.{session}.{mark}", f"{until}.{session[:-1]}{'A' if session[-1] != 'A' else 'B'}.{mark}"),
        *(f"{until}.{session}.{mark[::-1]}", f"{value}{tail or 'y'}", "", "0.a.b", "٣" * 10 + f".{session}.{mark}"),
    ):
        said = {"Cookie": f"{name}={touched}".encode().decode("latin-1")}
        assert reader.ask("GET", "/", headers=said).status == 401


def test_other_servers_cookies_do_not_get_in_the_way(reader: Client) -> None:
    odd = f'theme={{"a": 1}}; =; x; other="a; b\\"; {reader.cookie}; z=[1,2]'
    assert reader.ask("GET", "/", headers={"Cookie": odd}).status == 200


def test_an_old_session_is_over(reader: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    late = time.time() + access.SESSION_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: late)
    assert reader.ask("GET", "/").status == 401


def test_whoever_logs_out_is_out(reader: Client) -> None:
    assert reader.change("/logout").value == {"logged_out": True}
    assert reader.ask("GET", "/").status == 401


def test_marks_of_other_sessions_do_not_count(server: WebServer, reader: Client) -> None:
    other = Client(server).log_in()
    assert other.mark != reader.mark
    for mark in (other.mark, "", "x", reader.mark[:-1], server.token):
        answer = reader.ask("POST", "/logout", {}, {"x-csrf-token": mark})
        assert answer.status == 403
    assert reader.ask("GET", "/").status == 200


def test_a_program_shows_the_token_with_every_request(stranger: Client) -> None:
    assert stranger.as_program("GET", "/").status == 200
    for said in ("Bearer", "Bearer ", "Basic {token}", "{token}", "Bearer {token}x"):
        headers = {"Authorization": said.format(token=stranger.server.token)}
        answer = stranger.ask("GET", "/api/nothing", headers=headers)
        assert (answer.status, answer.reason) == (401, "token")
        assert answer.headers["www-authenticate"] == "Bearer"


def test_guessing_is_stopped_and_does_not_lock_out_who_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "FAILURE_SECONDS", 3600.0)  # no guess is forgotten before the last one is made
    with serving(tmp_path, SETTINGS) as server:
        reader, guesser = Client(server).log_in(), Client(server)
        # What any web page can make a browser send is no guess.
        for _ in range(access.MOST_FAILURES + 1):
            assert guesser.ask("HEAD", "/login").status == 200
            assert guesser.ask("GET", "/").status == 401
        for _ in range(access.MOST_FAILURES):
            assert guesser.ask("POST", "/login", "token=guess").status == 401
        said = {"Authorization": "Bearer guess"}
        for answer in (guesser.ask("POST", "/login", "token=guess"), guesser.ask("GET", "/api/x", headers=said)):
            assert answer.status == 429
            assert 0 < int(answer.headers["retry-after"]) <= access.FAILURE_SECONDS
        assert guesser.ask("POST", "/login", f"token={server.token}").status == 303
        assert reader.ask("GET", "/").status == 200


@pytest.mark.parametrize("body", ["", "token=", "x", "&".join(["token=1"] * 50), "token=%ff%fe\x00", "token[]=1"])
def test_a_login_form_that_makes_no_sense_is_a_wrong_token(body: str, tmp_path: Path) -> None:
    with serving(tmp_path, SETTINGS) as server:
        answer = Client(server).ask("POST", "/login", body)
        assert answer.status == 401
        assert 'name="token"' in answer.text


def test_large_requests_are_refused_early(reader: Client, stranger: Client) -> None:
    assert stranger.ask("POST", "/login", b"token=" + b"x" * 5000).status == 413
    with socket.create_connection(("127.0.0.1", reader.server.port), timeout=60) as line:
        line.sendall(b"GET / HTTP/1.1\r\nx-long: " + b"x" * 66_000)
        assert line.recv(12) == b"HTTP/1.1 400"
    assert reader.ask("GET", "/", headers={"x-some": "x" * 10_000}).status == 200


def test_heads_and_slashes(reader: Client) -> None:
    for path in ("/", "/events", "/static/base.css", "/login"):
        answer = reader.ask("HEAD", path)
        assert (answer.status, answer.body) == (200, b"")
    assert reader.ask("GET", "/settings/?x=1").headers["location"] == "/settings?x=1"
    for path in ("//evil.example/", "/%2Fevil.example/", "/%5Cevil.example/", "///evil.example//"):
        answer = reader.ask("GET", path)
        assert answer.status == 308
        assert re.fullmatch(r"/[^/\\]*", answer.headers["location"])


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/static/",
            "/static/../server.py",
            "/static/%2e%2e/server.py",
            "/static/..%2fserver.py",
            "/static//etc/passwd",
        ),
        *(
            "/static/%00",
            "/static/base.css%00",
            "/static/....//base.css",
            "/static/BASE.CSS",
            "/tasks/..%2f..%2fweb.key",
        ),
        *("/tasks/%00", "/tasks/%ff", "/tasks/%ed%a0%80", "/tasks/%F0%9F%92%A5", "/tasks/'%22%3E%3Cscript%3E", "/%"),
        *(
            "/tasks/" + "x" * 2000,
            "/tasks/{{7*7}}",
            "/tasks/..",
            "/tasks/.",
            "/tasks/%E2%80%AE",
            "/tasks/a%0d%0aset-cookie:x",
        ),
        *("/web.key", "/../web.key", "/.well-known/x", "/favicon.ico", "/;/..;/", "/tasks/%3F", "/tasks/%23"),
    ],
)
def test_hostile_addresses_lead_nowhere(path: str, reader: Client) -> None:
    answer = reader.ask("GET", path)
    assert answer.status in (308, 400, 404), answer.text
    assert reader.server.token not in answer.text
    assert "<script>" not in answer.text
    assert "set-cookie" not in answer.headers
    assert "\u202e" not in answer.text


def test_methods_that_nobody_takes(reader: Client) -> None:
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "get", "Q"):
        assert reader.ask(method, "/", headers={"x-csrf-token": reader.mark}).status in (403, 405)
        assert reader.ask(method, "/").status in (403, 405)


def test_a_fault_is_answered_and_logged_without_what_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(call: Call) -> Page:
        raise RuntimeError(f"broken for {call.visitor.role}")

    route = PageRoute("/broken", broken, query=(Field("words"),))
    monkeypatch.setattr("orihon.web.app.PAGES", (*PAGES, route))
    with serving(tmp_path, SETTINGS) as server, caplog.at_level(logging.DEBUG):
        reader = Client(server).log_in()
        answer = reader.ask("GET", "/broken?words=private-words", headers={"x-secret": "private-header"})
        assert answer.status == 500
        assert "broken for" not in answer.text
    assert "GET /broken failed" in caplog.text
    assert "broken for admin" in caplog.text
    for secret in (server.token, reader.cookie.partition("=")[2], reader.mark, "private-words", "private-header"):
        assert secret not in caplog.text


def test_the_key_is_for_its_owner_and_stays_here(tmp_path: Path) -> None:
    base = tmp_path / "contexts"
    start_task(base, SETTINGS, uuid="done-1").complete()
    with serving(base, SETTINGS) as server:
        token = server.token
    key = base / access.KEY_FILE
    assert key.stat().st_mode & 0o777 == 0o600
    assert token not in key.read_text()
    backup(OpenBase(base, SETTINGS), str(tmp_path / "backup"))
    assert not [
        path for path in (tmp_path / "backup").rglob("*") if path.is_file() and key.read_bytes() in path.read_bytes()
    ]
    with serving(base, SETTINGS) as again:
        assert again.token == token
    with serving(base, SETTINGS, new_token=True) as renewed:
        assert renewed.token != token
        token = renewed.token
    key.chmod(0o644)
    with serving(base, SETTINGS) as careful:
        assert careful.token != token
        assert key.stat().st_mode & 0o777 == 0o600
    key.write_text("no key")
    with refused(DamagedStore, "web_key"):
        WebServer(base, SETTINGS, Listening(port=0))


def test_two_servers_do_not_take_each_others_sessions(tmp_path: Path) -> None:
    with serving(tmp_path / "", SETTINGS) as one, serving(tmp_path, SETTINGS) as other:
        reader = Client(one).log_in()
        assert Client(other).ask("GET", "/", headers={"Cookie": reader.cookie}).status == 401


def test_beyond_this_machine_it_wants_to_be_encrypted(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.com", ""):
        with refused(InvalidInput, "web_beyond_loopback"):
            Listening(host).check()
        Listening(host, unencrypted=True).check()
    for host in ("127.0.0.1", "127.0.0.2", "::1", "localhost"):
        Listening(host).check()
    with refused(InvalidInput, "web_half_certificate"):
        Listening("0.0.0.0", certificate=tmp_path / "x").check()
    with refused(InvalidInput, "web_certificate"):
        Listening(certificate=tmp_path / "x", key=tmp_path / "y").check()
    (tmp_path / "x").write_text("no certificate")
    with refused(InvalidInput, "web_bad_certificate"):
        Listening(certificate=tmp_path / "x", key=tmp_path / "x").check()
    with refused(StorageUnavailable, "no_base_dir"):
        WebServer(tmp_path / "missing", SETTINGS, Listening(port=0))


def test_the_port_of_another_server_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, refused(InvalidInput, "web_address") as caught:
        WebServer(tmp_path, SETTINGS, Listening(port=taken.getsockname()[1]))
    assert "127.0.0.1" in caught.value.cause


def test_names_that_a_proxy_or_a_tunnel_uses(tmp_path: Path) -> None:
    names = ("https://orihon.example", "localhost:9000", "http://[::1]:9001", "box")
    with serving(tmp_path, SETTINGS, Listening(port=0, names=names)) as server:
        reader = Client(server).log_in()
        for host, origin in (
            ("orihon.example", "https://orihon.example"),
            ("orihon.example:443", "https://orihon.example"),
            ("127.0.0.1:{port}", "https://orihon.example"),  # a proxy that does not hand the name on
            ("localhost:9000", "http://localhost:9000"),
            ("[::1]:9001", "http://[::1]:9001"),
            ("box:{port}", "http://box:{port}"),
        ):
            said = {"Host": host.format(port=server.port), "Origin": origin.format(port=server.port)}
            assert reader.ask("GET", "/", headers=said).status == 200, said
        for host in ("box", "orihon.example:{port}", "localhost:9001"):
            assert reader.ask("GET", "/", headers={"Host": host.format(port=server.port)}).status == 403
        entered = reader.ask("POST", "/login", f"token={server.token}", {"Host": "orihon.example"})
        assert "Secure" in entered.headers["set-cookie"]
        entered = reader.ask("POST", "/login", f"token={server.token}")
        assert "Secure" not in entered.headers["set-cookie"]
    for name in ("*", "a b", "ftp://x", "https://x/path", "https://user@x", "x:99999", "x:y:z", "", "https://", "-"):
        with refused(InvalidInput, "web_name"):
            WebServer(tmp_path, SETTINGS, Listening(port=0, names=(name,)))


def test_it_speaks_ipv6(tmp_path: Path) -> None:
    with serving(tmp_path, SETTINGS, Listening("::1", port=0)) as server:
        assert server.address == f"http://[::1]:{server.port}/"
        with socket.create_connection(("::1", server.port), timeout=60) as line:
            line.sendall(f"GET /login HTTP/1.1\r\nHost: [::1]:{server.port}\r\n\r\n".encode())
            assert line.recv(100).startswith(b"HTTP/1.1 200")
