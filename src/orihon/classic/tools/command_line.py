"""What the tools share: options of every one, the way of naming a task, and running the command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from orihon.cli.main import main
from orihon.texts import text

_MERGE_REQUESTS = ("mr", "merge_request")


def parser_of(tool: str) -> argparse.ArgumentParser:
    """A parser with the options that every tool has."""
    parser = argparse.ArgumentParser(prog=f"python -m orihon.tools.{tool}", description=text(f"old_tools.{tool}"))
    parser.add_argument("--base-dir", metavar="FOLDER", help=text("cli.options.base_dir"))
    parser.add_argument("--config", metavar="FILE", help=text("cli.options.config"))
    parser.add_argument("--lang", choices=("en", "ja"), help=text("cli.options.lang"))
    parser.add_argument("--json", action="store_true", help=text("cli.options.json"))
    return parser


def add_days(parser: argparse.ArgumentParser) -> None:
    """The options of the tools that tidy up."""
    parser.add_argument("--days", type=int, metavar="N", help=text("old_tools.days"))
    parser.add_argument("--force", action="store_true", help=text("old_tools.force"))


def add_task(parser: argparse.ArgumentParser) -> None:
    """The options that name a task, as its old folder did."""
    for name in ("--task-source", "--owner", "--repo", "--task-id"):
        parser.add_argument(name, metavar="NAME", help=text("old_tools.task"))


def task_name(given: argparse.Namespace) -> str | None:
    """The task in the words of ``orihon``: ``issue_123`` of myorg/myrepo is ``github:myorg/myrepo#123``."""
    if given.task_id is None:
        return None
    kind, _, number = str(given.task_id).rpartition("_")
    parts = [given.task_source, given.owner, given.repo]
    if not kind and not any(parts) and not number.isdigit():
        return number  # a UUID, or @last
    mark = "!" if kind in _MERGE_REQUESTS or kind.endswith("_mr") else "#"
    place = "/".join(part for part in (given.owner, given.repo) if part)
    return f"{given.task_source + ':' if given.task_source else ''}{place}{mark}{number}"


def run(given: argparse.Namespace, *command: str) -> int:
    """Run ``orihon`` with the options that every tool has."""
    named = {"--base-dir": given.base_dir, "--config": given.config, "--lang": given.lang}
    options = [word for name, value in named.items() if value is not None for word in (name, value)]
    return main([*options, *command, *(["--json"] if given.json else [])])


def confirmed(given: argparse.Namespace, *command: str) -> bool:
    """May it be done? A person at a terminal sees what would happen, and is asked; ``--force`` asks nobody."""
    if given.force or given.json or not sys.stdin.isatty():
        return True
    if run(given, *command, "--dry-run") != 0:
        return False
    sys.stderr.write(text("old_tools.confirm") + " ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes", "はい")


def days_of(given: argparse.Namespace) -> Sequence[str]:
    """``--days`` as ``orihon`` takes it."""
    return [] if given.days is None else ["--days", str(given.days)]


def tidy(tool: str, command: str, arguments: Sequence[str] | None = None) -> int:
    """Run a tool that tidies up; returns the exit code."""
    parser = parser_of(tool)
    add_days(parser)
    given = parser.parse_args(arguments)
    words = (command, *days_of(given))
    return run(given, *words) if confirmed(given, *words) else 1
