"""Canaries in what people are asked and say, in what collectors of spans and metrics get, and in streamed pieces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, follow_messages
from orihon.drivers import tracing
from orihon.errors import Waiting
from orihon.llm.scripted import Reply
from orihon.reports.metrics.server import collect_metrics
from orihon.settings import load_settings
from orihon.tasks.approvals.answers import approve, pending, reject, revise
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from tests.integration.agents import world
from tests.integration.test_canary import ALL, CANARIES, KEY, TOKEN, config, found_in
from tests.integration.test_tracing import Collector, collector

__all__ = ["collector", "config"]


def alive_in(text: str | bytes) -> list[str]:
    """The canaries that a text still has."""
    data = text.encode() if isinstance(text, str) else text
    return [kind for kind, (_, secret) in CANARIES.items() if secret.encode() in data]


def test_questions_and_answers_are_masked(tmp_path: Path, config: dict[str, Any]) -> None:
    base = tmp_path / "base"
    settings = load_settings(config, environ={})
    decisions: list[Callable[[str], object]] = [
        lambda uuid: reject(OpenBase(base, settings), uuid, by=f"ann {TOKEN}", reason=ALL),
        lambda uuid: revise(OpenBase(base, settings), uuid, by="ann", instructions=ALL),
        lambda uuid: approve(OpenBase(base, settings), uuid, by="ann", reason=ALL),
    ]
    for decide in decisions:
        context = TaskContextManager(base, KEY, settings)
        context.phase("planning")
        context.message_store.add_message("user", "go on")
        with pytest.raises(Waiting):
            context.checkpoint("plan", ALL, ALL)
        [asked] = pending(OpenBase(base, settings))
        assert alive_in(str(asked.as_dict())) == []
        decide(context.uuid)
    assert found_in(tmp_path, config) == {}


def test_streamed_pieces_reach_nobody_before_they_are_whole(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's answer comes in pieces of a few letters; every sink has the whole of it, masked."""
    monkeypatch.setattr(tracing, "_EXPORT_SECONDS", 300.0)  # what comes too late is dropped, and nothing would be seen
    replies = [Reply(ALL, calls=[("effects_write", {"text": ALL})]), Reply(ALL)]
    sections = {"tracing": {"endpoint": collector.url, "content": True}}
    with world(tmp_path, replies, sections) as made:
        uuid = made.put(ALL)
        assert made.work() is TaskStatus.COMPLETED
        settings = made.settings
    followed = list(follow_messages(tmp_path, uuid, settings, after=0))
    assert any("[GITHUB_TOKEN]#" in stored.message.text for stored in followed)
    assert alive_in("\n".join(str(stored.message.body()) for stored in followed)) == []
    sent = b"".join(request.SerializeToString() for request in collector.requests)
    assert b"[GITHUB_TOKEN]#" in sent
    assert alive_in(sent) == []
    assert alive_in(collect_metrics(tmp_path, settings)) == []
