"""The files under ``deploy/`` and the pages that show them: they load, name real commands, and say the same twice."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from orihon.cli.main import build
from orihon.settings import load_settings, schema

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
#: For other programs, and looked at in ``test_metric_files``.
OF_METRICS = {"prometheus-rules.yaml", "grafana-dashboard.json"}
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file() and path.name not in {".env", *OF_METRICS})
UNITS = sorted((DEPLOY / "systemd").iterdir())
PAGES = {"deploy": ("docs/deploy.md", "docs/ja/deploy.md"), "scale": ("docs/scale.md", "docs/ja/scale.md")}
ALL_PAGES = [page for pair in PAGES.values() for page in pair]
#: In the environment of whoever uses them, and not in our settings.
OF_OTHERS = {"AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "ORIHON_CONFIG"}


def read(page: str | Path) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def unit(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(read(path))
    return parser


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(read("deploy/compose.yaml"))
    return loaded


def command_line() -> Any:
    """The group of all commands, as typer has put it together."""
    return typer.main.get_command(build())


def assert_is_a_command(arguments: list[str]) -> None:
    """The command and every option of it exist; ``arguments`` begin after the program's name."""
    app = command_line()
    shared = {name for parameter in app.params for name in parameter.opts}
    while arguments[0].startswith("-"):
        assert arguments[0] in shared, arguments
        arguments = arguments[2:]
    command = app.commands[arguments[0]]
    known = {name for parameter in command.params for name in parameter.opts}
    assert {one for one in arguments[1:] if one.startswith("-")} <= known, arguments


def seconds(written: str) -> float:
    return float(written.removesuffix("s"))


def wanted_variables() -> set[str]:
    return set(re.findall(r"\$\{([A-Z_]+)", read("deploy/config.yaml")))


def example_environment() -> dict[str, str]:
    lines = [line for line in read("deploy/environment.example").splitlines() if line and not line.startswith("#")]
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


# ---- settings ------------------------------------------------------------------------------------------------------


def test_the_settings_load_for_every_shape() -> None:
    config = DEPLOY / "config.yaml"
    alone = load_settings(config, environ={})
    assert (alone.context_storage.backend, alone.queue.url, alone.archive.url) == ("files", None, None)
    with_broker = load_settings(config, environ={"QUEUE_URL": "redis://127.0.0.1:6379/0"})
    assert (with_broker.context_storage.backend, with_broker.queue.url) == ("files", "redis://127.0.0.1:6379/0")
    many = load_settings(config, environ=example_environment())
    assert many.context_storage.backend == "postgres"
    assert many.queue.url is not None
    assert many.archive.url is not None


def test_every_setting_of_the_file_is_one_and_has_a_value() -> None:
    environ = dict.fromkeys(wanted_variables(), "http://127.0.0.1") | {
        "QUEUE_NAME": "others",
        "DATABASE_URL": "postgresql://db.example.com/orihon",
        "ARCHIVE_URL": "s3://bucket/path",
    }
    settings = load_settings(DEPLOY / "config.yaml", environ=environ)
    keys = list(_keys(yaml.safe_load(read("deploy/config.yaml"))))
    assert len(keys) > 10
    assert [key for key in keys if not settings.is_explicit(key)] == []


def _keys(section: dict[str, Any], above: str = "") -> list[str]:
    found = []
    for name, value in section.items():
        found += _keys(value, f"{above}{name}.") if isinstance(value, dict) else [f"{above}{name}"]
    return found


def test_the_example_of_an_environment_names_only_what_somebody_reads() -> None:
    assert set(example_environment()) <= wanted_variables() | OF_OTHERS


