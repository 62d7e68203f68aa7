"""``orihon show`` and ``chain``: one task at a glance, what it has recorded, and the tasks on the same key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import MOST, AsJson, TaskArgument, named_task
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import print_json, print_table, say
from orihon.cli.streams import paged
from orihon.cli.transfer import export_page
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.chain import ChainLink, Inherited
    from orihon.tasks.inheritance import InheritanceContext
    from orihon.tasks.reader import Choice


def show(
    context: typer.Context,
    task: TaskArgument,
    messages: Annotated[bool, flag("--messages", help=text("cli.show.only_messages"))] = False,
    summaries: Annotated[bool, flag("--summaries", help=text("cli.show.only_summaries"))] = False,
    tools: Annotated[bool, flag("--tools", help=text("cli.show.only_tools"))] = False,
    plans: Annotated[bool, flag("--plans", help=text("cli.show.only_plans"))] = False,
    folds: Annotated[bool, flag("--folds", help=text("cli.show.only_folds"))] = False,
    inherited: Annotated[bool, flag("--inherited", help=text("cli.show.only_inherited"))] = False,
    run: Annotated[str | None, option("--range", help=text("cli.show.range"))] = None,
    last: Annotated[int | None, option("--last", metavar="N", min=1, max=MOST, help=text("cli.show.last"))] = None,
    role: Annotated[str | None, option("--role", help=text("cli.show.role"))] = None,
    follow: Annotated[bool, flag("--follow", "-f", help=text("cli.show.follow"))] = False,
    full: Annotated[bool, flag("--full", help=text("cli.view.full"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    export_html: Annotated[str | None, option("--export-html", help=text("cli.show.export_html"))] = None,
    as_json: AsJson = False,
) -> None:
    """Look and print; nothing is changed."""
    from orihon.tasks.reader import Choice

    if export_html is not None:
        export_page(context, named_task(context, task), export_html, as_json=as_json)
        return
    asked = {"messages": messages, "summaries": summaries, "tools": tools, "plans": plans, "folds": folds}
    asked["inherited"] = inherited
    wanted = [name for name, is_asked in asked.items() if is_asked]
    choice = Choice.parse(run, newest=last, role=role)
    if follow:
        _refuse_others(wanted, run)
        _follow(context, named_task(context, task), choice, full=full, as_json=as_json)
        return
    if not wanted and choice != Choice():
        wanted = ["messages"]
    uuid = named_task(context, task)
    with paged(off=no_pager or as_json):
        if wanted:
            show_records(context.ensure_object(CommandOptions), uuid, wanted, choice, full=full, as_json=as_json)
        else:
            _show_card(context, uuid, as_json=as_json)


def _refuse_others(wanted: list[str], run: str | None) -> None:
    from orihon.errors import InvalidInput

    others = [f"--{name}" for name in wanted if name != "messages"] + (["--range"] if run is not None else [])
    if others:
        raise InvalidInput("options_together", first="--follow", second=others[0])


def _show_card(context: typer.Context, uuid: str, *, as_json: bool) -> None:
    from orihon.cli.record_output import print_card
    from orihon.reports.overview import task_overview

    overview = task_overview(base_of(context), uuid)
    say(overview, print_card, as_json=as_json)


def show_records(
    options: CommandOptions, uuid: str, wanted: list[str], choice: Choice, *, full: bool, as_json: bool
) -> None:
    """What a task has recorded, one list after the other."""
    from orihon.cli.record_output import RecordPrinter, print_json_streams
    from orihon.reports.records import recorded
    from orihon.tasks.reader import chosen_messages, reading_task

    given = _given(options, uuid) if "inherited" in wanted else None
    names = [name for name in wanted if name != "inherited"]
    with reading_task(options.base, uuid) as (store, row):
        lists: dict[str, Iterator[Any]] = {name: recorded(store, row, options.settings, name, choice) for name in names}
        if as_json:
            head: dict[str, Any] = {"task": uuid}
            head |= {"inherited": given} if "inherited" in wanted else {}
            print_json_streams(head, lists)
            return
        lists |= {"messages": chosen_messages(store, choice)} if "messages" in names else {}
        printer = RecordPrinter(store.count("messages"), full=full)
        for name, items in lists.items():
            printer.print_all(name, items, titled=len(wanted) > 1)
        if "inherited" in wanted:
            printer.print_inherited(given, titled=len(wanted) > 1)


def _given(options: CommandOptions, uuid: str) -> InheritanceContext | None:
    from orihon.reports.overview import inherited_by

    return inherited_by(options.base, uuid)


def _follow(context: typer.Context, uuid: str, choice: Choice, *, full: bool, as_json: bool) -> None:
    """The newest messages, then each new one at once; with ``--json`` one object on each line."""
    import sys

    from orihon.cli.record_output import EntryPrinter
    from orihon.errors import TaskNotFound
    from orihon.reports.records import follow_messages
    from orihon.system import jsonio
    from orihon.tasks.reader import Choice, chosen_messages, reading_task

    options = context.ensure_object(CommandOptions)
    first: list[Any] = []
    after = 0
    try:
        with reading_task(options.base, uuid) as (store, _):
            after = store.count("messages")
            wanted = Choice(last=after, newest=choice.newest or _FIRST_OF_FOLLOWED, role=choice.role)
            first = list(chosen_messages(store, wanted))
    except TaskNotFound as error:
        if error.reason != "no_folder":
            raise
    printer = EntryPrinter(max(after, _USUAL_LOG), full=full)

    def show_one(stored: Any) -> None:
        if as_json:
            typer.echo(jsonio.encode(stored.as_dict()).decode())
        else:
            printer.original(stored, timed=True)
        sys.stdout.flush()

    for stored in first:
        show_one(stored)
    for stored in follow_messages(options.base, uuid, after=after):
        if choice.role in (None, stored.message.role):
            show_one(stored)


_FIRST_OF_FOLLOWED = 10
_USUAL_LOG = 1000  # a column wide enough for a while


# ---- the chain -------------------------------------------------------------------------------------------------------

_SHORT_ID = 8
_MOST = 10_000
_COLUMNS = ("task", "status", "began", "ended", "heritage", "what")


def chain(
    context: typer.Context,
    task: TaskArgument,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help=text("cli.chain.limit"))] = 50,
    as_json: AsJson = False,
) -> None:
    """Which task has what from which."""
    from orihon.tasks.chain import task_chain

    links = task_chain(base_of(context), task, limit=limit)
    if as_json:
        print_json({"tasks": links})
    else:
        names = [text(f"cli.chain.{column}") for column in _COLUMNS]
        print_table(names, map(_cells, links), flexible=_COLUMNS.index("what"))


def _cells(link: ChainLink) -> tuple[object, ...]:
    on_terminal = sys.stdout.isatty()
    giver = link.inherits_from or text(f"cli.chain.{link.heritage}")
    if on_terminal and link.inherits_from is not None:
        giver = giver[:_SHORT_ID]
    uuid = link.uuid[:_SHORT_ID] if on_terminal else link.uuid
    began, ended = _time(link.started_at, short=on_terminal), _time(link.completed_at, short=on_terminal)
    return uuid, link.status.value, began, ended, giver, _what(link)


def _time(stamp: str | None, *, short: bool) -> str:
    if stamp is None:
        return "-"
    return stamp[:16].replace("T", " ") if short else stamp


def _what(link: ChainLink) -> str:
    if link.inherits_from is None:
        return "-"
    return text("cli.chain.unreadable") if link.inherited is None else _listed(link.inherited)


def _listed(inherited: Inherited) -> str:
    """In the words of the comment that a task's source gets."""
    counts = (
        ("has_plans", inherited.plans),
        ("has_problems", inherited.open_problems),
        ("has_earlier", inherited.earlier),
    )
    parts = [text("inheritance.has_summary")] if inherited.final_summary else []
    parts += [text(f"inheritance.{name}", count=count) for name, count in counts if count]
    parts += [text("inheritance.from_import")] if inherited.imported else []
    return ", ".join(parts) or text("inheritance.nothing")
