"""The pages about compression: their programs and commands run as printed, and what they name exists."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args
from xml.etree import ElementTree

import pytest
import typer

from orihon import TaskContextManager, errors
from orihon.classic.documents import compress_level3
from orihon.cli.main import build
from orihon.compression import compressor, contract, pages
from orihon.compression.ladder import Ladder, ladder_of
from orihon.compression.model import call
from orihon.compression.strategies.prune import PruneSelection
from orihon.notifications import notification as notice
from orihon.runtime.context_tools import RECALL
from orihon.settings import Settings, load_settings
from orihon.settings.rungs import EVENTS, LEVELS, PRICE_NAMES, STRATEGIES, Rung
from orihon.values.records import FoldReport
from tests.acceptance.test_cli import ORIHON, environment

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["compression.md", "ja/compression.md"]
PRESETS = ("default", "coding-agent", "companion", "phases")
WHY_NOT = tuple(reason.value for reason in pages.WhyNot)
NOTICES = get_args(notice.NoticeKind)
STEPS = 99
PATIENCE = 600.0  # for a page's programs, or for all of its commands


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


def named(page: str) -> set[str]:
    """What stands in backticks outside of code blocks."""
    prose = re.sub(r"^```.*?^```", "", read(page), flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"`([^`\n]+)`", prose))


@pytest.mark.parametrize("page", PAGES)
def test_the_document_on_the_page_becomes_what_is_printed(page: str) -> None:
    before, after = blocks(page, "markdown")
    assert compress_level3(before) == after
    assert after != before


SAMPLES = {"en": "coding.jsonl", "ja": "service.ja.jsonl", "zh": "coding.zh.jsonl"}


def shown_notes(page: str) -> dict[str, tuple[list[str], str]]:
    """By transcript: the command, and the notes below it."""
    found = re.findall(r"`(orihon squeeze docs/samples/(\S+) [^`]*)`:\n\n```text\n(.*?)^```", read(page), re.S | re.M)
    return {sample: (command.split(), notes.rstrip("\n")) for command, sample, notes in found}


def test_both_pages_show_notes_in_every_language_that_they_know() -> None:
    english, japanese = map(shown_notes, PAGES)
    assert english == japanese
    assert {*english} == {*SAMPLES.values()}


@pytest.mark.parametrize("sample", SAMPLES.values())
def test_the_notes_on_the_page_are_those_that_its_command_makes(sample: str) -> None:
    (_, *arguments), shown = shown_notes(PAGES[0])[sample]
    command = [str(ORIHON), *arguments]
    printed = subprocess.run(command, cwd=DOCS.parent, env=environment("en"), check=True, capture_output=True).stdout
    assert shown in [json.loads(line)["content"] for line in printed.splitlines()], "run 'make docs'"


@pytest.mark.parametrize("sample", SAMPLES.values())
def test_of_every_word_of_a_user_the_notes_say_where_it_is(sample: str) -> None:
    _, shown = shown_notes(PAGES[0])[sample]
    lines = (DOCS / "samples" / sample).read_text("utf-8").splitlines()
    first, last = (int(number) for number in re.findall(r"\d+", shown.split("\n")[1])[:2])
    said = [seq for seq, line in enumerate(lines, 1) if json.loads(line)["role"] == "user" and first <= seq <= last]
    listed = [int(number) for more in re.findall(r"^\(\+ (.*)\)$", shown, re.M) for number in re.findall(r"\d+", more)]
    assert len(said) >= 2
    assert [seq for seq in said if f"\n{seq} user: " not in shown and seq not in listed] == []


# ---- what is printed runs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=PAGES)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A page, and an empty folder in which its programs were run, one after the other, as one."""
    folder = tmp_path_factory.mktemp("page")
    program = "\n".join(blocks(request.param, "python"))
    subprocess.run([sys.executable, "-c", program], cwd=folder, timeout=PATIENCE, check=True)
    return request.param, folder


