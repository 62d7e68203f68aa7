"""What our session promises besides: run by pytest in the environment of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.exceptions import UserError

from orihon.adapters.openai_agents import OrihonCompactionSession, OrihonSession
from orihon.base import Base

SECRET = "ghp_" + "a1B2" * 9
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": '{"where": "here"}'}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "found " * 20}
ITEMS: list[Any] = [
    {"role": "user", "content": "Where is it?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x" * 100},
    CALL,
    {**CALL, "id": "fc_2", "call_id": "c2"},
    RESULT,
    {**RESULT, "call_id": "c2"},
    {"type": "message", "role": "assistant", "id": "m", "status": "completed", "content": [
        {"type": "output_text", "text": "It is here, in the second drawer from above.", "annotations": []}
    ]},
]  # fmt: skip


@pytest.fixture(params=["files", "sqlite"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Base]:
    with Base(tmp_path / "base", {"context_storage": {"backend": request.param, "durability": "os"}}) as opened:
        yield opened


def test_items_come_back_as_they_were_and_the_log_is_legal(base: Base) -> None:
    session = OrihonSession("hello", base)
    asyncio.run(session.add_items(ITEMS))
    assert asyncio.run(session.get_items()) == ITEMS
    assert asyncio.run(session.get_items(limit=2)) == ITEMS[-2:]
    session.close()
    roles = [message["role"] for message in base.task("hello").messages()]
    assert roles == ["user", "assistant", "tool", "tool", "assistant"]


def test_odd_histories_are_kept_all_the_same(base: Base) -> None:
    session = OrihonSession("hello", base)
    odd: list[Any] = [RESULT, CALL, {"role": "user", "content": "stop"}, CALL, RESULT, {"type": "new_kind", "x": 1}]
    for item in odd:
        asyncio.run(session.add_items([item]))
    assert asyncio.run(session.get_items()) == odd


def test_what_is_popped_or_cleared_stays_in_the_log(base: Base) -> None:
    session = OrihonSession("hello", base)
    asyncio.run(session.add_items(ITEMS))
    assert asyncio.run(session.pop_item()) == ITEMS[-1]
    assert asyncio.run(session.pop_item()) == ITEMS[-2]
    assert asyncio.run(session.get_items()) == ITEMS[:-2]
    session.close()
    task = base.task("hello")
    assert len(task.log()) == 5
    uuid = task.context.uuid
    task.stop()
    asyncio.run(session.clear_session())
    assert asyncio.run(session.get_items()) == []
    assert asyncio.run(session.pop_item()) is None
    asyncio.run(session.add_items(ITEMS[:1]))
    assert asyncio.run(session.get_items()) == ITEMS[:1]
    assert len(base.overview(uuid).last_messages) == 5


def test_the_model_gets_the_folded_view(tmp_path: Path) -> None:
    settings = {"llm": {"openai": {"context_length": 4000}}, "context_storage": {"durability": "os"}}
    session = OrihonCompactionSession("long", Base(tmp_path, settings))
    for number in range(60):
        said = {"role": "user" if number % 2 else "assistant", "content": f"{number}: " + "some words " * 40}
        asyncio.run(session.add_items([said]))
    asyncio.run(session.run_compaction())
    items = asyncio.run(session.get_items())
    assert len(items) < 60
    assert items[-1]["content"].startswith("59: ")
    session.close()
    assert len(session.base.task("long").log()) == 60


def test_secrets_and_bad_input(base: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    session = OrihonSession("hello", base)
    with pytest.raises(ValueError, match=r"items\[1\]\.content cannot be kept"):
        asyncio.run(session.add_items([ITEMS[0], {"role": "user", "content": object()}]))
    assert asyncio.run(session.get_items()) == []
    asyncio.run(session.add_items([{"role": "user", "content": f"my token is {SECRET}"}]))
    assert SECRET not in str(asyncio.run(session.get_items()))
    session.close()
    monkeypatch.setattr("orihon.adapters.open_tasks._PATIENCE", 0.0)
    task = Base(base.path, base.settings).task("hello")  # somebody else
    with pytest.raises(UserError, match="belongs to"):
        asyncio.run(session.add_items(ITEMS[:1]))
    task.stop()
