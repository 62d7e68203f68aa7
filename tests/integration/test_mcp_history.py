"""The history over MCP: the official client against our server, in this process, as a process of its own, over HTTP."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from orihon import Base
from orihon.errors import InvalidInput
from orihon.mcp.http import HistoryHttpServer, listening_at
from orihon.mcp.server import make_server
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from tests.acceptance.test_cli import ORIHON, environment
from tests.helpers import Child, refused
from tests.sealing import CANARY, sealed_settings, start_sealed, write_key

_T = TypeVar("_T")
PATIENCE = 120.0
LONG = "".join(f"{number}: 行 {chr(0x3042 + number % 80)}\n" for number in range(9_000))
LOOKING = {"search_history", "recall", "task_overview", "list_tasks"}
CHANGING = {"pin", "unfold", "remember"}


def call(number: int) -> dict[str, Any]:
    arguments = json.dumps({"path": f"module_{number}.py", "much": "x" * 50})
    return {"id": f"call-{number}", "type": "function", "function": {"name": "read", "arguments": arguments}}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folded task of ann's, and one of bob's."""
    folder = tmp_path_factory.mktemp("history") / "contexts"
    with Base(folder) as made:
        task = made.task("hello", title="Read modules", user="ann")
        task.add("system", "You are careful.")
        for number in range(1, 16):
            task.add("user", f"Step {number}: read module_{number}.py; keep the valve_{number} shut. " + "so " * 60)
            task.add("assistant", None, tool_calls=[call(number)])
            task.add("tool", f"def f_{number}(): pass", tool_call_id=f"call-{number}")
            task.add("assistant", f"module_{number}.py is read. " + "thus " * 60)
        task.add("user", LONG)
        task.compress("summarize", target=0.01)
        task.stop()
        other = made.task("secret", user="bob")
        other.add("user", "bob keeps the valve_7 open")
        other.stop()
    return folder


@pytest.fixture
def base(prepared: Path, tmp_path: Path) -> Iterator[Base]:
    """A copy of its own."""
    with Base(shutil.copytree(prepared, tmp_path / "contexts")) as made:
        yield made


def asked(server: Any, act: Callable[[Client], Awaitable[_T]], **options: Any) -> _T:
    async def ask() -> _T:
        with anyio.fail_after(PATIENCE):
            async with Client(server, **options) as client:
                return await act(client)

    return run(ask)


def run(ask: Callable[[], Awaitable[_T]]) -> _T:
    """What a test finds wrong is told as it is, not in the groups of the client's tasks."""
    try:
        return anyio.run(ask)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None


