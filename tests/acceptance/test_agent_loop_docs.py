"""The programs of docs/agent-loop.md and docs/python.md run as printed, with the SDKs of providers, over real HTTP."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orihon import Base, ScriptedModel
from orihon.llm.scripted import ScriptedRequest
from orihon.llm.scripted_dialects import Reply
from tests.acceptance.test_cli import PATIENCE, environment, run

ROOT = Path(__file__).parents[2]
PAGES = ["agent-loop.md", "ja/agent-loop.md"]
CALL = Reply("I look.", [("read_file", {"path": "notes.txt"})])


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def play(program: str, folder: Path, script: list[Reply] | Callable[[ScriptedRequest], Reply]) -> tuple[str, list[str]]:
    """What a program prints, and the paths that it asked the model at."""
    with ScriptedModel(script) as model:
        keys = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}
        places = {"OPENAI_BASE_URL": f"{model.base_url}/v1", "ANTHROPIC_BASE_URL": model.base_url}
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            env=environment("en", **keys, **places),
            timeout=PATIENCE,
            check=False,
            capture_output=True,
            text=True,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout, [request.path for request in model.requests]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "notes.txt").write_text("def login(): ...\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("number", "sdk", "path"), [(0, "openai", "/v1/chat/completions"), (1, "anthropic", "/v1/messages")]
)
def test_a_loop_calls_tools_and_its_task_is_seen_by_every_command(
    folder: Path, number: int, sdk: str, path: str
) -> None:
    pytest.importorskip(sdk)
    said, asked = play(blocks(PAGES[0], "python")[number], folder, [CALL, Reply("It names login.")])
    assert said == "It names login.\n"
    assert asked == [path, path]
    key = f"me/project#{27 + number}"
    with Base(folder / "contexts") as base:
        (listed,) = base.tasks().tasks
        assert (listed.row.status.value, listed.row.total_messages) == ("completed", 5)
        assert base.verify(key) == []
    place = ("--base-dir", folder / "contexts")
    assert "def login(): ..." in run(*place, "show", key, "--messages", "--full").out
    assert "notes.txt" in run(*place, "search", "notes.txt").out


@pytest.mark.parametrize("number", [0, 1])
def test_a_loop_that_was_killed_goes_on_with_the_calls_it_left(folder: Path, number: int) -> None:
    pytest.importorskip(["openai", "anthropic"][number])
    task = Base(folder / "contexts").task(f"me/project#{27 + number}")
    task.add("user", "Which function does notes.txt name?")
    task.append({"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": READ}]})
    task.close()  # as a dead process leaves it: still running
    said, asked = play(blocks(PAGES[0], "python")[number], folder, [Reply("It names login.")])
    assert (said, len(asked)) == ("It names login.\n", 1)
    with Base(folder / "contexts") as base:
        (listed,) = base.tasks().tasks
        assert (listed.row.status.value, listed.row.total_messages) == ("completed", 4)


READ = {"name": "read_file", "arguments": '{"path": "notes.txt"}'}


def test_async_tasks_run_side_by_side(folder: Path) -> None:
    pytest.importorskip("openai")

    def answer(request: ScriptedRequest) -> Reply:
        return Reply(re.findall(r"\d+", request.body["messages"][-1]["content"])[0])

    said, asked = play(blocks(PAGES[0], "python")[2], folder, answer)
    assert said == "['31', '32', '33', '34', '35']\n"
    assert len(asked) == 5
    with Base(folder / "contexts") as base:
        assert [listed.row.status.value for listed in base.tasks().tasks] == ["completed"] * 5


@pytest.mark.parametrize("page", ["python.md", "ja/python.md"])
def test_the_program_of_the_reference_runs(page: str, tmp_path: Path) -> None:
    (program,) = blocks(page, "python")
    said, asked = play(program, tmp_path, [])
    assert asked == []
    assert "expired" in said.splitlines()[0]
    assert "token" in said.splitlines()[1]


def test_both_pages_show_the_same() -> None:
    english, japanese = PAGES
    assert blocks(english, "python") == blocks(japanese, "python")
    assert len(blocks(english, "python")) == 3
    for page in PAGES:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#]+)", text):
            assert ((ROOT / "docs" / page).parent / link).exists(), link