def test_the_programs_leave_a_task_that_tells_what_they_did(played: tuple[str, Path]) -> None:
    _, folder = played
    (task,) = (folder / "contexts" / "paused").iterdir()
    kinds = [json.loads(line)["kind"] for line in (task / "compressions.jsonl").read_text("utf-8").splitlines()]
    assert set(kinds) == {"compress", "undo", "redo", "edit", "unfold", "pin"}
    (first, *_) = (json.loads(line) for line in (task / "summaries.jsonl").read_text("utf-8").splitlines())
    assert first["report"]["found"] >= first["report"]["kept"] > 0


def write_session(path: Path) -> None:
    """A transcript that is too long for the budget of the page."""
    said = [{"role": "user", "content": f"Step {n}: look at module_{n}.py, then at {n * 7} ms."} for n in range(STEPS)]
    lines = (json.dumps(message) + "\n" for message in [{"role": "system", "content": "You are careful."}, *said])
    path.write_text("".join(lines), encoding="utf-8")


def test_the_commands_run(played: tuple[str, Path]) -> None:
    page, folder = played
    (task,) = (folder / "contexts" / "paused").iterdir()
    write_session(folder / "session.jsonl")
    path = os.pathsep.join([str(ORIHON.parent), os.environ["PATH"]])
    script = "set -e\n" + "".join(blocks(page, "sh"))
    variables = environment("en", UUID=task.name, PATH=path)
    subprocess.run(["sh", "-c", script], cwd=folder, env=variables, timeout=PATIENCE, check=True, capture_output=True)
    made_by = [json.loads(line)["made_by"] for line in (task / "compressions.jsonl").read_text("utf-8").splitlines()]
    assert made_by[-4:] == ["cli"] * 4, "undo, redo, undo, compress"
    for name in ("short.jsonl", "pruned.jsonl"):
        assert 1 < len((folder / name).read_text("utf-8").splitlines()) < STEPS
    assert json.loads((folder / "report.json").read_text("utf-8"))["after_tokens"] <= 600


@pytest.mark.parametrize("page", PAGES)
def test_the_configurations_load(page: str, tmp_path: Path) -> None:
    examples = blocks(page, "yaml")
    assert len(examples) == 3
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.yaml"
        path.write_text(example, encoding="utf-8")
        load_settings(path, environ={})


def test_both_pages_show_the_same() -> None:
    english, japanese = PAGES
    for language in ("python", "yaml"):
        assert blocks(english, language) == blocks(japanese, language)
    commands = [[re.sub(r" *#.*", "", block) for block in blocks(page, "sh")] for page in PAGES]
    assert commands[0] == commands[1]
    assert named(english) == named(japanese)


# ---- what is named exists ------------------------------------------------------------------------------------------


def known_words() -> set[str]:
    fields = {field.name for kind in (Rung, contract.CompressionResult) for field in dataclasses.fields(kind)}
    fields |= {field.name for field in dataclasses.fields(FoldReport)}
    kinds = (compressor.ContextCompressor, contract.CompressionResult, call.ChatClient, TaskContextManager)
    attributes = {name for kind in kinds for name in dir(kind) if not name.startswith("_")}
    values = {*STRATEGIES, *EVENTS, *LEVELS, *PRESETS, *PRICE_NAMES, *WHY_NOT, *NOTICES}
    values |= {*get_args(notice.NotificationType), *get_args(PruneSelection), "sqlite", RECALL}
    return fields | attributes | values


def known_classes() -> set[str]:
    homes = (pages, notice, contract, call, compressor, errors)
    return {name for home in homes for name in dir(home) if name[0].isupper()}


