"""The README's programs run as they are printed, and every command knows their tasks; so does docs/migrating.md."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from orihon import ScriptedModel, TaskContextManager, TaskKey
from orihon.llm.scripted_dialects import Reply
from tests.acceptance.test_cli import PATIENCE, environment, run

ROOT = Path(__file__).parent.parent.parent
READMES = ["README.md", "README.ja.md"]
MIGRATING = ["docs/migrating.md", "docs/ja/migrating.md"]


def programs(name: str) -> list[str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return [textwrap.dedent(found) for found in re.findall(r"^ *```python\n(.*?)```", text, re.DOTALL | re.MULTILINE)]


def play(program: str, folder: Path, **variables: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment("en", **variables),
        timeout=PATIENCE,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("name", READMES)
def test_every_command_knows_the_task_of_the_first_program(name: str, tmp_path: Path) -> None:
    said = play(programs(name)[0], tmp_path)
    assert re.findall(r"\d+", said) == ["81", "12", "81"]
    place = ("--base-dir", tmp_path / "contexts")
    assert "local:task#hello\t81" in run(*place, "list").out
    assert "81 messages" in run(*place, "show", "hello").out
    assert "module_7.py defines 7 functions." in run(*place, "search", "module_7").out
    assert run(*place, "verify", "hello").code == 0
    (finished,) = (tmp_path / "contexts" / "completed").iterdir()
    assert (finished / "final_summary.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", READMES)
def test_the_loop_asks_the_model_and_keeps_its_answer(name: str, tmp_path: Path) -> None:
    pytest.importorskip("openai")
    with ScriptedModel([Reply("The fixture is mended.")]) as model:
        play(programs(name)[1], tmp_path, OPENAI_API_KEY="k", OPENAI_BASE_URL=f"{model.base_url}/v1")
    shown = run("--base-dir", tmp_path / "contexts", "show", "me/project#27", "--messages", "--full").out
    assert "The fixture is mended." in shown


@pytest.mark.parametrize("name", READMES)
def test_the_first_screen_has_all_that_is_needed(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert lines.index("```", lines.index("```python")) <= 25
    assert len(programs(name)[0].splitlines()) <= 12
    wanted = ("pip install orihon", "orihon demo", "from orihon import Base", "make check test")
    positions = [next(number for number, line in enumerate(lines) if words in line) for words in wanted]
    assert positions == sorted(positions)
    assert positions[-1] < 35


@pytest.mark.parametrize("name", READMES)
def test_the_links_fit_a_screen_and_lead_somewhere(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not (ROOT / link).exists()] == []
    pages = {path.name for path in (ROOT / "docs" / ("ja" if ".ja." in name else "")).glob("*.md")}
    assert pages <= {Path(link).name for link in links}
    assert len(text[text.rindex("\n## ") :].splitlines()) <= 25


def test_both_readmes_have_the_same_programs() -> None:
    assert programs(READMES[0]) == programs(READMES[1])


# ---- from a list in memory -----------------------------------------------------------------------------------------

_BEFORE = """
from types import SimpleNamespace
self, task_id, config, client, text = SimpleNamespace(messages=[]), "hello", {}, None, "Step 1"
"""


@pytest.mark.parametrize("name", MIGRATING)
def test_step_six_finds_what_the_bare_store_has_kept(name: str, tmp_path: Path) -> None:
    replace_the_list, fold_instead, give_a_life = programs(name)
    more = "for number in range(80): self.store.append({'role': 'user', 'content': f'Step {number + 2}'})\n"
    send_the_view = "assert len(self.store.get_messages_for_llm()) == 81\n"
    play(_BEFORE + replace_the_list + more + send_the_view + fold_instead, tmp_path)
    play(_BEFORE + give_a_life + "assert len(self.task.log()) == 82\nself.task.stop()\n", tmp_path)
    base_dir = tmp_path / "contexts"
    assert "\thello\t" in "\t" + run("--base-dir", base_dir, "list").out
    assert run("--base-dir", base_dir, "verify", "hello").code == 0
    with TaskContextManager(base_dir, TaskKey("local", "", "", "task", "hello"), uuid="hello") as context:
        assert context.message_store.count_messages() == 82