async def told(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    (content,) = result.content
    assert content.type == "text"
    assert json.loads(content.text) == result.structured_content
    return dict(result.structured_content)


async def wrong(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (content,) = result.content
    assert content.type == "text"
    assert "Traceback" not in content.text
    return content.text


async def all_of(client: Client, task: str, **asked_for: Any) -> list[tuple[int, str, list[str]]]:
    """Everything that is recalled, put together from its pieces: number, text and arguments."""
    found: dict[int, tuple[str, list[str]]] = {}
    more: dict[str, Any] | None = asked_for
    while more is not None:
        answer = await told(client, "recall", task=task, **more)
        for one in answer["messages"]:
            text, arguments = found.get(one["seq"], ("", ["" for _ in one["calls"]]))
            said = [old + new["arguments"] for old, new in zip(arguments, one["calls"], strict=True)]
            found[one["seq"]] = text + one["text"], said
        rest = answer["next"]
        more = None if rest is None else {**rest, "characters": asked_for["characters"]}
    return [(seq, *said) for seq, said in found.items()]


def test_what_was_folded_is_recalled_byte_for_byte_in_pieces_of_any_size(base: Base) -> None:
    task = base.task("hello", user="ann")
    log = task.log()
    task.stop()

    async def act(client: Client) -> None:
        expected = [(one.seq, one.message.text, [c.arguments for c in one.message.tool_calls]) for one in log]
        for characters in (97, 20_000, 200_000):
            some = expected if characters > 1000 else expected[:12]
            seq = f"1-{some[-1][0]}"
            assert await all_of(client, "hello", seq=seq, characters=characters) == some
        overview = await told(client, "task_overview", task="hello")
        fold = overview["folds"][0]
        covered = [one for one in expected if fold["start_seq"] <= one[0] <= fold["end_seq"]]
        assert await all_of(client, "hello", fold=fold["fold"], characters=3_000) == covered
        found = await told(client, "recall", task="hello", words="valve_7 -shut")
        assert {one["seq"] for one in found["messages"][:1]} == {26}
        assert found["messages"][0]["fold"] == fold["fold"]
        assert found["messages"][0]["role"] == "user"
        assert "not instructions" in found["about"]

    asked(make_server(base), act)


def test_looking_is_all_there_is_unless_changes_are_wanted(base: Base) -> None:
    async def names(client: Client) -> set[str]:
        tools = (await client.list_tools()).tools
        assert all(tool.output_schema and tool.description and tool.annotations for tool in tools)
        looking = {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint}
        assert looking == LOOKING
        return {tool.name for tool in tools}

    assert asked(make_server(base), names) == LOOKING
    assert asked(make_server(base, allow_changes=True), names) == LOOKING | CHANGING


def test_pins_folds_and_notes(base: Base) -> None:
    uuid = base.resolve("hello")

    async def act(client: Client) -> None:
        fold = (await told(client, "task_overview", task=uuid))["folds"][0]["fold"]
        opened = await told(client, "unfold", task="hello", fold=fold)
        assert (opened["task"], opened["kind"]) == (uuid, "unfold")
        assert "no fold 99" in await wrong(client, "unfold", task="hello", fold=99)
        assert (await told(client, "pin", task=uuid[:8], seq=2))["kind"] == "pin"
        assert "no message 10000" in await wrong(client, "pin", task=uuid, seq=10_000)
        kept = await told(client, "remember", task="hello", note=" Build with -O2. ")
        assert kept == {"task": uuid, "note": 1}
        assert "1 to 20,000" in await wrong(client, "remember", task="hello", note="  ")
        overview = await told(client, "task_overview", task="hello")
        assert [one["note"] for one in overview["notes"]] == ["Build with -O2."]
        assert overview["notes"][0]["by"].startswith("mcp:")
        assert {"seq": 2, "line": ""} in overview["pins"]
        found = await told(client, "search_history", query="build O2", kinds=["plan"])
        assert [hit["kind"] for hit in found["hits"]] == ["plan"]
        prompt = (await client.get_prompt("handoff", {"task": "hello"})).messages[0].content
        assert prompt.type == "text"
        assert prompt.text.count("> Build with -O2.") == 1

    asked(make_server(base, allow_changes=True), act)
    with base.task("hello", user="ann") as task:
        (told_to_model,) = [message for message in task.messages() if "Build with -O2." in str(message["content"])]
        assert told_to_model["role"] == "user"
        assert "no word of the user" in told_to_model["content"]
    assert base.verify(uuid) == []


def test_a_task_that_somebody_works_on_is_left_alone(base: Base) -> None:
    with Base(base.path) as other, other.task("hello", user="ann"):

        async def act(client: Client) -> str:
            assert (await told(client, "recall", task="hello", seq=2))["messages"][0]["seq"] == 2
            return await wrong(client, "remember", task="hello", note="x")

        assert "belongs to" in asked(make_server(OpenBase(base.path, base.settings), allow_changes=True), act)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("recall", {"task": "hello"}, "exactly one of"),
        ("recall", {"task": "hello", "seq": "1", "fold": 1}, "exactly one of"),
        ("recall", {"task": "hello", "seq": "9999999999999999999"}, "no message"),
        ("recall", {"task": "hello", "seq": "999999"}, "no message 999999"),
        ("recall", {"task": "hello", "seq": "5-2"}, "no range"),
        ("recall", {"task": "hello", "words": "\"' -- ;"}, "no word"),
        ("recall", {"task": "hello", "fold": 10**12}, "no fold"),
        ("recall", {"task": "hello", "fold": -1}, "greater than or equal to 1"),
        ("recall", {"task": "../../etc/passwd", "seq": 1}, "cannot be used as an id"),
        ("recall", {"task": "hello\x00", "seq": 1}, "cannot be used as an id"),
        ("recall", {"task": "%2e%2e", "seq": 1}, "cannot be used as an id"),
        ("recall", {"task": "hello", "seq": 1, "characters": 10**9}, "less than or equal"),
        ("recall", {"seq": 1}, "Field required"),
        ("task_overview", {"task": "nobody"}, "There is no task nobody"),
        ("task_overview", {"task": ["hello"]}, "string"),
        ("list_tasks", {"limit": 10**6}, "less than or equal"),
        ("list_tasks", {"status": "gone"}, "gone"),
        ("search_history", {"query": "valve", "kinds": ["'; DROP TABLE"]}, "kind"),
        ("search_history", {"query": "valve", "since": "yesterday-ish"}, "yesterday-ish"),
        ("no_such_tool", {}, "no_such_tool"),
    ],
)
def test_what_cannot_be_answered_is_said_in_words(base: Base, tool: str, arguments: dict[str, Any], says: str) -> None:
    assert says in asked(make_server(base), lambda client: wrong(client, tool, **arguments))


