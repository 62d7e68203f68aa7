"""What our saver and store promise besides: run by pytest in LangGraph's environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.errors import InvalidUpdateError
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from orihon.adapters.langgraph import OrihonSaver, OrihonStore
from orihon.base import Base

HOLDER = """
import sys
from orihon.base import Base
task = Base(sys.argv[1], {"context_storage": {"backend": sys.argv[2]}}).task("hello")
task.add("user", "mine")
print("held", flush=True)
sys.stdin.readline()
task.stop()
"""
SECRET = "ghp_" + "a1B2" * 9


class State(TypedDict):
    messages: Annotated[list[Any], add_messages]
    turns: int


@pytest.fixture(params=["files", "sqlite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Base]:
    with Base(tmp_path / "base", {"context_storage": {"backend": request.param, "durability": "os"}}) as opened:
        yield opened


def graph(saver: OrihonSaver, rounds: int = 1) -> Any:
    """Each round a call of a tool and its result."""

    def agent(state: State) -> dict[str, Any]:
        turn = state.get("turns", 0) + 1
        call = {"name": "look", "args": {"where": f"place {turn} " * 8}, "id": f"call-{turn}", "type": "tool_call"}
        said = AIMessage(f"answer {turn}", id=f"ai-{turn}", tool_calls=[call])
        found = ToolMessage(f"found {turn}", tool_call_id=f"call-{turn}", id=f"tool-{turn}")
        return {"messages": [said, found], "turns": turn}

    builder = StateGraph(State)
    builder.add_node("agent", agent)
    builder.add_edge(START, "agent")
    builder.add_conditional_edges("agent", lambda state: END if state["turns"] >= rounds else "agent", ["agent", END])
    return builder.compile(checkpointer=saver)


def config(thread: str = "hello") -> dict[str, Any]:
    return {"configurable": {"thread_id": thread}, "recursion_limit": 1000}


def test_messages_are_in_the_log_once_whatever_the_number_of_checkpoints(base: Base) -> None:
    with OrihonSaver(base) as saver:
        asked = graph(saver, rounds=20)
        asked.invoke({"messages": [HumanMessage("go", id="h")]}, config(), durability="sync")
        state = asked.get_state(config()).values["messages"]
    log = base.task("hello").log()
    assert [stored.message.role for stored in log] == ["user", *["assistant", "tool"] * 20]
    assert len(state) == 41
    assert [message.id for message in state[:3]] == ["h", "ai-1", "tool-1"]
    assert state[1].tool_calls[0]["args"] == {"where": "place 1 " * 8}


def test_a_record_is_no_longer_in_a_longer_thread(base: Base) -> None:
    with OrihonSaver(base) as saver:
        graph(saver, rounds=60).invoke({"messages": [HumanMessage("go", id="h")]}, config(), durability="sync")
        store = base.task("hello").context.task_store
        sizes = [len(line) for line in store.records.read("checkpoints")]
    assert max(sizes[-20:]) <= max(sizes[10:40]) * 1.1


def test_another_process_goes_on(base: Base, tmp_path: Path) -> None:
    with OrihonSaver(base) as saver:
        graph(saver).invoke({"messages": [HumanMessage("go", id="h")]}, config())
    with OrihonSaver(Base(base.path, base.settings)) as other:
        found = graph(other, rounds=2)
        assert len(found.get_state(config()).values["messages"]) == 3
        assert found.invoke({"messages": [HumanMessage("more", id="h2")]}, config())["turns"] == 2


def test_a_thread_of_another_process_is_refused_in_their_own_type(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orihon.adapters.open_tasks._PATIENCE", 0.0)
    backend = base.settings.context_storage.backend
    command = [sys.executable, "-c", HOLDER, str(base.path), backend]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with OrihonSaver(base) as saver, pytest.raises(InvalidUpdateError, match="belongs to"):
            graph(saver).invoke({"messages": [HumanMessage("go")]}, config())
        holder.communicate("\n")


def test_secrets_are_masked_in_messages_and_plain_values(base: Base) -> None:
    with OrihonSaver(base) as saver:
        graph(saver).invoke({"messages": [HumanMessage(f"my token is {SECRET}", id="h")]}, config())
        again = graph(saver).get_state(config()).values["messages"][0]
    assert SECRET not in again.content
    assert again.content.startswith("my token is ")
    for path in base.path.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_what_cannot_be_kept_is_named_and_nothing_is_written(base: Base) -> None:
    class Odd:
        def __reduce__(self) -> Any:
            raise TypeError("no")

    with OrihonSaver(base) as saver:
        names = {"configurable": {"thread_id": "odd", "checkpoint_ns": ""}}
        checkpoint = {"v": 4, "id": "1", "ts": "", "channel_versions": {"x": "1"}, "versions_seen": {}}
        with pytest.raises(ValueError, match=r"channel_values\.x cannot be kept"):
            saver.put(names, {**checkpoint, "channel_values": {"x": Odd()}}, {}, {"x": "1"})
        assert saver.get_tuple(names) is None
        with pytest.raises(ValueError, match="pruning"):
            saver.prune(["odd"], strategy="all")
        with pytest.raises(ValueError, match="thread_id"):
            saver.get_tuple({"configurable": {}})


def test_messages_that_another_framework_has_written_can_be_read(base: Base) -> None:
    with OrihonSaver(base) as saver:
        graph(saver).invoke({"messages": [HumanMessage("go", id="h")]}, config())
    task = base.task("hello")
    assert [message["role"] for message in task.messages()] == ["user", "assistant", "tool"]
    assert "langchain" not in task.messages()[1]
    task.stop()


def test_a_store_remembers(base: Base) -> None:
    store = OrihonStore(base)
    store.put(("users", "ann"), "likes", {"drink": "tea", "token": SECRET})
    store.put(("users", "bob"), "likes", {"drink": "coffee"})
    store.delete(("users", "bob"), "likes")
    again = OrihonStore(base)
    item = again.get(("users", "ann"), "likes")
    assert item is not None
    assert item.value["drink"] == "tea"
    assert SECRET not in str(item.value)
    assert [one.key for one in again.search(("users",), filter={"drink": "tea"})] == ["likes"]
    assert again.get(("users", "bob"), "likes") is None
    with pytest.raises(ValueError, match=r"value\.x cannot be kept"):
        store.put(("users",), "odd", {"x": object()})
