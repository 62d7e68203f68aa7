"""Every address that the web server has: a route that somebody adds is looked at here without being named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from orihon.web.app import MOST_BODY_BYTES
from orihon.web.call import Endpoint
from orihon.web.fields import Field
from orihon.web.routes import ENDPOINTS, PAGES, STREAMS
from orihon.web.server import WebServer
from tests.command_walk import prepare
from tests.damage import settings_for
from tests.serving import Client, serving

TASK = "waiting-1"


@dataclass(frozen=True)
class Address:
    """One of them, with names that exist."""

    method: str
    path: str
    endpoint: Endpoint | None = None

    @property
    def changes(self) -> bool:
        return self.method != "GET"

    @property
    def body(self) -> dict[str, object] | None:
        return {} if self.changes else None


def filled(path: str) -> str:
    return re.sub(r"{(\w+)(?::\w+)?}", lambda name: {"task": TASK, "number": "1"}.get(name[1], "x"), path)


ADDRESSES = [
    *(Address("GET", filled(page.path)) for page in PAGES),
    *(Address("GET", filled(path)) for path in STREAMS),
    *(Address(one.method, filled(one.path), one) for one in ENDPOINTS),
    Address("POST", "/logout"),
    Address("GET", "/static/base.css"),
    Address("GET", "/nowhere"),
    Address("POST", "/api/nowhere"),
]
every_address = pytest.mark.parametrize("address", ADDRESSES, ids=lambda one: f"{one.method} {one.path}")
every_change = pytest.mark.parametrize(
    "address", [one for one in ADDRESSES if one.changes], ids=lambda one: f"{one.method} {one.path}"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("routes")
    prepare(folder)
    return folder / "contexts"


@pytest.fixture(scope="module")
def server(base: Path) -> Iterator[WebServer]:
    with serving(base, settings_for("files")) as started:
        yield started


@pytest.fixture(scope="module")
def read_only(base: Path) -> Iterator[WebServer]:
    with serving(base, settings_for("files"), read_only=True) as started:
        yield started


@pytest.fixture(scope="module")
def reader(server: WebServer) -> Client:
    return Client(server).log_in()


@pytest.fixture(scope="module")
def looker(read_only: WebServer) -> Client:
    return Client(read_only).log_in()


def test_no_address_is_there_twice_and_changes_are_posts() -> None:
    found = [(one.method, one.path) for one in ADDRESSES]
    assert len(set(found)) == len(found)
    assert {one.method for one in ENDPOINTS} <= {"GET", "POST"}
    assert all(one.path.startswith("/api/") for one in ENDPOINTS)
    assert not [page.path for page in PAGES if page.path.startswith("/api/")]
    assert len({one.name for one in ENDPOINTS}) == len(ENDPOINTS)


def test_looking_and_changing_are_told_apart() -> None:
    assert [one.name for one in ENDPOINTS if one.changes and one.role == "read"] == []


@every_address
def test_nobody_gets_anything_without_a_token(address: Address, reader: Client) -> None:
    stranger = Client(reader.server)  # after somebody has come in: soon nobody does, with so many wrong tokens
    answer = stranger.ask(address.method, address.path, address.body)
    assert answer.status == 401
    assert TASK not in answer.text
    assert stranger.ask(address.method, address.path, address.body, {"Authorization": "Bearer x"}).status in (401, 429)
    assert stranger.ask("HEAD", address.path).status == 401


@every_address
def test_nobody_gets_anything_by_another_name(address: Address, reader: Client) -> None:
    port = reader.server.port
    for said in (
        {"Host": f"evil.example:{port}"},
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        marked = {"x-csrf-token": reader.mark, **said}
        answer = reader.ask(address.method, address.path, address.body, marked)
        assert answer.status == 403
        assert TASK not in answer.text


@every_change
def test_no_browser_changes_anything_without_the_mark(address: Address, reader: Client) -> None:
    for mark in ("", "x" * 43):
        assert reader.ask(address.method, address.path, address.body, {"x-csrf-token": mark}).status == 403
    crossed = {"x-csrf-token": reader.mark, "sec-fetch-site": "cross-site"}
    assert reader.ask(address.method, address.path, address.body, crossed).status == 403


@pytest.mark.parametrize("endpoint", [one for one in ENDPOINTS if one.changes], ids=lambda one: one.name)
def test_a_server_that_only_shows_changes_nothing(endpoint: Endpoint, looker: Client) -> None:
    answer = looker.change(filled(endpoint.path))
    assert (answer.status, answer.reason) == (403, "read_only")
    answer = looker.as_program("POST", filled(endpoint.path), {})
    assert (answer.status, answer.reason) == (403, "read_only")


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.path)
def test_every_page_shows_itself_also_where_nothing_may_be_changed(
    page: object, reader: Client, looker: Client
) -> None:
    path = _with_needed(filled(page.path), page.query)  # type: ignore[attr-defined]
    shown = reader.ask("GET", path)
    assert shown.status in (200, 404), shown.text
    assert "token=" not in shown.text
    assert reader.server.token not in shown.text
    only_shown = looker.ask("GET", path)
    assert only_shown.status == shown.status
    assert not re.search(r"<button[^>]* data-(act|undo|answer|approve)\b", only_shown.text)
    assert reader.ask("GET", path, headers={"Cookie": f"{reader.cookie}; orihon_language=ja"}).status == shown.status
    assert reader.ask("HEAD", path).status == shown.status


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.path)
def test_pages_take_nothing_that_they_do_not_know(page: object, reader: Client) -> None:
    path = _with_needed(filled(page.path), page.query)  # type: ignore[attr-defined]
    glue = "&" if "?" in path else "?"
    assert reader.ask("GET", f"{path}{glue}no_such_field=1").status == 400
    for field in page.query:  # type: ignore[attr-defined]
        for value in _unfit(field):
            answer = reader.ask("GET", f"{filled(page.path)}?{field.name}={value}")  # type: ignore[attr-defined]
            assert answer.status == 400, (field.name, value)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: one.name)
def test_the_api_takes_nothing_that_it_does_not_know(endpoint: Endpoint, reader: Client) -> None:
    path = filled(endpoint.path)
    answer = reader.ask(
        endpoint.method, f"{path}?no_such_field=1", {} if endpoint.method == "POST" else None, _marked(reader)
    )
    assert (answer.status, answer.reason) == (400, "InvalidInput.field_unknown")
    if endpoint.method != "POST":
        return
    answer = reader.ask("POST", path, {"no_such_field": 1}, _marked(reader))
    assert (answer.status, answer.reason) == (400, "InvalidInput.field_unknown")
    for body in (b"[]", b"1", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000):
        answer = reader.ask("POST", path, body, {**_marked(reader), "Content-Type": "application/json"})
        assert answer.status == 400
    answer = reader.ask("POST", path, b"a=1", {**_marked(reader), "Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status, answer.reason) == (400, "InvalidInput.body_type")


def test_what_is_too_large_is_refused(reader: Client) -> None:
    if not any(one.method == "POST" for one in ENDPOINTS):
        pytest.skip("nothing takes a body")
    path = next(filled(one.path) for one in ENDPOINTS if one.method == "POST")
    answer = reader.ask(
        "POST", path, b" " * (MOST_BODY_BYTES + 1), {**_marked(reader), "Content-Type": "application/json"}
    )
    assert (answer.status, answer.reason) == (413, "InvalidInput.body_size")


def _marked(reader: Client) -> dict[str, str]:
    return {"x-csrf-token": reader.mark, "Origin": reader.origin}


def _with_needed(path: str, query: tuple[Field, ...]) -> str:
    needed = "&".join(f"{field.name}={field.choices[0] if field.choices else 1}" for field in query if field.required)
    return f"{path}?{needed}" if needed else path


def _unfit(field: Field) -> list[str]:
    if field.kind in ("whole", "number"):
        return ["x", f"{field.low - 1:.0f}", "9" * 19, "nan", "1e400", "%00"]
    if field.kind == "flag":
        return ["x", "2"]
    return ["no-such-choice"] if field.choices else ["x" * (field.longest + 1)]