def test_huge_ranges_are_bounded(base: Base) -> None:
    async def act(client: Client) -> None:
        whole = await told(client, "recall", task="hello", seq="1-99999999999999", characters=200_000)
        assert whole["matches"] == whole["last_seq"] == 62
        piece = await told(client, "recall", task="hello", seq=62, characters=10, offset=10**9)
        assert (piece["messages"][0]["text"], piece["next"]) == ("", None)
        assert piece["messages"][0]["length"] == len(LONG)

    asked(make_server(base), act)


def test_half_a_character_is_written_out(base: Base) -> None:
    task = base.task("dirty")
    task.add("user", "before \udc80 after")
    task.stop()

    async def act(client: Client) -> Any:
        return (await told(client, "recall", task="dirty", seq=1))["messages"][0]

    found = asked(make_server(base), act)
    assert (found["text"], found["length"]) == ("before \\udc80 after", len("before x after"))


def test_resources_and_completion(base: Base) -> None:
    uuid = base.resolve("hello")

    async def act(client: Client) -> None:
        listed = {one.uri for one in (await client.list_resources()).resources}
        assert listed == {f"orihon://task/{uuid}", f"orihon://task/{base.resolve('secret')}"}
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        here = "orihon://task/{uuid}"
        assert templates == [here, here + "/fold/{number}", here + "/message/{seq}"]

        async def read(path: str) -> Any:
            (content,) = (await client.read_resource(f"orihon://task/{path}")).contents
            assert content.mime_type == "application/json"
            return json.loads(getattr(content, "text"))  # noqa: B009 - it may be a blob

        assert (await read(uuid))["task"]["label"] == "local:task#hello"
        assert (await read(f"{uuid}/message/3"))["message"]["tool_calls"] == [call(1)]
        assert (await read(f"{uuid}/fold/1"))["fold"]["start_seq"] >= 1
        for path in ("nobody", f"{uuid}/message/0", f"{uuid}/message/1e3", f"{uuid}/fold/77", "..%2F..", f"{uuid}/x"):
            with pytest.raises(MCPError) as failure:
                await read(path)
            assert failure.value.error.code == -32602, path
        from mcp_types import PromptReference

        found = await client.complete(PromptReference(name="handoff"), {"name": "task", "value": uuid[:4]})
        assert found.completion.values == [uuid]
        with pytest.raises(MCPError, match="There is no task nobody"):
            await client.get_prompt("handoff", {"task": "nobody"})

    asked(make_server(base), act)


def test_a_message_that_is_no_resource_any_more_is_read_in_pieces(base: Base) -> None:
    task = base.task("large")
    task.add("user", "y" * 5_000_000)
    task.stop()

    async def act(client: Client) -> None:
        with pytest.raises(MCPError, match="Read message 1 in pieces with the tool recall"):
            await client.read_resource(f"orihon://task/{task.uuid}/message/1")
        piece = await told(client, "recall", task="large", seq=1, offset=4_999_990)
        assert piece["messages"][0]["text"] == "y" * 10

    asked(make_server(base), act)


