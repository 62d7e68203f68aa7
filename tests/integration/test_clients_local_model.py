"""``OpenAIClient`` talks to a real model over real HTTP, streamed and whole, and survives its real overflow.

``make test`` installs the model. Elsewhere the tests are skipped where it is missing, in continuous integration never.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon.llm.openai import OpenAIClient
from tests.integration.local_model import WINDOW, needs_model, served_model

pytestmark = needs_model


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served_model() as address:
        yield address


def client_at(url: str, folder: Path, **more: Any) -> OpenAIClient:
    section = {"base_url": url, "model": "smollm2", "max_token": 24, **more.pop("section", {})}
    config = {"llm": {"openai": section}, "compression": {"keep_recent": 1, "min_to_compress": 2}}
    return OpenAIClient(config, context_dir=folder, **more)


@pytest.mark.parametrize("stream", [True, False])
def test_a_conversation(url: str, tmp_path: Path, stream: bool) -> None:
    client = client_at(url, tmp_path / "task", stream=stream, section={"context_length": WINDOW})
    client.send_system_prompt("You answer in one short sentence.")
    client.send_user_message("What is the capital of France?")
    shown: list[str] = []
    text, calls = client.get_response(on_text=shown.append)
    assert text.strip()
    assert calls == []
    assert "".join(shown) == text
    assert client.last_usage.input > 10
    assert client.last_usage.output > 0
    assert client.message_store is not None
    assert client.message_store.correction.factor != 1.0
    assert client.message_store.get_message(3).message.content == text
    client.close()


def test_the_real_overflow_leads_to_a_compression(url: str, tmp_path: Path) -> None:
    client = client_at(url, tmp_path / "task", section={"context_length": 32_000})  # much more than there is
    client.send_system_prompt("You answer in one short sentence.")
    for number in range(40):
        client.send_user_message(f"Step {number}: module_{number} reads orders_{number}.csv and writes {number} rows.")
    client.send_user_message("Say hello.")
    text, _ = client.get_response()
    assert text.strip()
    assert client.message_store is not None
    assert [record.kind for record in client.message_store.compressions()] == ["compress"]
    client.close()


def test_one_completion_outside_the_conversation(url: str, tmp_path: Path) -> None:
    client = client_at(url, tmp_path / "task")
    answer = client.create_chat_completion([{"role": "user", "content": "Say hello."}], max_tokens=8, temperature=0.0)
    assert answer["choices"][0]["message"]["content"].strip()
    assert answer["usage"]["completion_tokens"] <= 8
    client.close()