def unknown(word: str, options: dict[str, set[str]]) -> Iterator[str]:
    """What in a piece of code does not exist."""
    if word.startswith("orihon "):
        command, *rest = word.split()[1:]
        if command not in options or not {part for part in rest if part.startswith("--")} <= options[command]:
            yield word
    elif word.startswith("--"):
        if not any(word in known for known in options.values()):
            yield word
    elif "(" in word:
        yield from (name for name in re.findall(r"(\w+)\(", word) if name not in known_words() | known_classes())
    elif "." in word:
        try:
            Settings().origin(word)
        except errors.OrihonError:
            yield word
    elif re.fullmatch(r"[a-z][a-z_-]*", word):
        if word not in known_words():
            yield word
    elif word not in known_classes() | {"^#", "{messages}"}:
        yield word


@pytest.mark.parametrize("page", PAGES)
def test_everything_named_exists(page: str) -> None:
    application = typer.main.get_command(build())
    commands: dict[str, typer.core.TyperCommand] = application.commands  # type: ignore[attr-defined]
    options = {name: {*(opt for one in command.params for opt in one.opts)} for name, command in commands.items()}
    assert [wrong for word in sorted(named(page)) for wrong in unknown(word, options)] == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_forgotten(page: str) -> None:
    assert {*STRATEGIES, *EVENTS, *LEVELS, *PRESETS, *WHY_NOT, *NOTICES, *get_args(PruneSelection)} <= named(page)


# ---- the tables of the presets -------------------------------------------------------------------------------------


def preset_table(page: str, preset: str) -> list[list[str]]:
    """The cells of the table below the line that begins with the preset's name."""
    _, _, below = read(page).partition(f"\n`{preset}`")
    table = below[below.index("\n|") + 1 :].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def percent(cell: str) -> int | None:
    found = re.search(r"(\d+) %", cell)
    return None if found is None else int(found[1])


def strategies_in(cell: str) -> tuple[str, ...]:
    return tuple(word for word in re.findall(r"`(\w+)`", cell) if word in STRATEGIES)


def target_of(ladder: Ladder, rung: Rung) -> int | None:
    """What the page says: nothing where nothing is folded, or where the target is only meant to be out of reach."""
    if not rung.strategies or (rung.target is not None and rung.target <= 0.01):
        return None
    if ladder.summary_share is not None and rung.usage != 1:
        return round(100 * ladder.summary_share)
    return round(100 * (ladder.target if rung.target is None else rung.target))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("page", PAGES)
def test_the_tables_of_the_presets_are_their_ladders(page: str, preset: str) -> None:
    ladder = ladder_of(load_settings({"compression": {"preset": preset}}, environ={}))
    by_usage = [rung for rung in ladder.rungs if rung.usage is not None]
    by_event = [rung for rung in ladder.rungs if rung.event is not None]
    rows = preset_table(page, preset)
    expected = [(round(100 * (rung.usage or 0)), rung.strategies, target_of(ladder, rung)) for rung in by_usage]
    found = [(percent(when), strategies_in(what), percent(target)) for when, what, target in rows]
    assert found[: len(expected)] == expected
    for when, what, target in rows[len(expected) :]:
        assert re.findall(r"`(\w+)`", when) == [rung.event for rung in by_event]
        wanted = {(rung.strategies, target_of(ladder, rung)) for rung in by_event}
        assert {(strategies_in(what), percent(target))} == wanted
    assert len(rows) == len(expected) + bool(by_event)
    levels = [re.findall(rf"`({'|'.join(LEVELS)})`", what) for _, what, _ in rows]
    if preset == "phases":
        assert levels == [[rung.level] for rung in (*by_usage, by_event[0])]


# ---- the picture ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_the_picture_is_there_small_and_made_for_light_and_dark(page: str) -> None:
    (target,) = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", read(page))
    picture = ((DOCS / page).parent / target).resolve()
    source = picture.read_text(encoding="utf-8")
    assert len(source.encode()) < 15_000
    assert "prefers-color-scheme: dark" in source
    tree = ElementTree.fromstring(source)
    assert [node.tag.rpartition("}")[2] for node in tree][:2] == ["title", "desc"], "for those who cannot see it"
