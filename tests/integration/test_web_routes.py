"""Every address that the web server has, against every rule: a new route is looked at without being named.

One server, one login, one walk: who asks for a rule of all addresses adds it to ``RULES``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from orihon.web.app import MOST_BODY_BYTES
from orihon.web.call import Endpoint, PageRoute
from orihon.web.fields import Field
from orihon.web.openapi import document
from orihon.web.routes import ENDPOINTS, PAGES, STREAMS
from tests.command_walk import prepare
from tests.damage import settings_for
from tests.helpers import Rule
from tests.serving import Client, serving

TASK = "waiting-1"


@dataclass(frozen=True)
class Address:
    """One of them, with names that exist."""

    method: str
    path: str
    page: PageRoute | None = None
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
    *(Address("GET", filled(page.path), page=page) for page in PAGES),
    *(Address("GET", filled(path)) for path in STREAMS),
    *(Address(one.method, filled(one.path), endpoint=one) for one in ENDPOINTS),
    Address("POST", "/logout"),
    Address("GET", "/static/base.css"),
    Address("GET", "/nowhere"),
    Address("POST", "/api/nowhere"),
]


@dataclass(frozen=True)
class Site:
    """Somebody who is logged in, and somebody on a server that changes nothing."""

    reader: Client
    looker: Client

    @property
    def marked(self) -> dict[str, str]:
        return {"x-csrf-token": self.reader.mark, "Origin": self.reader.origin}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("routes")
    prepare(folder)
    return folder / "contexts"


@pytest.fixture(scope="module")
def site(base: Path) -> Iterator[Site]:
    with serving(base, settings_for("files")) as server, serving(base, settings_for("files"), read_only=True) as shown:
        yield Site(Client(server).log_in(), Client(shown).log_in())


def test_no_address_is_there_twice_and_changes_are_posts() -> None:
    found = [(one.method, one.path) for one in ADDRESSES]
    assert len(set(found)) == len(found)
    assert {one.method for one in ENDPOINTS} <= {"GET", "POST"}
    assert all(one.path.startswith("/api/") for one in ENDPOINTS)
    assert not [page.path for page in PAGES if page.path.startswith("/api/")]
    assert len({one.name for one in ENDPOINTS}) == len(ENDPOINTS)


def test_looking_and_changing_are_told_apart() -> None:
    assert [one.name for one in ENDPOINTS if one.changes and one.role == "read"] == []


# ---- what holds for every address ------------------------------------------------------------------------------------


def nobody_gets_anything_without_a_token(site: Site, address: Address) -> None:
    stranger = Client(site.reader.server)  # after somebody has come in: soon nobody does, with so many wrong tokens
    answer = stranger.ask(address.method, address.path, address.body)
    assert answer.status == 401
    assert TASK not in answer.text
    assert stranger.ask(address.method, address.path, address.body, {"Authorization": "Bearer x"}).status in (401, 429)
    assert stranger.ask("HEAD", address.path).status == 401


def nobody_gets_anything_by_another_name(site: Site, address: Address) -> None:
    for said in (
        {"Host": f"evil.example:{site.reader.server.port}"},
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ):
        marked = {"x-csrf-token": site.reader.mark, **said}
        answer = site.reader.ask(address.method, address.path, address.body, marked)
        assert answer.status == 403
        assert TASK not in answer.text


def no_browser_changes_anything_without_the_mark(site: Site, address: Address) -> None:
    if not address.changes:
        return
    for mark in ("", "x" * 43):
        assert site.reader.ask(address.method, address.path, address.body, {"x-csrf-token": mark}).status == 403
    crossed = {"x-csrf-token": site.reader.mark, "sec-fetch-site": "cross-site"}
    assert site.reader.ask(address.method, address.path, address.body, crossed).status == 403


def a_server_that_only_shows_changes_nothing(site: Site, address: Address) -> None:
    if address.endpoint is None or not address.endpoint.changes:
        return
    for answer in (site.looker.change(address.path), site.looker.as_program("POST", address.path, {})):
        assert (answer.status, answer.reason) == (403, "read_only")


def a_page_shows_itself_also_where_nothing_may_be_changed(site: Site, address: Address) -> None:
    if address.page is None:
        return
    reader, path = site.reader, _with_needed(address.path, address.page.query)
    shown = reader.ask("GET", path)
    assert shown.status in (200, 404), shown.text
    assert "token=" not in shown.text
    assert reader.server.token not in shown.text
    only_shown = site.looker.ask("GET", path)
    assert only_shown.status == shown.status
    assert not re.search(r"<button[^>]* data-(act|undo|answer|approve)\b", only_shown.text)
    assert reader.ask("GET", path, headers={"Cookie": f"{reader.cookie}; orihon_language=ja"}).status == shown.status
    assert reader.ask("HEAD", path).status == shown.status


def a_page_takes_nothing_that_it_does_not_know(site: Site, address: Address) -> None:
    if address.page is None:
        return
    path = _with_needed(address.path, address.page.query)
    glue = "&" if "?" in path else "?"
    assert site.reader.ask("GET", f"{path}{glue}no_such_field=1").status == 400
    for field in address.page.query:
        for value in _unfit(field):
            answer = site.reader.ask("GET", f"{address.path}?{field.name}={value}")
            assert answer.status == 400, (field.name, value)


def the_api_takes_nothing_that_it_does_not_know(site: Site, address: Address) -> None:
    if address.endpoint is None:
        return
    reader, path = site.reader, address.path
    answer = reader.ask(address.method, f"{path}?no_such_field=1", address.body, site.marked)
    assert (answer.status, answer.reason) == (400, "InvalidInput.field_unknown")
    if not address.changes:
        return
    answer = reader.ask("POST", path, {"no_such_field": 1}, site.marked)
    assert (answer.status, answer.reason) == (400, "InvalidInput.field_unknown")
    for body in (b"[]", b"1", b"{", b"\xff", b'{"a": NaN}', b"[" * 100_000):
        answer = reader.ask("POST", path, body, {**site.marked, "Content-Type": "application/json"})
        assert answer.status == 400
    answer = reader.ask("POST", path, b"a=1", {**site.marked, "Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status, answer.reason) == (400, "InvalidInput.body_type")


def the_api_refuses_another_method(site: Site, address: Address) -> None:
    if address.endpoint is None:
        return
    answer = site.looker.as_program("DELETE", address.path)
    assert answer.status == 405
    assert address.method in answer.headers["allow"]
    error = document(())["components"]["schemas"]["error"]
    assert Draft202012Validator(error).is_valid(answer.value)


RULES: tuple[Callable[[Site, Address], None], ...] = (
    nobody_gets_anything_without_a_token,
    nobody_gets_anything_by_another_name,
    no_browser_changes_anything_without_the_mark,
    a_server_that_only_shows_changes_nothing,
    a_page_shows_itself_also_where_nothing_may_be_changed,
    a_page_takes_nothing_that_it_does_not_know,
    the_api_takes_nothing_that_it_does_not_know,
    the_api_refuses_another_method,
)


def test_every_address_keeps_every_rule(site: Site) -> None:
    with Rule() as rule:
        for address in ADDRESSES:
            for keep in RULES:
                with rule.case(address.method, address.path, keep.__name__):
                    keep(site, address)


def test_what_is_too_large_is_refused(site: Site) -> None:
    if not any(one.method == "POST" for one in ENDPOINTS):
        pytest.skip("nothing takes a body")
    path = next(filled(one.path) for one in ENDPOINTS if one.method == "POST")
    headers = {**site.marked, "Content-Type": "application/json"}
    answer = site.reader.ask("POST", path, b" " * (MOST_BODY_BYTES + 1), headers)
    assert (answer.status, answer.reason) == (413, "InvalidInput.body_size")


def _with_needed(path: str, query: tuple[Field, ...]) -> str:
    needed = "&".join(f"{field.name}={field.choices[0] if field.choices else 1}" for field in query if field.required)
    return f"{path}?{needed}" if needed else path


def _unfit(field: Field) -> list[str]:
    if field.kind in ("whole", "number"):
        return ["x", f"{field.low - 1:.0f}", "9" * 19, "nan", "1e400", "%00"]
    if field.kind == "flag":
        return ["x", "2"]
    return ["no-such-choice"] if field.choices else ["x" * (field.longest + 1)]