def test_a_sealed_task_is_read_with_its_key_and_refused_in_words_without(tmp_path: Path) -> None:
    folder, source = tmp_path / "contexts", write_key(tmp_path / "key")
    start_sealed(folder, sealed_settings(source), "sealed-1").stop()

    async def read(client: Client) -> str:
        return str((await told(client, "recall", task="sealed-1", seq=2))["messages"][0]["text"])

    assert CANARY in asked(make_server(OpenBase(folder, sealed_settings(source))), read)
    without = OpenBase(folder, sealed_settings(f"file:{tmp_path / 'missing'}"))
    said = asked(make_server(without), lambda client: wrong(client, "recall", task="sealed-1", seq=2))
    assert CANARY not in said
    assert "key" in said


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_client_starts_the_command_and_speaks_with_it(base: Base, mode: str) -> None:
    server = StdioServerParameters(
        command=str(ORIHON), args=["--base-dir", str(base.path), "mcp", "--allow-changes"], env=environment("ja")
    )

    async def act(client: Client) -> None:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else mode)
        assert {tool.name for tool in (await client.list_tools()).tools} == LOOKING | CHANGING
        found = await told(client, "search_history", query="valve_7")
        assert {hit["label"] for hit in found["hits"]} == {"local:task#hello", "local:task#secret"}
        assert "指示ではありません" in found["about"]
        assert await wrong(client, "recall", task="nobody", seq=1)

    asked(server, act, mode=mode)


def test_ctrl_c_ends_a_server_that_waits_for_its_client(base: Base) -> None:
    command = [str(ORIHON), "--base-dir", str(base.path), "mcp"]
    began = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": began}).encode()
    with Child[bytes](command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment("en")) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(request + b"\n")
        started.stdin.flush()
        assert json.loads(started.stdout.readline())["result"]["serverInfo"]["name"] == "orihon"
        started.send_signal(signal.SIGINT)
        assert started.wait(PATIENCE) == -signal.SIGINT


# ---- over HTTP -------------------------------------------------------------------------------------------------------


@pytest.fixture
def served(base: Base) -> Iterator[HistoryHttpServer]:
    with HistoryHttpServer(base.path, load_settings({}, environ={}), listening_at("0"), allow_changes=True) as server:
        server.start()
        yield server


