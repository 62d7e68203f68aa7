"""``orihon costs`` and ``orihon metrics``, by the real executable."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from orihon.catalogue import Catalogue
from tests.acceptance.test_cli import ORIHON, PATIENCE, environment, run, run_on_terminal
from tests.damage import paused_task
from tests.helpers import Child
from tests.unit.test_counts import parsed


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A task that has used two models, one of which has a price."""
    base = tmp_path / "contexts"
    uuid, _ = paused_task(base, "files")
    with Catalogue(base / "tasks.db") as catalogue:
        catalogue.usage.add(uuid, "gpt-4o", "2026-03-01", calls=4, input=1_000_000, output=100_000, saved=500_000)
        catalogue.usage.add(uuid, "myst\x1b[31mery", "2026-03-02", calls=2, input=10)
    return base


def test_costs_are_printed_for_programs_and_what_has_no_price_is_said(base: Path) -> None:
    ended = run("--base-dir", base, "costs", "--by", "model")
    assert ended.code == 0
    rows = [line.split("\t") for line in ended.out.splitlines()]
    assert rows[0] == ["gpt-4o", "4", "1000000", "0", "100000", "3.500000", "500000", "1.250000"]
    assert rows[1][0].startswith("myst\\x1b")
    assert rows[1][5] == "-"
    assert rows[2] == ["total", "6", "1000010", "0", "100000", "3.500000", "500000", "1.250000"]
    assert "2 calls have no price: myst\\x1b" in ended.err
    assert "価格の分からない呼び出しが 2 回" in run("--base-dir", base, "costs", language="ja").err


def test_of_very_many_models_without_a_price_the_first_are_named(base: Path) -> None:
    with Catalogue(base / "tasks.db") as catalogue:
        (row,) = catalogue.tasks.page()
        for number in range(20):
            catalogue.usage.add(row.uuid, f"house-{number:02}", "2026-03-01", input=1)
    said = run("--base-dir", base, "costs", "--by", "day").err
    assert "house-09, …." in said
    assert "house-10" not in said


def test_costs_as_json_have_everything(base: Path) -> None:
    found: dict[str, Any] = json.loads(run("--base-dir", base, "costs", "--by", "day", "--json").out)
    assert (found["by"], found["since"], found["left_out"]) == ("day", None, 0)
    assert [line["name"] for line in found["lines"]] == ["2026-03-01", "2026-03-02"]
    assert found["lines"][1]["cost"] is None
    assert found["total"]["net_saved_cost"] == pytest.approx(1.25)
    since = json.loads(run("--base-dir", base, "costs", "--since", "2026-03-02", "--json").out)
    assert since["total"]["calls"] == 2


def test_a_terminal_shows_a_table_in_both_languages(base: Path) -> None:
    english = run_on_terminal("--base-dir", base, "costs").out
    assert "saved tokens" in english
    assert "3.50+" in english, "the sum is known in part only"
    japanese = run_on_terminal("--base-dir", base, "costs", "--by", "model", language="ja").out
    assert "節約トークン" in japanese
    assert "価格なし" in japanese


@pytest.mark.parametrize(
    ("arguments", "english", "japanese"),
    [
        (["costs", "--by", "colour"], "task, user, repository, model, day", "task, user, repository, model, day"),
        (["costs", "--since", "soon"], "Write days as 2026-01-31", "2026-01-31 のように"),
        (["metrics", "--port", "0", "--json"], "--port and --json", "--port"),
        (["metrics", "--port", "0", "--host", "no such"], "Cannot listen at no such", "待ち受けできません"),
    ],
)
def test_mistakes_are_said_in_one_line(base: Path, arguments: list[str], english: str, japanese: str) -> None:
    for language, words in (("en", english), ("ja", japanese)):
        ended = run("--base-dir", base, *arguments, language=language)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
        assert words in ended.err


def test_metrics_of_other_processes_are_printed_once(base: Path) -> None:
    ended = run("--base-dir", base, "metrics")
    assert (ended.code, ended.err) == (0, "")
    found = parsed(ended.out)
    assert found["orihon_tasks"]['orihon_tasks{status="paused"}'] == 1
    assert found["context_messages"]['context_messages_total{role="user",task_source="github"}'] == 4
    as_json = json.loads(run("--base-dir", base, "metrics", "--json").out)["metrics"]
    assert as_json['orihon_tasks{status="paused"}'] == 1


def test_metrics_are_served_until_somebody_interrupts(base: Path) -> None:
    command = [str(ORIHON), "--base-dir", str(base), "metrics", "--port", "0"]
    with Child(command, env=environment("en"), stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        line = server.stderr.readline()
        assert line.startswith("Metrics at http://127.0.0.1:")
        answer = httpx.get(line.split()[2].rstrip(";"), timeout=60)
        assert parsed(answer.text)["orihon_tasks"]['orihon_tasks{status="paused"}'] == 1
        server.send_signal(signal.SIGINT)
        assert server.wait(PATIENCE) == 130
