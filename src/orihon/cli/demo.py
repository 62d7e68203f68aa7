"""``orihon demo``: see the main job working in a few seconds, without a model."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from orihon.demo.features import FEATURES
from orihon.demo.play import Progress as Step
from orihon.demo.scenario import DemoReport, Scenario
from orihon.texts import text

_QUERY = "SELECT id, role, content FROM messages LIMIT 5"
_EXPECTED_MESSAGES = 2 + 20 * len(FEATURES)


def demo(folder: Path | None = None, *, as_json: bool = False) -> None:
    """Play the scenario and show its figures."""
    console = Console(stderr=as_json)
    place = folder or Path(tempfile.mkdtemp(prefix="orihon-demo-"))
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[view]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        job = bar.add_task(text("demo.playing"), total=_EXPECTED_MESSAGES, view="")

        def progress(step: Step) -> None:
            view = text("demo.view_now", messages=step.messages, entries=step.entries, tokens=step.tokens)
            bar.update(job, completed=step.messages, view=view)
            if step.folded:
                before, after = step.folded
                console.print(text("demo.folded", seq=step.messages, before=before, after=after), highlight=False)

        report = Scenario(place, lambda stage: console.print(f"[bold]{stage}[/bold]"), progress).run()
    if as_json:
        Console().print_json(json.dumps(asdict(report), default=str))
        return
    _show(console, report)


def _show(console: Console, report: DemoReport) -> None:
    table = Table(title=text("demo.table"), show_header=False, title_justify="left")
    for name, value in (
        ("messages", f"{report.messages:,}"),
        ("log", f"{report.log_tokens:,}"),
        ("view", f"{report.view_entries:,} / {report.view_tokens:,}"),
        ("window", f"{report.window:,}"),
        ("folds", f"{report.folds} / {report.compressions}"),
        ("bytes", f"{report.bytes_on_disk:,}"),
        ("memory", f"{report.memory_bytes / 2**20:.0f} MiB"),
        ("findings", text("demo.clean") if report.findings == 0 else str(report.findings)),
    ):
        table.add_row(text(f"demo.row_{name}"), value)
    console.print(Panel(report.inherited.strip(), title=text("demo.inherited"), title_align="left"))
    console.print(table)
    console.print(text("demo.next"))
    folder = report.base_dir / "completed" / report.uuid
    database = folder / "context.db"
    look = f"head -c 600 {folder}/current.jsonl"
    if database.exists():
        look = f'sqlite3 {database} "{_QUERY}"'
    program = "orihon" if shutil.which("orihon") else sys.argv[0]  # a fresh checkout has it in .venv/bin only
    for command in (
        f"{program} --base-dir {report.base_dir} list",
        f"{program} --base-dir {report.base_dir} verify {report.uuid}",
        look,
    ):
        console.print(f"  {command}", highlight=False, soft_wrap=True, style="cyan")