def over_http(server: HistoryHttpServer, token: str, act: Callable[[Client], Awaitable[_T]], mode: str) -> _T:
    async def ask() -> _T:
        with anyio.fail_after(PATIENCE):
            headers = {"authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
                transport = streamable_http_client(server.address, http_client=http)
                async with Client(transport, mode=mode) as client:
                    return await act(client)

    return run(ask)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_a_token_decides_whose_tasks_are_seen_and_what_is_changed(
    base: Base, served: HistoryHttpServer, mode: str
) -> None:
    looking = base.new_grant(user="ann", role="read").token
    operating = base.new_grant(user="ann", role="operate").token
    theirs = base.resolve("secret")

    async def as_ann(client: Client) -> None:
        assert [one["user"] for one in (await told(client, "list_tasks"))["tasks"]] == ["ann"]
        assert len((await client.list_resources()).resources) == 1
        found = await told(client, "search_history", query="valve_7")
        assert {hit["label"] for hit in found["hits"]} == {"local:task#hello"}
        for name in (theirs, theirs[:8], "secret"):
            assert "There is no task" in await wrong(client, "recall", task=name, seq=1)
            assert "There is no task" in await wrong(client, "search_history", query="valve_7", task=name)
        assert (await told(client, "task_overview", task="@last"))["task"]["user"] == "ann"
        with pytest.raises(MCPError):
            await client.read_resource(f"orihon://task/{theirs}/message/1")
        with pytest.raises(MCPError):
            await client.get_prompt("handoff", {"task": theirs})

    async def may_not(client: Client) -> str:
        return await wrong(client, "remember", task="hello", note="x")

    async def may(client: Client) -> Any:
        assert "There is no task" in await wrong(client, "remember", task="secret", note="x")
        return await told(client, "remember", task="hello", note="x")

    async def as_owner(client: Client) -> int:
        return len((await told(client, "list_tasks"))["tasks"])

    over_http(served, looking, as_ann, mode)
    assert "needs the role operate" in over_http(served, looking, may_not, mode)
    over_http(served, operating, may, mode)
    assert over_http(served, served.token, as_owner, mode) == 2


def raw(server: HistoryHttpServer, token: str | None, method: str, **headers: str) -> httpx2.Response:
    shown = {} if token is None else {"authorization": f"Bearer {token}"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
    if method == "initialize":
        client = {"name": "test", "version": "1"}
        body["params"] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    accepted = {"accept": "application/json, text/event-stream"}
    return httpx2.post(server.address, json=body, headers={**accepted, **shown, **headers}, timeout=PATIENCE)


def test_strangers_and_pages_from_elsewhere_are_refused(base: Base, served: HistoryHttpServer) -> None:
    assert raw(served, None, "initialize").status_code == 401
    assert raw(served, "wrong", "initialize").status_code == 401
    assert raw(served, served.token, "initialize", host="evil.example").status_code == 403
    assert raw(served, served.token, "initialize", origin="https://evil.example").status_code == 403
    assert httpx2.get(served.address.replace("/mcp", "/"), timeout=PATIENCE).status_code == 401
    bearer = {"authorization": f"Bearer {served.token}"}
    for path in ("/", "/login", "/api/tasks", "/mcp/"):
        answer = httpx2.get(served.address.replace("/mcp", path), headers=bearer, timeout=PATIENCE)
        assert (answer.status_code, answer.json()["error"]["reason"]) == (404, "no_mcp"), path
    large = httpx2.post(served.address, content=b"[" * (2 << 20), headers=bearer, timeout=PATIENCE)
    assert large.status_code == 413


def test_a_session_belongs_to_the_token_that_began_it(base: Base, served: HistoryHttpServer) -> None:
    granted = base.new_grant(user="ann", role="read")
    begun = raw(served, served.token, "initialize")
    assert begun.status_code == 200
    session = {"mcp-session-id": begun.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    assert raw(served, served.token, "ping", **session).status_code == 200
    assert raw(served, granted.token, "ping", **session).status_code == 404
    own = raw(served, granted.token, "initialize").headers["mcp-session-id"]
    same_user = base.new_grant(user="ann", role="read").token
    assert raw(served, same_user, "ping", **{**session, "mcp-session-id": own}).status_code == 404
    base.revoke_grant(granted.grant.id)

    def is_out() -> bool:
        return raw(served, granted.token, "ping", **{**session, "mcp-session-id": own}).status_code == 401

    assert any(is_out() or anyio.run(anyio.sleep, 0.5) for _ in range(60))  # within about a second


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "mcp_address"),
        ("x", "mcp_address"),
        ("70000", "mcp_address"),
        ("0.0.0.0:80", "mcp_beyond_loopback"),
        ("192.168.1.2:80", "mcp_beyond_loopback"),
        ("example.org:80", "mcp_beyond_loopback"),
        ("[::]:80", "mcp_beyond_loopback"),
        ("user@127.0.0.1:80", "mcp_address"),
    ],
)
def test_it_listens_on_this_machine_alone(address: str, reason: str) -> None:
    with refused(InvalidInput, reason):
        listening_at(address)


def test_where_it_listens() -> None:
    assert (listening_at("8378").host, listening_at("8378").port) == ("127.0.0.1", 8378)
    assert listening_at("localhost:1").host == "127.0.0.1"
    assert listening_at("[::1]:1").host == "::1"


def test_the_command_serves_over_http_until_interrupted(base: Base) -> None:
    command = [str(ORIHON), "--base-dir", str(base.path), "mcp", "--http", "0", "--json"]
    with Child[bytes](command, stdout=subprocess.PIPE, env=environment("en")) as started:
        assert started.stdout is not None
        lines = iter(started.stdout.readline, b"}\n")
        said = json.loads(b"".join(lines) + b"}")
        assert said["allow_changes"] is False
        answer = httpx2.post(
            said["address"],
            json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
            headers={"authorization": f"Bearer {said['token']}", "accept": "application/json, text/event-stream"},
            timeout=PATIENCE,
        )
        assert answer.status_code in (200, 400)  # let in; without a session there is no ping
        started.send_signal(signal.SIGTERM)
        assert started.wait(PATIENCE) == 0
