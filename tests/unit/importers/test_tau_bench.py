"""tau-bench and tau2-bench."""

from __future__ import annotations

import json
from pathlib import Path

from tests.importing_agents import make_tau, make_tau2, told, write_json


def test_trials_are_threads(tmp_path: Path) -> None:
    run = told("tau-bench", make_tau(tmp_path))
    first, second = run.threads
    assert first.id.endswith("-3-0")
    assert second.id.endswith("-3-1")
    assert (first.title, first.about["reward"]) == ("You want pears.", 1.0)
    assert [(item.message.role, item.message.text) for item in run.of[first.id]] == [
        ("system", "# Shop policy"),
        ("user", "How many pears?"),
        ("assistant", ""),
        ("tool", "17"),
        ("assistant", "17 pears."),
    ]
    assert run.calls == [("c1", "count", {"what": "pears"})]


def test_a_simulation(tmp_path: Path) -> None:
    run = told("tau-bench", make_tau2(tmp_path))
    (thread,) = run.threads
    assert (thread.id, thread.title, thread.model) == ("51a1-0000", "shop 3", "gpt-4.1")
    assert run.lines == [
        ("assistant", "Hi!"),
        ("user", ""),
        ("tool", "dark"),
        ("user", "How many pears?"),
        ("assistant", ""),
        ("tool", "17"),
        ("assistant", "17 pears."),
    ]
    assert run.used == [("gpt-4.1", 100, 0, 20, 0.02), ("gpt-4.1", 100, 0, 20, 0.01)]
    assert [(tool.call_id, tool.status) for tool in run.tools] == [("a1", "error")]


def test_the_customer_has_tools_too(tmp_path: Path) -> None:
    run = told("tau-bench", make_tau2(tmp_path))
    assert [item.message.role for item in run.said if item.message.tool_calls] == ["user", "assistant"]


def test_a_simulation_in_a_file_of_its_own(tmp_path: Path) -> None:
    run = json.loads(make_tau2(tmp_path).read_text(encoding="utf-8"))
    alone = told("tau-bench", write_json(tmp_path / "simulations" / "a.json", run["simulations"][0]))
    assert alone.lines == told("tau-bench", make_tau2(tmp_path)).lines
