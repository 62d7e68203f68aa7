"""One rate for all who share a catalogue."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.catalogue import Catalogue
from orihon.llm.openai import OpenAIClient
from orihon.llm.retry import RateLimit
from orihon.llm.scripted import Reply, ScriptedModel
from tests.catalogues import CHILD, CataloguePlace


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    with place.open() as opened:
        yield opened


def test_what_was_saved_up_is_free_and_the_rest_waits_in_order(catalogue: Catalogue) -> None:
    limit = RateLimit(catalogue.rate_limits, per_minute=0.06, burst=3)
    waits = [limit.take("openai") for _ in range(6)]
    assert waits[:3] == [0.0, 0.0, 0.0]
    assert waits[3:] == pytest.approx([1000, 2000, 3000], abs=300)
    assert limit.take("ollama") == 0.0  # each provider has its own


def test_a_provider_may_have_its_own_rate(catalogue: Catalogue) -> None:
    limit = RateLimit(catalogue.rate_limits, per_minute=0.06, by_provider={"anthropic": 0.006})
    assert [limit.take("openai"), limit.take("anthropic")] == [0.0, 0.0]
    assert limit.take("openai") == pytest.approx(1000, abs=300)
    assert limit.take("anthropic") == pytest.approx(10_000, abs=300)


@pytest.mark.parametrize(
    ("level", "ago", "boot", "wait"),
    [
        (-3.0, 2000.0, "this", 2000.0),  # two of the three that are owed have come in since
        (-3.0, 1e6, "this", 0.0),
        (2.0, 1e6, "this", 0.0),
        (-3.0, 0.0, "another", 0.0),  # the clock began anew with the boot
        (-3.0, -5000.0, "this", 0.0),
    ],
)
def test_the_bucket_fills_again_but_never_over(
    catalogue: Catalogue, level: float, ago: float, boot: str, wait: float
) -> None:
    with catalogue._db.write() as statements:
        moment = statements.moment()
        at = moment.seconds - ago
        named = moment.era if boot == "this" else boot
        statements.run("set_permissions", provider="p", level=level, counted_at=at, boot=named)
    waits = [catalogue.rate_limits.take("p", per_second=0.001, burst=2) for _ in range(3)]
    assert waits[0] == pytest.approx(wait, abs=300)
    assert waits[2] - wait == pytest.approx(2000 if wait else 1000, abs=300)


def test_processes_share_one_bucket(place: CataloguePlace) -> None:
    place.open().close()
    code = f"{CHILD}print(*[catalogue.rate_limits.take('p', per_second=0.001, burst=20) for _ in range(10)])"
    command = [sys.executable, "-c", code, *place.arguments]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    waits = [float(wait) for process in running for wait in process.communicate(timeout=300)[0].split()]
    assert len(waits) == 40
    assert waits.count(0.0) == 20
    assert len(set(waits)) == 21  # no two of the others were given the same moment


def test_a_client_waits_for_its_permission(tmp_path: Path) -> None:
    with ScriptedModel(lambda _: Reply("ok")) as model, Catalogue(tmp_path / "tasks.db") as catalogue:
        limit = RateLimit(catalogue.rate_limits, per_minute=150)
        config = {"llm": {"openai": {"base_url": model.base_url}}}
        clients = [OpenAIClient(config, rate_limit=limit) for _ in range(2)]
        began = time.monotonic()
        for client in (*clients, clients[0]):
            client.send_user_message("hi")
            assert client.get_response() == ("ok", [])
            client.close()
        assert time.monotonic() - began >= 0.8  # two waits of 0.4 s
