"""Agents that speak three wires, the proxy, and a provider that refuses what real ones refuse."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import httpx
import pytest

from orihon import Base
from orihon.errors import InvalidInput
from orihon.proxy.service import Exchange, ProxyService
from orihon.proxy.wires import BY_NAME
from orihon.settings import load_settings
from orihon.system import jsonio
from orihon.tasks.hand_edits import change_view, remember
from orihon.tasks.reader import reading_task
from tests.proxying import Agent, clean, proxy, tasks_of, texts_of
from tests.serving import Client, serving
from tests.upstream import CutConnection, Fault, Reply, Request, Slow, Upstream, overflowing

WIRES = ["chat", "responses", "messages"]
WINDOW = 4500
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def words(number: int, count: int = 120) -> str:
    return " ".join(f"word{number}_{place}" for place in range(count))


def steps(request: Request) -> Reply:
    """Turn by turn: a call, two calls at once, a text."""
    number = request.number
    if number % 3 == 1:
        return Reply(f"Looking {number}.", calls=[("run", {"command": f"cat file_{number}.py"})])
    if number % 3 == 2:
        calls = [("run", {"command": f"ls {number}a"}), ("run", {"command": f"ls {number}b"})]
        return Reply(calls=calls)
    return Reply(f"Done with step {number}: changed module_{number}.py")


def play(agent: Agent, turns: int, start: int = 0) -> None:
    """So many requests; results and wishes in between."""
    for number in range(start, start + turns):
        if agent.open_calls:
            agent.give(*(f"result {number} {place} {words(number)}" for place in range(len(agent.open_calls))))
        else:
            agent.say(f"Please do step {number}. {words(number, 20)}")
        answer = agent.ask()
        assert answer.status_code == 200, answer.text


def entries_sent(request: Request) -> list[Any]:
    return list(request.body[BY_NAME[request.wire].array])


def said(agent: Agent) -> list[str]:
    """What the agent's history says, as the log should have it."""
    wire = BY_NAME[agent.wire]
    asked = wire.asked(agent.body())
    assert asked is not None
    return [message.text for element in asked.elements for message in wire.messages(element)]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream(steps) as server:
        yield server


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("wire", WIRES)
def test_a_long_conversation_always_fits_and_nothing_of_it_is_lost(
    wire: str, is_streamed: bool, upstream: Upstream, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    with proxy(base, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
        agent = Agent(wire, server.address, {"x-session-id": "one"}, is_streamed=is_streamed)
        play(agent, 33)
    assert upstream.flaws == []
    assert {answer.headers["x-orihon-view"] for answer in agent.answers} == {"whole", "folded"}
    assert len({answer.headers["x-orihon-task"] for answer in agent.answers}) == 1
    requests = [request for request in upstream.requests if request.wire]
    assert max(len(request.raw) // 4 for request in requests) < WINDOW
    broken = sum(
        entries_sent(later)[: len(entries_sent(earlier))] != entries_sent(earlier)
        for earlier, later in pairwise(requests)
    )
    assert 1 <= broken <= 6, "only a fold changes what was sent before"
    assert all(request.body["tools"] == requests[0].body["tools"] for request in requests)
    (task,) = tasks_of(base)
    log = texts_of(base, task.uuid)
    joined = "\n".join(log)
    assert log[0] == agent.system
    assert all(joined.count(text) == 1 for text in said(agent) if text.startswith(("Please", "result", "Done")))
    assert clean(base) == []


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_not_folded_passes_as_it_is(wire: str, tmp_path: Path) -> None:
    with Upstream([Reply("Yes.")]) as upstream, proxy(tmp_path / "base", upstream.base_url) as server:
        agent = Agent(wire, server.address, extra={"new_field": {"of": ["a", 12345678901234567890, 1.50, None]}})
        agent.say("Is it?")
        raw = b" " + jsonio.encode(agent.body()).replace(b'":', b'" : ')
        headers = {"Authorization": "Bearer k", "X-Custom": "1", "Content-Type": "application/json", "Accept": "*/*"}
        answer = httpx.post(
            server.address + agent.path + "?beta=true", content=raw, headers=headers, trust_env=False, timeout=60
        )
    assert answer.status_code == 200
    (request,) = [one for one in upstream.requests if one.wire]
    assert request.raw == raw
    assert request.path == agent.path + "?beta=true"
    assert request.header("x-custom") == "1"
    assert request.header("authorization") == "Bearer k"
    assert not [name for name, _ in request.headers if name.lower().startswith("x-orihon")]


def test_other_paths_are_relayed(tmp_path: Path) -> None:
    with Upstream() as upstream, proxy(tmp_path / "base", upstream.base_url) as server:
        direct = httpx.get(upstream.base_url + "/v1/models", trust_env=False)
        through = httpx.get(server.address + "/v1/models", trust_env=False)
        assert (through.status_code, through.content) == (direct.status_code, direct.content)
        assert sorted(name.lower() for name in through.headers) == sorted(name.lower() for name in direct.headers)
        assert len(through.headers.get_list("date")) == len(through.headers.get_list("server")) == 1
        missing = httpx.post(server.address + "/v1/nothing?a=b", content=b"\x00\xff", trust_env=False)
        assert (
            missing.status_code
            == httpx.post(upstream.base_url + "/v1/nothing", content=b"", trust_env=False).status_code
        )
        assert upstream.requests[-2].raw == b"\x00\xff"
        assert upstream.requests[-2].path == "/v1/nothing?a=b"


@pytest.mark.parametrize("strict", [False, True])
def test_what_cannot_be_read_passes_aloud_and_is_refused_where_strict(
    strict: bool, upstream: Upstream, tmp_path: Path
) -> None:
    bodies = [(b"no JSON", ""), (b"[1]", ""), (b'{"model": "m"}', ""), (b"no gzip", "gzip")]
    with proxy(tmp_path / "base", upstream.base_url, strict=strict) as server:
        for number, (wire, (raw, encoding)) in enumerate(product(WIRES, bodies), start=1):
            headers = {"content-encoding": encoding} if encoding else {}
            address = server.address + BY_NAME[wire].path
            answer = httpx.post(address, content=raw, headers=headers, trust_env=False, timeout=60)
            assert answer.headers["x-orihon-view"] == "degraded"
            if strict:
                assert (answer.status_code, upstream.requests) == (400, [])
                said = answer.json()
                assert said == BY_NAME[wire].error(400, "orihon_error", said["error"]["message"])
            else:
                assert upstream.requests[-1].raw == raw
                assert server.health()["requests"]["degraded"] == number
        assert server.health()["trouble"]


@pytest.mark.parametrize("wire", WIRES)
def test_our_own_refusals_have_the_shape_of_the_wire(wire: str, upstream: Upstream, tmp_path: Path) -> None:
    path = BY_NAME[wire].path
    upgrade = {"upgrade": "websocket", "connection": "upgrade"}
    with proxy(tmp_path / "base", upstream.base_url, token="open") as server:
        answers = [
            httpx.post(server.address + path, json={}, trust_env=False),
            httpx.post(server.address + path, json={}, headers={"origin": "http://elsewhere"}, trust_env=False),
            httpx.post(server.address + "/t/open/to/ftp://x" + path, json={}, trust_env=False),
            httpx.get(server.address + "/t/open" + path, headers=upgrade, trust_env=False),
        ]
    assert [answer.status_code for answer in answers] == [401, 403, 400, 426]
    assert upstream.requests == []
    for answer in answers:
        said = answer.json()
        assert said == BY_NAME[wire].error(answer.status_code, "orihon_error", said["error"]["message"])


@pytest.mark.parametrize("wire", WIRES)
def test_secrets_go_to_the_model_and_not_to_the_disk(wire: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    key = "sk-live-" + "Zx9" * 12
    with Upstream([Reply("Fine.")]) as upstream, proxy(base, upstream.base_url) as server:
        agent = Agent(wire, server.address, {"authorization": f"Bearer {key}", "x-api-key": key})
        agent.say(f"Use the token {SECRET} for it.")
        agent.ask()
    assert SECRET.encode() in upstream.requests[-1].raw
    kept = b"".join(path.read_bytes() for path in base.rglob("*") if path.is_file())
    assert SECRET.encode() not in kept
    assert key.encode() not in kept
    assert b"for it." in kept


@pytest.mark.parametrize("wire", WIRES)
def test_after_a_restart_the_beginning_is_the_same(wire: str, upstream: Upstream, tmp_path: Path) -> None:
    base = tmp_path / "base"
    agent = Agent(wire, "", {"x-session-id": "one"})
    for part in range(3):
        with proxy(base, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
            agent.address = server.address
            play(agent, 13, start=13 * part)
    requests = [request for request in upstream.requests if request.wire]
    for place in (13, 26):
        before, after = entries_sent(requests[place - 1]), entries_sent(requests[place])
        is_fold = len(after) < len(before)
        assert is_fold or after[: len(before)] == before
    assert len(tasks_of(base)) == 1
    assert upstream.flaws == []


def test_an_index_that_is_lost_is_made_again(upstream: Upstream, tmp_path: Path) -> None:
    base = tmp_path / "base"
    agent = Agent("chat", "")
    for _ in range(2):
        with proxy(base, upstream.base_url) as server:
            agent.address = server.address
            play(agent, 2)
        for path in base.glob("proxy.db*"):
            path.unlink()
    (base / "proxy.db").write_bytes(b"no database" * 100)
    with proxy(base, upstream.base_url) as server:
        agent.address = server.address
        play(agent, 2)
    assert len(tasks_of(base)) == 1


def test_a_client_that_goes_back_keeps_its_task_and_the_log_keeps_everything(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with Upstream(steps) as upstream, proxy(base, upstream.base_url) as server:
        agent = Agent("chat", server.address, {"x-session-id": "one"})
        play(agent, 6)
        del agent.entries[7:]
        agent.say("No. Do it another way.")
        agent.ask()
    (task,) = tasks_of(base)
    log = texts_of(base, task.uuid)
    assert "No. Do it another way." in log
    assert any("Please do step 3" in text for text in log), "what was said before is kept"
    sent = entries_sent(upstream.requests[-1])
    assert not any("Please do step 3" in str(entry.get("content")) for entry in sent)
    assert upstream.flaws == []
    assert clean(base) == []


def test_without_an_id_another_past_is_another_conversation(upstream: Upstream, tmp_path: Path) -> None:
    base = tmp_path / "base"
    with proxy(base, upstream.base_url) as server:
        one, two = Agent("chat", server.address), Agent("chat", server.address)
        for agent in (one, two):
            agent.say("Hello there")  # the same words: nobody can tell them apart yet
            agent.ask()
        for turn in range(2):
            for name, agent in (("one", one), ("two", two)):
                agent.give(*(f"{name} {turn}" for _ in agent.open_calls)) if agent.open_calls else agent.say(name)
                agent.ask()
    tasks = tasks_of(base)
    assert len(tasks) == 2
    for name, other in (("one", "two"), ("two", "one")):
        logs = [
            log for log in (texts_of(base, task.uuid) for task in tasks) if any(text.startswith(name) for text in log)
        ]
        assert len(logs) == 1
        assert not any(text.startswith(other) for text in logs[0])


def as_aider(history: list[tuple[str, str]], files: str, wish: str) -> list[dict[str, Any]]:
    """What was said before, then the files as they are now, then the wish with a reminder, which the next has."""
    said = [{"role": "user", "content": "Do it like this."}, {"role": "assistant", "content": "Ok."}]
    for asked, answer in history:
        said += [{"role": "user", "content": asked}, {"role": "assistant", "content": answer.rstrip()}]
    said += [{"role": "user", "content": files}, {"role": "assistant", "content": "Ok."}]
    return [*said, {"role": "user", "content": f"{wish}\n\nRemember: only blocks."}]


def as_smolagents(task: str, done: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """The calls of the model in words, with whatever they had before them."""
    said = [{"role": "user", "content": task}]
    for call, result in done:
        said.append({"role": "assistant", "content": f"Calling tools:\n[{{'id': '{call}', 'function': 'run'}}]"})
        said.append({"role": "user", "content": f"Observation:\n{result}"})
    return said


def test_a_history_that_is_written_anew_stays_one_task(tmp_path: Path) -> None:
    """Without an id; two at once, turn about, in the same words but for what the model has said."""
    base = tmp_path / "base"

    def script(request: Request) -> Reply:
        if request.body.get("tools"):
            return Reply("", calls=[("run", {"command": "ls"})])
        return Reply(f"Answer {request.number} is long enough to be known again wherever it stands.\n")

    with Upstream(script) as upstream, proxy(base, upstream.base_url) as server:
        talks: list[list[tuple[str, str]]] = [[], []]
        works: list[list[tuple[str, str]]] = [[], []]
        for turn in range(4):
            for number in range(2):
                aider = Agent("chat", server.address, system="Act as an expert.", has_tools=False)
                aider.entries = as_aider(talks[number], f"files {number} {turn}", f"Wish {turn}")
                aider.ask()
                talks[number].append((f"Wish {turn}", aider.entries[-1]["content"]))
                worker = Agent("chat", server.address, system="You solve tasks.")
                worker.entries = as_smolagents("New task", works[number])
                worker.ask()
                works[number].append((worker.open_calls[0], f"result {number} {turn}"))
    tasks = tasks_of(base)
    assert len(tasks) == 4
    for name, histories in (("files", talks), ("result", works)):
        for number, _ in enumerate(histories):
            own, other = f"{name} {number} ", f"{name} {1 - number} "
            (log,) = [log for log in (texts_of(base, task.uuid) for task in tasks) if any(own in one for one in log)]
            assert not any(other in one for one in log)
    assert upstream.flaws == []
    assert clean(base) == []


def test_an_answer_that_two_have_got_tells_nobody_apart(tmp_path: Path) -> None:
    base = tmp_path / "base"
    reply = "The same words for everybody who asks, and enough of them."
    with Upstream(lambda _: Reply(reply)) as upstream, proxy(base, upstream.base_url) as server:
        for turn, history in enumerate(([], [], [("Wish", reply)])):
            agent = Agent("chat", server.address, system="Act as an expert.", has_tools=False)
            agent.entries = as_aider(history, f"files {turn}", "Wish")
            agent.ask()
    assert len(tasks_of(base)) == 3


@pytest.mark.parametrize("cut", ["before the index", "before the client", "before all"])
def test_after_a_kill_a_request_without_an_id_goes_on_in_its_task(cut: str, tmp_path: Path) -> None:
    """The answer is on disk, and the client has not got it: it asks again."""
    folders = [tmp_path / "base", tmp_path / "after"]
    settings = [load_settings({"context_storage": {"base_dir": str(folder)}}) for folder in folders]
    service = ProxyService(Base(folders[0], settings[0]))
    agent = Agent("chat", "")
    agent.say("Hello")
    raw = jsonio.encode(agent.body())
    wire = BY_NAME["chat"]
    answer = wire.whole({"id": "1", "choices": [{"message": {"role": "assistant", "content": "Hello to you."}}]})
    if cut == "before all":
        service.conversations.index.keep = lambda *_: None  # type: ignore[method-assign]
    taken = service.take(wire, "http://127.0.0.1:1", raw, {}, None)
    assert taken is not None
    if cut == "before the index":
        service.conversations.keep_answer = lambda *_: None  # type: ignore[method-assign]
    service.finish(taken, answer)
    shutil.copytree(folders[0], folders[1])  # as a kill would leave it
    service.close()
    again = ProxyService(Base(folders[1], settings[1]))
    once_more = again.take(wire, "http://127.0.0.1:1", raw, {}, None)
    assert once_more is not None
    again.end(once_more, answer, True)
    third = again.take(wire, "http://127.0.0.1:1", raw, {}, None)  # who has got it is somebody else
    assert third is not None
    again.release(third)
    again.close()
    assert once_more.uuid == taken.uuid
    assert third.uuid != once_more.uuid
    assert clean(folders[1]) == []


def test_the_same_words_at_the_same_time_are_two_conversations(tmp_path: Path) -> None:
    base = tmp_path / "base"
    upstream = Upstream(lambda request: Slow(0.4, Reply(f"Answer {request.number}")))
    with upstream, proxy(base, upstream.base_url) as server, ThreadPoolExecutor(3) as threads:
        agents = [Agent("chat", server.address) for _ in range(3)]
        for agent in agents:
            agent.say("Hello there")
        list(threads.map(Agent.ask, agents))  # the second waits for the first, and must not go on from it
    logs = [texts_of(base, task.uuid) for task in tasks_of(base)]
    assert len(logs) == 3
    assert sorted(text for log in logs for text in log[2:]) == ["Answer 1", "Answer 2", "Answer 3"]
    assert {len(log) for log in logs} == {3}


def test_tenants_are_kept_apart(upstream: Upstream, tmp_path: Path) -> None:
    base = tmp_path / "base"
    with proxy(base, upstream.base_url) as server:
        for key in ("a", "b"):
            agent = Agent("chat", server.address, {"authorization": f"Bearer {key}", "x-session-id": "same"})
            agent.say("Hello")
            agent.ask()
    assert len(tasks_of(base)) == 2


def test_a_title_is_a_task_of_its_own(upstream: Upstream, tmp_path: Path) -> None:
    base = tmp_path / "base"
    with proxy(base, upstream.base_url) as server:
        agent = Agent("chat", server.address, {"x-session-id": "one", "user-agent": "opencode/1"})
        title = Agent("chat", server.address, agent.headers, system="You are a title generator.", has_tools=False)
        for one in (title, agent):
            one.say("Fix the parser")
            one.ask()
        play(agent, 2)
    kinds = {row.metadata["proxy"]["kind"]: texts_of(base, row.uuid) for row in tasks_of(base)}
    assert set(kinds) == {"side", "main"}
    assert kinds["side"][:2] == ["You are a title generator.", "Fix the parser"]
    assert len(kinds["side"]) == 3


def test_a_count_is_about_what_would_be_sent(upstream: Upstream, tmp_path: Path) -> None:
    with proxy(tmp_path / "base", upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
        agent = Agent("messages", server.address, {"x-claude-code-session-id": "one"})
        play(agent, 33)
        agent.give(*("ok" for _ in agent.open_calls)) if agent.open_calls else agent.say("And?")
        body = {key: value for key, value in agent.body().items() if key not in ("stream", "max_tokens")}
        headers = {"authorization": "Bearer sk-test-of-the-proxy", **agent.headers}
        counts = [
            httpx.post(f"{address}/v1/messages/count_tokens", json=body, headers=headers, trust_env=False, timeout=60)
            for address in (server.address, upstream.base_url)
        ]
    through, direct = (count.json()["input_tokens"] for count in counts)
    assert through < WINDOW < direct
    assert counts[0].headers["x-orihon-view"] == "folded"


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_is_too_long_for_the_provider_is_folded_and_sent_once_more(wire: str, tmp_path: Path) -> None:
    faults: list[int] = []

    def script(request: Request) -> Any:
        if request.number > 24 and not faults:
            faults.append(request.number)
            return overflowing(request)
        return steps(request)

    with Upstream(script) as upstream, proxy(tmp_path / "base", upstream.base_url) as server:
        agent = Agent(wire, server.address, {"x-session-id": "one"})
        play(agent, 30)
        (number,) = faults
        tried, again = (one for one in upstream.requests if one.number in (number, number + 1))
    assert len(again.raw) < len(tried.raw)
    assert upstream.flaws == []


@pytest.mark.parametrize("status", [429, 500, 401, 400])
def test_errors_of_the_provider_pass_as_they_are(status: int, tmp_path: Path) -> None:
    fault = Fault(status, {"error": {"message": "no", "odd": [1]}}, {"retry-after": "7"})
    with Upstream([fault, Reply("Now.")]) as upstream, proxy(tmp_path / "base", upstream.base_url) as server:
        agent = Agent("chat", server.address, {"x-session-id": "one"})
        agent.say("Hello")
        refused = agent.ask()
        assert refused.status_code == status
        assert refused.json() == {"error": {"message": "no", "odd": [1]}}
        assert refused.headers["retry-after"] == "7"
        assert agent.ask().status_code == 200
    (task,) = tasks_of(tmp_path / "base")
    assert texts_of(tmp_path / "base", task.uuid)[1:] == ["Hello", "Now."]


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_that_is_cut_off_is_kept_and_the_next_try_goes_on(wire: str, tmp_path: Path) -> None:
    base = tmp_path / "base"
    cut = CutConnection(700, Reply("A sentence that goes on and on. " * 40))
    with Upstream([cut, Reply("Whole.")]) as upstream, proxy(base, upstream.base_url) as server:
        agent = Agent(wire, server.address, {"x-session-id": "one"})
        agent.say("Hello")
        with pytest.raises(httpx.RemoteProtocolError):
            agent.ask()
        assert agent.ask().status_code == 200
        agent.say("Thanks")
        upstream.add(Reply("Bye."))
        agent.ask()
    (task,) = tasks_of(base)
    log = texts_of(base, task.uuid)
    assert [log[1], *log[-3:]] == ["Hello", "Whole.", "Thanks", "Bye."]
    assert upstream.flaws == []
    assert len(entries_sent(upstream.requests[-1])) == (4 if wire == "chat" else 3)
    assert clean(base) == []


def test_a_client_that_has_gone_leaves_nothing_hanging(tmp_path: Path) -> None:
    base = tmp_path / "base"
    with Upstream([Slow(20, Reply("Late.")), Reply("Now.")]) as upstream, proxy(base, upstream.base_url) as server:
        agent = Agent("chat", server.address, {"x-session-id": "one"})
        agent.say("Hello")
        with pytest.raises(httpx.ReadTimeout):
            agent.ask(timeout=1)
        assert agent.ask().status_code == 200
    (task,) = tasks_of(base)
    assert texts_of(base, task.uuid)[1:] == ["Hello", "Now."]


def test_an_answer_can_be_pointed_at(upstream: Upstream, tmp_path: Path) -> None:
    """A client that leaves its history to the provider: as it is until it no longer fits, then as a folded view."""
    base = tmp_path / "base"
    with proxy(base, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
        agent = Agent("responses", server.address, is_streamed=False)
        previous, sizes = None, []
        for number in range(40):
            start = len(agent.entries)
            if agent.open_calls:
                agent.give(*(f"result {number} {words(number)}" for _ in agent.open_calls))
            else:
                agent.say(f"step {number}")
            body = {**agent.body(), "input": agent.entries[start:], "store": True}
            if previous is not None:
                body["previous_response_id"] = previous
            headers = {"authorization": "Bearer k"}
            answer = httpx.post(server.address + agent.path, json=body, headers=headers, trust_env=False, timeout=60)
            assert answer.status_code == 200, answer.text
            agent.entries += agent._entries(answer)
            previous = answer.json()["id"]
            sizes.append((answer.headers["x-orihon-view"], len(upstream.requests[-1].raw)))
    assert len(tasks_of(base)) == 1
    assert {view for view, _ in sizes} == {"whole", "folded"}
    assert max(size for _, size in sizes) // 4 < WINDOW
    assert upstream.flaws == []


# ---- when something of ours fails ------------------------------------------------------------------------------------


def _break(server: Any) -> None:
    """From now on nothing can be written."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    for conversation in server.service.conversations._open.values():
        conversation.task.context.task_store.append = refuse


@pytest.mark.parametrize("strict", [False, True])
def test_a_disk_that_is_full_is_said_aloud(strict: bool, upstream: Upstream, tmp_path: Path) -> None:
    config = {"proxy": {"window": WINDOW}}
    with proxy(tmp_path / "base", upstream.base_url, config=config, strict=strict) as server:
        agent = Agent("chat", server.address, {"x-session-id": "one"})
        play(agent, 30)
        assert agent.answers[-1].headers["x-orihon-view"] == "folded"
        _break(server)
        agent.give(*("ok" for _ in agent.open_calls)) if agent.open_calls else agent.say("And?")
        answer = agent.ask()
        assert answer.headers["x-orihon-view"] == "degraded"
        with Base(tmp_path / "base") as looking:
            assert [finding.kind for finding in looking.doctor() if finding.kind[0] == "proxy"] == [
                ("proxy", "degraded")
            ]
        assert answer.status_code == (503 if strict else 200)
        if strict:
            assert answer.json()["error"]["type"] == "orihon_error"
        else:
            assert len(upstream.requests[-1].raw) // 4 < WINDOW, "the last good view, and what is new"
            assert upstream.flaws == []


def test_an_upstream_that_is_not_there_is_an_error_in_the_shape_of_the_wire(tmp_path: Path) -> None:
    with proxy(tmp_path / "base", "http://127.0.0.1:9") as server:
        agent = Agent("messages", server.address)
        agent.say("Hello")
        answer = agent.ask()
    assert answer.status_code == 502
    assert answer.json()["type"] == "error"
    assert "upstream" in answer.json()["error"]["type"]


# ---- the gate ------------------------------------------------------------------------------------------------------


def test_pages_and_strangers_are_refused(upstream: Upstream, tmp_path: Path) -> None:
    with proxy(tmp_path / "base", upstream.base_url, token="s3cret-token") as server:
        good = {"x-orihon-token": "s3cret-token"}
        address = server.address + "/v1/models"
        assert httpx.get(address, headers=good, trust_env=False).status_code == 200
        assert httpx.get(server.address + "/t/s3cret-token/v1/models", trust_env=False).status_code == 200
        assert httpx.get(address, trust_env=False).status_code == 401
        assert httpx.get(address, headers={"x-orihon-token": "no"}, trust_env=False).status_code == 401
        for bad in ({"origin": "https://evil.example"}, {"host": "evil.example"}, {"sec-fetch-site": "cross-site"}):
            assert httpx.get(address, headers={**good, **bad}, trust_env=False).status_code == 403
        assert len(upstream.requests) == 2
        assert not [name for name, _ in upstream.requests[0].headers if "orihon" in name.lower()]


def test_the_upstream_may_stand_in_the_path(upstream: Upstream, tmp_path: Path) -> None:
    with proxy(tmp_path / "base", "http://127.0.0.1:9") as server:
        agent = Agent("chat", f"{server.address}/s/mine/to/{upstream.base_url}")
        agent.say("Hello")
        assert agent.ask().status_code == 200
        assert upstream.requests[-1].path == "/v1/chat/completions"
        for bad in ("/to/http://169.254.169.254/v1/models", "/to/ftp://host/v1/models", "/to/https://a:b@host/v1/x"):
            assert httpx.get(server.address + bad, trust_env=False).status_code == 400


# ---- the page ------------------------------------------------------------------------------------------------------


def test_the_page_shows_the_wire_the_client_and_each_request(upstream: Upstream, tmp_path: Path) -> None:
    base = tmp_path / "base"
    with proxy(base, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server:
        agent = Agent("messages", server.address, {"x-session-id": "one", "user-agent": "claude-cli/2.1 (external)"})
        play(agent, 33)
        uuid = agent.answers[-1].headers["x-orihon-task"]
        with serving(base) as web:  # while the conversation is going on
            client = Client(web)
            client.log_in()
            page = client.ask("GET", f"/tasks/{uuid}").text
            calls = client.ask("GET", f"/tasks/{uuid}?tab=calls").text
            first = re.findall(rf"/tasks/{uuid}/view\?at=(\d+)", calls)[-1]
            assert client.ask("GET", f"/tasks/{uuid}/view?at={first}").status == 200
    assert "claude-code" in page
    assert upstream.base_url in page
    assert len(re.findall("<td><bdi>scripted<", calls)) == 33
    assert "%" in calls


def test_while_one_conversation_is_put_to_rest_the_others_go_on(tmp_path: Path) -> None:
    settings = load_settings({"proxy": {"max_open": 1, "window": 100_000}})
    service = ProxyService(Base(tmp_path / "base", settings))

    def taken(name: str) -> Exchange:
        raw = jsonio.encode({"model": "scripted", "messages": [{"role": "user", "content": name}]})
        exchange = service.take(BY_NAME["chat"], "http://127.0.0.1:1", raw, {}, name)
        assert exchange is not None
        service.release(exchange)
        return exchange

    try:
        first, second, _ = (taken(name) for name in ("first", "second", "third"))
        assert first.taken is not None
        with first.taken.conversation.lock:  # its pause takes long
            resting = threading.Thread(target=service.conversations.rest, kwargs={"idle": 1000.0})
            resting.start()
            while resting.is_alive() and not first.taken.conversation.is_busy:
                time.sleep(0.01)
            assert taken("second").uuid == second.uuid
        resting.join()
        assert taken("first").uuid == first.uuid
    finally:
        service.close()


@pytest.mark.parametrize("wire", WIRES)
def test_a_view_is_changed_from_outside_while_the_proxy_has_it(wire: str, upstream: Upstream, tmp_path: Path) -> None:
    """A note is in the next request and in all that follow, also where a call was open; the beginning stays."""
    folder = tmp_path / "base"
    note = "Never touch the valve in room 4711."
    with proxy(folder, upstream.base_url, config={"proxy": {"window": WINDOW}}) as server, Base(folder) as base:
        agent = Agent(wire, server.address, {"x-session-id": "one"})
        play(agent, 1)
        uuid = agent.answers[-1].headers["x-orihon-task"]
        assert agent.open_calls, "no message may stand here now"
        remember(base, uuid, note, made_by="ann")
        play(agent, 1, start=1)
        assert change_view(base, uuid, "pin", 2, "", made_by="ann").record.kind == "pin"
        with pytest.raises(InvalidInput, match="10000"):
            change_view(base, uuid, "pin", 10_000, "", made_by="ann")
        play(agent, 30, start=2)
        with reading_task(base, uuid) as (store, _):
            folds = store.state()[0]
        folded = agent.answers[-1].headers["x-orihon-view"]
        change_view(base, uuid, "unfold", folds[0].id, made_by="ann")
    assert folded == "folded"
    assert upstream.flaws == []
    requests = [request for request in upstream.requests if request.wire]
    assert note not in str(requests[0].body)
    assert all(str(request.body).count(note) == 1 for request in requests[1:])
    first, second = (entries_sent(request) for request in requests[:2])
    assert second[: len(first)] == first
    assert clean(folder) == []


def test_only_who_knows_the_word_may_change_a_view(upstream: Upstream, tmp_path: Path) -> None:
    folder = tmp_path / "base"
    with proxy(folder, upstream.base_url) as server:
        agent = Agent("chat", server.address, {"x-session-id": "one"})
        play(agent, 1)
        asked = {"task": tasks_of(folder)[0].uuid, "act": "remember", "values": ["x"], "made_by": "me"}
        for word in ({}, {"x-orihon-door": "guess"}):
            answer = httpx.post(server.address + "/orihon/change", json=asked, headers=word, trust_env=False)
            assert (answer.status_code, answer.content) == (401, b"{}")
    assert not list((folder / "doors").iterdir())
