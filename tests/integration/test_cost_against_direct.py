"""What a proxied conversation cost against direct, checked by the size of the client's own requests."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from orihon import Base
from orihon.proxy.wires import BY_NAME
from orihon.reports.direct_cost import DirectCosts
from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.reader import reading_task
from orihon.values.records import ModelCall, Usage
from orihon.values.tokens.prices import Prices
from tests.proxying import Agent, proxy
from tests.serving import Client, serving
from tests.upstream import Reply, Request, Upstream
from tests.upstream.cache import Cache

WINDOW = 4500
PRICES = Prices(3.0, 0.3, 3.75, 15.0)
OWN = {"scripted": {"input": 3.0, "cached": 0.3, "written": 3.75, "output": 15.0}}


def calling(request: Request) -> Reply:
    return Reply(f"Looking {request.number}.", calls=[("run", {"command": f"cat file_{request.number}.py"})])


def asked(agent: Agent, number: int) -> None:
    if agent.open_calls:
        agent.give(f"result {number} " + " ".join(f"word{number}_{place}" for place in range(150)))
    else:
        agent.say("Please read all of it.")


def test_the_page_says_what_a_conversation_cost_against_direct(tmp_path: Path) -> None:
    folder, direct, own = tmp_path / "base", Cache(), list[int]()
    with Upstream(calling) as upstream:
        with proxy(folder, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
            agent = Agent("chat", server.address, {"x-session-id": "one"}, is_streamed=False)
            for number in range(24):
                asked(agent, number)
                own.append(direct.size(Request(number, "POST", agent.path, (), b"", agent.body())))
                assert agent.ask().status_code == 200
        uuid = agent.answers[-1].headers["x-orihon-task"]
        used = [request.usage for request in upstream.requests if request.wire]
    with Base(folder) as base, reading_task(base, uuid) as (store, _):
        calls = [stored.call for stored in store.messages() if stored.call is not None]
    views = [answer.headers["x-orihon-view"] for answer in agent.answers]
    first_fold = views.index("folded")
    assert [call.direct for call in calls[:first_fold]] == own[:first_fold], "nothing was folded"
    assert [call.direct for call in calls] == pytest.approx(own, rel=0.15), "what the client itself has sent"
    with serving(folder, load_settings({"prices": OWN}, environ={})) as web:
        client = Client(web)
        client.log_in()
        page = client.ask("GET", f"/tasks/{uuid}?tab=calls").text
    ours = sum(PRICES.of_tokens(one.input, one.cached, one.output) for one in used)
    capped = [min(tokens, WINDOW) for tokens in own]
    wanted = sum(
        PRICES.of_tokens(tokens, before, one.output)
        for tokens, before, one in zip(capped, [0, *capped], used, strict=False)
    )
    shown = {name: float(re.findall(rf'data-{name}="([0-9.]+)"', page)[0]) for name in ("ours", "direct", "against")}
    assert shown["ours"] == pytest.approx(ours, abs=1e-5)
    assert shown["direct"] == pytest.approx(wanted, rel=0.1)
    assert shown["against"] == pytest.approx(shown["ours"] / shown["direct"], abs=1e-3)
    assert f"~{100 * shown['against']:.0f} %" in page
    (beyond,) = re.findall(r"Beyond the window: (\d+)\.", page)
    assert int(beyond) == pytest.approx(sum(tokens > WINDOW for tokens in own), abs=2)
    assert len(re.findall(r"<td class=\"number\">~\$", page)) == len(own)


def test_requests_of_an_earlier_version_are_left_out_and_a_model_has_its_own_cache() -> None:
    found = DirectCosts(window=1000)
    million = Prices(1_000_000.0, 100_000.0)
    found.add(1, ModelCall.from_record({"model": "a", "usage": {"input": 9, "cached": 0, "output": 0}}), million)
    assert (found.costs, found.ours, found.ratio) == ({}, 0.0, None)
    found.add(2, ModelCall("a", Usage(400, 50, 0), direct=400), million)
    assert found.costs == {2: 350 + 5}, "nothing was folded: as it was"
    found.add(3, ModelCall("b", Usage(100, 0, 0), direct=500), million)
    assert found.costs[3] == 500, "another model has nothing in its cache"
    found.add(4, ModelCall("a", Usage(100, 0, 0), direct=600), million)
    assert found.costs[4] == 200 + 40
    found.add(5, ModelCall("a", Usage(150, 100, 0), direct=5000), million)
    assert (found.costs[5], found.beyond) == (400 + 60, 1), "as large as the window, and no larger"
    assert found.ratio == (355 + 100 + 100 + 60) / (355 + 500 + 240 + 460)


@pytest.mark.parametrize("wire", BY_NAME)
def test_ids_of_answers_are_the_upstream_s_and_nothing_of_ours_has_one(wire: str, tmp_path: Path) -> None:
    """Also where the answer is passed on without being understood; what we refuse ourselves has no id to repeat."""
    with Upstream(lambda request: Reply("Yes.")) as upstream, proxy(tmp_path / "base", upstream.base_url) as server:
        agent = Agent(wire, server.address, is_streamed=False)
        for number in range(3):
            agent.say(f"And {number}?")
            assert agent.ask().status_code == 200
        again = [httpx.post(server.address + agent.path, json=agent.body(), trust_env=False) for _ in range(2)]
        ids = [answer.json()["id"] for answer in (*agent.answers, *again)]
    assert len(set(ids)) == len(ids) == 5
    with proxy(tmp_path / "other", "http://127.0.0.1:9", strict=True) as server:
        sent = [jsonio.encode(agent.body()), b"{}"] * 2
        refused = [httpx.post(server.address + agent.path, content=raw, trust_env=False) for raw in sent]
    assert all(answer.status_code >= 400 and "error" in answer.json() for answer in refused)
    assert not [answer.text for answer in refused if "id" in answer.json() or "id" in answer.json()["error"]]
