"""``orihon demo``: see the main job working in a few seconds, without a model of one's own."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from orihon.cli.demo.models import DemoModel, ModelKind, open_model
from orihon.cli.demo.observer import TaskProgress
from orihon.cli.demo.phases import SECTION, PhasesReport, PhasesStory
from orihon.cli.demo.scenario import DemoReport, Scenario, Screen
from orihon.cli.output import shown
from orihon.cli.serve import open_server, shown_in_browser
from orihon.settings import load_settings
from orihon.system.files import make_private_folder
from orihon.texts import text

_QUERY = "SELECT id, role, content FROM messages LIMIT 5"
_EXIT_INCOMPLETE = 1


def demo(
    folder: Path | None = None, model: ModelKind = "scripted", *, as_json: bool = False, open_page: bool = False
) -> None:
    """Play the scenario and show its figures; its page beside it if wanted."""
    console = Console(stderr=as_json)
    # Without a model there is nothing to play, and no place is made for it.
    with open_model(model) as opened, _page(console, place := _place(folder), wanted=open_page):
        report = _play(console, place, opened)
        if as_json:
            Console().print_json(json.dumps(asdict(report), default=str))
        else:
            _show(console, report)
    # What comes of a real model's work is its own affair, as long as it was there.
    if not (report.model_calls if opened.is_real else report.is_complete):
        raise typer.Exit(_EXIT_INCOMPLETE)


def demo_of_phases(folder: Path | None = None, *, as_json: bool = False, open_page: bool = False) -> None:
    """Play the story of a person's answers and show its figures."""
    console, place = Console(stderr=as_json), _place(folder)
    with _page(console, place, wanted=open_page):
        report = PhasesStory(place, partial(_say_stage, console), partial(_say, console)).run()
        if as_json:
            Console().print_json(json.dumps(asdict(report), default=str))
        else:
            _show_phases(console, report)
    if not report.is_complete:
        raise typer.Exit(_EXIT_INCOMPLETE)


@contextmanager
def _page(console: Console, place: Path, *, wanted: bool) -> Iterator[None]:
    """The web page of what is played, from the beginning until somebody has seen enough of it."""
    if not wanted:
        yield
        return
    base = place / "contexts"
    make_private_folder(base)
    with open_server(base, load_settings(), port=0) as server:
        server.start()
        _say(console, text("demo.page", address=server.login_address))
        with shown_in_browser(server, base):
            yield
            with suppress(KeyboardInterrupt):  # from before anybody is told of it
                _say(console, text("demo.page_stays", address=server.address))
                server.wait()


def _place(folder: Path | None) -> Path:
    place = folder or Path(tempfile.mkdtemp(prefix="orihon-demo-"))
    make_private_folder(place)
    return place


def _say_stage(console: Console, said: str) -> None:
    console.print(f"[bold]{said}[/bold]")


def _say(console: Console, said: str) -> None:
    console.print(escape(shown(said)), highlight=False, soft_wrap=True)


def _play(console: Console, place: Path, model: DemoModel) -> DemoReport:
    bar = Bar(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[view]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        job = bar.add_task(text("demo.playing"), total=len(model.features), view="")

        def progress(now: TaskProgress) -> None:
            view = text("demo.view_now", messages=now.messages, entries=now.entries, tokens=now.tokens)
            bar.update(job, completed=now.passed, view=view)

        line = partial(_say, console)
        scenario = Scenario(place, model, Screen(partial(_say_stage, console), line, progress))
        line(text("demo.with_model", model=model.label))
        line(text("demo.with_mcp" if scenario.has_mcp else "demo.without_mcp", folder=scenario.workspace.folder))
        if model.is_real:
            line(text("demo.real_model"))
        return scenario.run()


def _show(console: Console, report: DemoReport) -> None:
    figures = (
        ("calls", f"{report.model_calls} / {report.tool_calls}"),
        ("tests", f"{report.tests_failed} / {report.tests_passed}"),
        ("messages", f"{report.messages:,}"),
        ("log", f"{report.log_tokens:,}"),
        ("view", f"{report.view_entries:,} / {report.view_tokens:,}"),
        ("window", f"{report.window:,}"),
        ("folds", f"{report.folds} / {report.compressions}"),
        ("bytes", f"{report.bytes_on_disk:,}"),
        ("memory", f"{report.memory_bytes / 2**20:.0f} MiB"),
        ("findings", text("demo.clean") if report.findings == 0 else str(report.findings)),
    )
    inherited = "\n".join(escape(shown(line)) for line in report.inherited.strip().splitlines())
    console.print(Panel(inherited, title=text("demo.inherited"), title_align="left"))
    console.print(_table(text("demo.table"), "demo.row_", figures))
    _show_next(
        console,
        f"--base-dir {report.base_dir} list",
        f"--base-dir {report.base_dir} view {report.uuid}",
        f"--base-dir {report.base_dir} verify {report.uuid}",
        f"--base-dir {report.base_dir} serve --open",
    )
    for command in (*hints(report.base_dir / "completed" / report.uuid), f"cat {report.workspace}/README.md"):
        _show_command(console, command)


def _show_phases(console: Console, report: PhasesReport) -> None:
    fold, reopen, *_ = report.answers
    figures = (
        ("messages", f"{report.messages:,}"),
        ("log", f"{report.log_tokens:,}"),
        ("view", f"{report.view_tokens:,}"),
        ("fold", f"{fold.before_tokens:,} → {fold.after_tokens:,}"),
        ("reopen", f"{reopen.before_tokens:,} → {reopen.after_tokens:,}"),
        ("archive", f"{report.archive_bytes:,} / {report.archived_bytes:,}"),
        ("findings", text("demo.clean") if report.findings == 0 else str(report.findings)),
    )
    console.print(_table(text("demo.phases.table"), "demo.phases.row_", figures))
    base = f"--base-dir {report.base_dir}"
    _show_next(
        console,
        f"{base} approvals",
        f"{base} view {report.uuid}",
        f"{base} restore {report.uuid} --phase 1 --section {SECTION} --temporary",
        f"{base} verify {report.uuid}",
        f"{base} archive {report.uuid}",
        f"{base} serve --open",
    )


def _table(title: str, names: str, figures: Iterable[tuple[str, str]]) -> Table:
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in figures:
        table.add_row(text(f"{names}{name}"), value)
    return table


def _show_next(console: Console, *commands: str) -> None:
    console.print(text("demo.next"))
    program = "orihon" if shutil.which("orihon") else sys.argv[0]  # a fresh checkout has it in .venv/bin only
    for command in commands:
        _show_command(console, f"{program} {command}")


def _show_command(console: Console, command: str) -> None:
    console.print(f"  {escape(command)}", highlight=False, soft_wrap=True, style="cyan")


def hints(folder: Path) -> list[str]:
    """How to look at the task without us; not at all when it is in a database server."""
    if (folder / "context.db").exists():
        return [f'sqlite3 {folder / "context.db"} "{_QUERY}"']
    return [f"head -c 600 {folder}/current.jsonl"] if (folder / "current.jsonl").exists() else []
