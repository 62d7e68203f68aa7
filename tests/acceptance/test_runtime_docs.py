"""The pages about the runtime: what they print works as printed, and what they name exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
import yaml

import orihon
from orihon import ScriptedModel, TaskKey, TaskQueue, errors, get_llm_client, load_settings
from orihon.catalogue.connect import open_catalogue
from orihon.cli.main import build
from orihon.llm import scripted
from orihon.llm.clients import CLIENTS
from orihon.runtime import tool, user_config
from orihon.runtime.handler import TaskHandler
from orihon.runtime.mcp import config as mcp_config
from orihon.runtime.mcp import connection as mcp_connection
from orihon.runtime.mcp.config import PROTOCOLS, read_mcp_servers
from orihon.runtime.poller import sources_of
from orihon.runtime.sources import folder as folder_source
from orihon.runtime.sources.forge import Labels
from orihon.runtime.workspace_tools import PROTECTED
from orihon.settings import Settings
from orihon.settings.model import schema, section_names
from orihon.settings.rungs import SPEAKER_KINDS
from orihon.values.task import TaskStatus
from tests.acceptance.test_cli import ORIHON, PATIENCE, environment

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ["runtime.md", "ja/runtime.md"]
SECRETS = dict.fromkeys(("ANTHROPIC_API_KEY", "TRACKER_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN"), "a-secret")


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE)


def prose(page: str) -> str:
    return re.sub(r"^```.*?^```", "", read(page), flags=re.DOTALL | re.MULTILINE)


def named(page: str) -> set[str]:
    """What stands in backticks outside of code blocks."""
    return set(re.findall(r"`([^`\n]+)`", prose(page)))


def rows(page: str) -> list[list[str]]:
    """The cells of all tables."""
    lines = (line for line in prose(page).splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


# ---- what is printed works -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=PAGES)
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A page, and an empty folder in which its programs were run, one after the other, as one."""
    folder = tmp_path_factory.mktemp("page")
    program = "\n".join(blocks(request.param, "python"))
    command = [sys.executable, "-W", "error", "-c", program]
    ran = subprocess.run(
        command, cwd=folder, env=environment("en"), timeout=PATIENCE, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return request.param, folder


def test_the_programs_do_what_the_page_says(played: tuple[str, Path]) -> None:
    _, folder = played
    catalogue = open_catalogue(folder / "contexts", load_settings({}))
    found = {row.key.task_id: row for row in catalogue.tasks.page()}
    catalogue.close()
    assert {row.status for row in found.values()} == {TaskStatus.COMPLETED}
    assert set(found) == {"1", "2", "typo"}
    assert (folder / "project" / "answer.txt").read_text() == "42\n"
    summary = folder / "contexts" / "completed" / found["1"].uuid / "final_summary.txt"
    assert "Found 42 in notes.txt" in summary.read_text(encoding="utf-8")
    assert "Mended." in (folder / "inbox" / "typo.comments.md").read_text(encoding="utf-8")


def test_the_commands_run(played: tuple[str, Path]) -> None:
    page, folder = played
    path = os.pathsep.join([str(ORIHON.parent), os.environ["PATH"]])
    script = "set -e\n" + "".join(blocks(page, "sh")) + "\nprintf %s $UUID"
    ran = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env=environment("en", PATH=path),
        timeout=PATIENCE,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    queue = TaskQueue(folder / "contexts", {})
    row = queue.catalogue.tasks.get(ran.stdout.splitlines()[-1])
    queue.close()
    assert (row.status, row.requested, row.prompt) == (TaskStatus.QUEUED, None, "Fix the failing test")


@pytest.mark.parametrize("page", PAGES)
def test_the_configurations_load(page: str, tmp_path: Path) -> None:
    found: dict[str, object] = {}
    for number, example in enumerate(blocks(page, "yaml")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(example, encoding="utf-8")
        settings = load_settings(path, environ=SECRETS)
        assert all(settings.is_explicit(key) for key in leaves(yaml.safe_load(example))), example
        found |= {server.name: server for server in read_mcp_servers(yaml.safe_load(example), SECRETS)}
        for source in sources_of(settings):
            found[source.name] = source
            getattr(source, "close", lambda: None)()
        if "provider:" in example:
            client = get_llm_client(settings.replace(**{f"llm.{settings.llm.provider}.api_key": "a-secret"}))
            found[settings.llm.provider] = client
            client.close()
    assert set(found) == {*CLIENTS, "files", "tracker", "tests", "github", "gitlab", "folder"}


def leaves(node: dict[str, object], prefix: str = "") -> Iterator[str]:
    """The keys that an example sets."""
    for name, value in node.items():
        if f"{prefix}{name}" in schema():
            yield f"{prefix}{name}"
        else:
            assert isinstance(value, dict), name
            yield from leaves(value, f"{prefix}{name}.")


def test_both_pages_show_the_same() -> None:
    english, japanese = PAGES
    for language in ("python", "yaml"):
        assert blocks(english, language) == blocks(japanese, language)
    commands = [[re.sub(r" *#.*", "", block) for block in blocks(page, "sh")] for page in PAGES]
    assert commands[0] == commands[1]
    assert named(english) == named(japanese)
    assert figures(english) == figures(japanese)


def figures(page: str) -> list[list[str]]:
    """The rows of measured figures, whatever their headings are called."""
    return [row for row in rows(page) if len(row) == 6 and re.search(r"\d", row[1])]


# ---- what is named exists ------------------------------------------------------------------------------------------


def known_words() -> set[str]:
    public = [getattr(orihon, name) for name in orihon._HOMES]
    words = {*orihon._HOMES, *scripted.__all__, *(name for name in dir(errors) if name[0].isupper())}
    words |= {name for kind in public for name in dir(kind) if not name.startswith("_")}
    words |= {"requests", "on_text"}  # an attribute that an instance has, an argument
    words |= {key.rpartition(".")[2] for key in schema()} | set(section_names()) | {*schema()}
    words |= {variable for row in schema().values() for variable in row.env}
    words |= {*server_keys(), *PROTOCOLS, *CLIENTS, *(status.value for status in TaskStatus)}
    words |= {*SPEAKER_KINDS, "author_association", "> …"}
    labels = Labels()
    words |= {getattr(labels, name) for name in Labels.__slots__}
    words |= {f"{name}/" for name in (folder_source.IN_PROGRESS, folder_source.DONE, folder_source.FAILED)}
    words |= {f"NAME{folder_source.COMMENTS}", "NAME.md", "id", "title", "user"}
    words |= {mcp_config.APPROVED_TOOLS, f"{tool.OUTPUTS}/", mcp_connection.IDEMPOTENCY_KEY, "_meta"}
    words |= {"current.jsonl", "request.json", "tools.jsonl", "config.yaml", "responses/"}
    words |= {"HEAD", "objects", "refs", "Makefile", "[.github/workflows]"}
    words |= {name for rule in PROTECTED for name in rule.names}
    words |= {"PATH", "HOME", "LANG", "${VAR}", "kill -9", "num_ctx", "Retry-After", "server_tool", "/v1", "/api"}
    return words | {"https://gateway.example.com/openai", "GET /config/SOURCE/USER", "mcp", "github", "gitlab"}


def server_keys() -> set[str]:
    """The keys that the entry of an MCP server may have, as its reader names them."""
    with pytest.raises(errors.InvalidSettings) as refused:
        read_mcp_servers({"mcp_servers": {"one": {"nothing": 1}}})
    return set(str(refused.value.fields["known"]).split(", "))


def unknown(word: str, words: set[str], options: dict[str, set[str]]) -> Iterator[str]:
    """What in a piece of code does not exist."""
    if word.startswith("orihon "):
        command, *rest = word.split()[1:]
        given = {part for part in rest if re.match(r"-{1,2}\w", part)}
        if command not in options or not given <= options[command]:
            yield word
    elif word.startswith("--"):
        if not any(word in known for known in options.values()):
            yield word
    elif word.startswith("python -m "):
        if not (ROOT / (word.split()[2].replace(".", "/") + ".py")).exists():
            yield word
    elif found := re.fullmatch(r"([a-z_.]+): (\w+)", word):
        key = next(key for key in schema() if key == found[1] or key.endswith(f".{found[1]}"))
        load_settings(None, flags={key: found[2]})
    elif word.startswith("{"):
        if set(re.findall(r'"(\w+)":', word)) - set(re.findall(r"\w+", prompt_of_text_calls())):
            yield word
    elif re.fullmatch(r"[A-Z_]+=true", word):
        if user_config.UserConfigAPI.from_environment(dict([word.split("=")])) is None:
            yield word
    elif called := re.match(r"(\w+)\(", word):
        if called[1] not in words:
            yield word
    elif word not in words:
        yield word


def prompt_of_text_calls() -> str:
    from orihon.texts import text

    return text("prompts.text_calls", tools="")


@pytest.fixture(scope="module")
def offered(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The tools that a model is really offered when everything built in is switched on."""
    folder = tmp_path_factory.mktemp("offered")
    with ScriptedModel(lambda _: scripted.Reply("Done.")) as model:
        settings = {
            "llm": {"openai": {"base_url": model.base_url}},
            "tools": {"workspace": str(folder), "shell": True},
        }
        queue = TaskQueue(folder / "contexts", settings)
        queue.enqueue(TaskKey("cli", "", "", "task", "1"), prompt="Say done.")
        task = queue.dequeue()
        assert task is not None
        handler = TaskHandler(settings, folder / "contexts")
        handler.handle(task)
        handler.close()
        queue.close()
        return {tool["function"]["name"] for tool in model.requests[0].body["tools"]}


@pytest.mark.parametrize("page", PAGES)
def test_everything_named_exists(page: str, offered: set[str]) -> None:
    application = typer.main.get_command(build())
    commands: dict[str, typer.core.TyperCommand] = application.commands  # type: ignore[attr-defined]
    options = {name: {*(opt for one in command.params for opt in one.opts)} for name, command in commands.items()}
    words = known_words() | offered | {cells[2].split("`")[1] for cells in providers(page)}
    words |= {"USER_CONFIG_API_URL", "USER_CONFIG_API_KEY"}
    assert [wrong for word in sorted(named(page)) for wrong in unknown(word, words, options)] == []


@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_forgotten(page: str, offered: set[str]) -> None:
    limits = {key for key in schema() if key.startswith(("runtime.max_", "tools."))}
    assert offered | limits - {"tools.shell"} <= named(page)
    assert server_keys() - {"mcp_server_name", "name", "type"} <= named(page)
    assert {"TimedOut", "Refused", "Overflow", "CutOff", "NotJSON"} <= named(page)


@pytest.mark.parametrize("page", PAGES)
def test_the_defaults_are_those_of_the_settings(page: str) -> None:
    told = re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`(?: times| 回)? ?[(（](\d+|true|false)\b", prose(page))
    assert len(told) >= 10
    for key, value in told:
        default = Settings().get(key)
        assert value == str(default).lower() if isinstance(default, bool) else float(value) == default, key


# ---- the table of providers ----------------------------------------------------------------------------------------


def providers(page: str) -> list[list[str]]:
    return [row for row in rows(page) if len(row) == 4 and row[1].endswith("Client`")]


@pytest.mark.parametrize("page", PAGES)
def test_each_provider_is_asked_where_the_page_says(page: str) -> None:
    table = {row[0].split("`")[1]: row for row in providers(page)}
    assert set(table) == set(CLIENTS)
    for name, (_, client_name, place, key) in table.items():
        variable = re.findall(r"`(\w+)`", key)[0]
        assert load_settings({"llm": {"provider": name}}, environ={variable: "k"}).llm.active.api_key == "k"
        with ScriptedModel([scripted.Reply("Yes.")]) as model:
            client = get_llm_client({"llm": {"provider": name, name: {"base_url": model.base_url}}})
            assert f"`{type(client).__name__}`" == client_name
            client.send_user_message("Are you there?")
            assert client.get_response() == ("Yes.", [])
            client.close()
            assert model.requests[0].path == place.split("`")[1]