# ---- systemd -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_service_runs_a_command_that_exists_with_its_own_settings(path: Path) -> None:
    service = unit(path)["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert Path(program).name == "orihon"
    assert_is_a_command(arguments)
    assert arguments[arguments.index("--base-dir") + 1] == f"/var/lib/{service['StateDirectory']}"
    assert service["User"] == "orihon"
    assert (service["NoNewPrivileges"], service["ProtectSystem"]) == ("yes", "strict")


def test_a_worker_has_time_to_drain_before_it_is_killed() -> None:
    service = unit(DEPLOY / "systemd" / "orihon-worker@.service")["Service"]
    drain = load_settings(DEPLOY / "config.yaml", environ={}).multiprocess.drain_seconds
    assert seconds(service["TimeoutStopSec"]) > drain
    assert (service["KillSignal"], service["KillMode"], service["Restart"]) == ("SIGTERM", "mixed", "always")
    assert seconds(compose()["services"]["worker"]["stop_grace_period"]) > drain


def test_the_timer_starts_a_service_that_is_there() -> None:
    (timer,) = [path for path in UNITS if path.suffix == ".timer"]
    assert "OnCalendar" in unit(timer)["Timer"]
    assert timer.with_suffix(".service") in UNITS


def test_systemd_knows_every_line() -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("no systemd-analyze on this machine")
    done = subprocess.run(
        [program, "verify", *map(str, UNITS)], capture_output=True, text=True, timeout=60, check=False
    )
    assert re.findall(r".*(?:Unknown|Failed to parse|Invalid|ignoring).*", done.stderr) == []


# ---- compose -------------------------------------------------------------------------------------------------------


def test_what_a_service_of_compose_needs_is_there() -> None:
    found = compose()
    for name, service in found["services"].items():
        assert set(service.get("depends_on", ())) <= set(found["services"]), name
        volumes = {volume.split(":")[0] for volume in service.get("volumes", ())}
        assert {one for one in volumes if not one.startswith(".")} <= set(found["volumes"]), name
        assert all((DEPLOY / one).exists() for one in volumes if one.startswith(".")), name
        for needed, condition in service.get("depends_on", {}).items():
            if condition["condition"] == "service_healthy":
                assert "healthcheck" in found["services"][needed], needed


@pytest.mark.parametrize("name", ["worker", "archive"])
def test_orihon_in_compose_runs_a_command_that_exists_with_settings_that_load(name: str) -> None:
    service = compose()["services"][name]
    assert service["command"][0] == "orihon"
    assert_is_a_command(service["command"][1:])
    environ = {key: re.sub(r"\$\{[^}]*\}", "secret", value) for key, value in service["environment"].items()}
    assert set(environ) <= wanted_variables() | OF_OTHERS
    settings = load_settings(DEPLOY / "config.yaml", environ={k: v for k, v in environ.items() if k != "ORIHON_CONFIG"})
    assert settings.context_storage.backend == "postgres"
    assert settings.queue.url is not None
    assert settings.archive.endpoint == "http://storage:9000"
    assert f"./config.yaml:{environ['ORIHON_CONFIG']}:ro" in service["volumes"]
    assert f"state:{settings.context_storage.base_dir}" in service["volumes"]


def test_the_image_copies_what_is_there_and_installs_extras_that_exist() -> None:
    recipe = compose()["x-orihon"]["build"]["dockerfile_inline"]
    copied = [source for line in re.findall(r"^COPY (.+) \S+$", recipe, re.M) for source in line.split()]
    assert copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    (extras,) = re.findall(r"/src\[([a-z0-9,]+)\]", recipe)
    known = tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)


# ---- the pages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES["deploy"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_page_shows_the_file_word_for_word(path: Path, page: str) -> None:
    shown = [block.strip() for block in re.findall(r"```\w+\n(.*?)```", read(page), re.S)]
    assert read(path).strip() in shown
    assert f"`{path.relative_to(ROOT)}`" in read(page)


@pytest.mark.parametrize("page", PAGES["deploy"])
def test_every_command_on_the_page_exists(page: str) -> None:
    blocks = "".join(re.findall(r"```sh\n(.*?)```", read(page), re.S))
    found = re.findall(r"^ *(?:orihon_main|.*exec worker orihon) ([a-z]+[^(\n]*)$", blocks, re.M)
    assert len(found) >= 7
    for line in found:
        assert_is_a_command(shlex.split(line))
    for name in re.findall(r"`orihon(?:_main)? ([a-z]+)[ `]", read(page)):
        assert name in command_line().commands


@pytest.mark.parametrize("page", ALL_PAGES)
def test_every_setting_on_the_page_exists(page: str) -> None:
    sections = {key.split(".")[0] for key in schema()}
    named = re.findall(r"`([a-z_]+\.[a-z_.]+)`", read(page))
    keys = [name for name in named if name.split(".")[0] in sections and Path(name).suffix != ".db"]
    pictures = {"queue.waiting"}  # of ``orihon stats``
    assert keys
    assert [key for key in keys if key not in schema() and key not in pictures] == []


@pytest.mark.parametrize("pair", PAGES.values(), ids=PAGES)
def test_both_languages_have_the_same_headings_and_tables(pair: tuple[str, str]) -> None:
    english, japanese = map(_skeleton, pair)
    assert len(english) > 40
    assert english == japanese


def _skeleton(page: str) -> list[str]:
    """Headings by level; rows of tables by their number of cells and what is in code marks."""
    prose = re.sub(r"```.*?```", "", read(page), flags=re.S)
    found = []
    for line in prose.splitlines():
        if line.startswith("#"):
            found.append(line.split()[0])
        elif line.startswith("|"):
            found.append(f"{line.count('|')} {sorted(re.findall(r'`[^`]+`', line))}")
    return found


@pytest.mark.parametrize("page", PAGES["scale"])
def test_the_sums_of_the_page_are_right(page: str) -> None:
    text = read(page)
    record, messages, task, task_rows = 788, 306, 106, 5_500
    for workers, machines in ((10_000, 100), (500, 16)):
        steps, beats = workers / 10, workers / 30
        claims = workers / (10 * messages / 2)
        tasks = 86_400 * claims
        stored = 3 * record * messages / 2 + task_rows
        wanted = (
            f"| {round(stored / 1000)} kB |",
            f" {tasks:,.0f} |",
            f" {100e6 / tasks:,.0f} |",
            f" {20.7 * steps:,.0f} |",
            f" {4 * workers:,} |",
            f" {8 * beats:,.0f} |",
            f" {task * claims:,.0f} |",
            f" {3 * workers + 2 * machines:,} |",
            f" {(3 * workers + 2 * machines) * 2.5 / 1024:.2g} GiB |",
        )
        assert [figure for figure in wanted if not re.search(re.escape(figure.rstrip("|").strip()), text)] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_are_listed(name: str) -> None:
    assert f"](docs/{name}.md)" in read("README.md")
    assert f"](docs/ja/{name}.md)" in read("README.ja.md")
