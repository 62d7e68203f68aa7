"""Every example runs as it stands, against a model on loopback, and leaves its task behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orihon import Base
from tests.frameworks.test_suites import ROOT, environment, framework_python
from tests.upstream import Reply, Upstream

EXAMPLES = ROOT / "examples"
#: The example, and the messages that its task has afterwards.
KEPT = {"langchain_agent": 5, "llama_index_memory": 3, "pydantic_ai_agent": 5}
ANSWER = "It is the 3rd of May."


@pytest.mark.parametrize("name", KEPT)
def test_example(name: str, tmp_path: Path) -> None:
    example = EXAMPLES / f"{name}.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) < 40
    (tmp_path / "notes.txt").write_text("The deadline is the 3rd of May.", encoding="utf-8")
    look = Reply("", calls=[("read_file", {"path": "notes.txt"})])
    steps = [look, Reply(ANSWER)] if KEPT[name] > 3 else [Reply(ANSWER)]
    with Upstream(steps) as upstream:
        told = {"OPENAI_BASE_URL": f"{upstream.base_url}/v1", "OPENAI_API_KEY": "sk-test", "MODEL": "scripted"}
        done = subprocess.run(
            [framework_python(), str(example)], cwd=tmp_path, env=environment(**told), capture_output=True, text=True
        )
    assert ANSWER in done.stdout, done.stdout[-2000:] + done.stderr[-4000:]
    assert done.returncode == 0, done.stderr[-4000:]
    assert upstream.flaws == []
    with Base(tmp_path / "contexts") as base:
        (found,) = base.tasks().tasks
        task = base.task(found.row.uuid)
        assert len(task.log()) == KEPT[name]
        assert "3rd of May" in str(task.messages())
        task.close()
