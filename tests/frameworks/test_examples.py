"""The examples for frameworks run as they are, against a scripted model, and leave their task."""

from __future__ import annotations

from pathlib import Path

import pytest

from orihon.base import Base
from tests.frameworks.environments import REPOSITORY, needed, run
from tests.upstream import Reply, Upstream


@pytest.mark.parametrize("framework", ["langgraph", "openai_agents"])
def test_an_example(framework: str, tmp_path: Path) -> None:
    needed(framework)
    example = REPOSITORY / "examples" / f"{framework}_agent.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) < 40
    (tmp_path / "notes.txt").write_text("The deadline is the 3rd of May.")
    steps = [Reply("", calls=[("read_file", {"path": "notes.txt"})]), Reply("It is the 3rd of May.")]
    with Upstream(steps) as upstream:
        told = {"OPENAI_BASE_URL": f"{upstream.base_url}/v1", "OPENAI_API_KEY": "sk-test"}
        ran = run(framework, str(example), cwd=tmp_path, environment=told)
    assert ran.stdout.strip().splitlines()[-1] == "It is the 3rd of May.", ran.stdout
    assert upstream.flaws == []
    with Base(tmp_path / "contexts") as base:
        roles = [stored.message.role for stored in base.task("notes").log()]
    assert roles == ["user", "assistant", "tool", "assistant"]
