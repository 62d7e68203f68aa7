"""``orihon show``: one task at a glance, or what it has recorded: messages, summaries, tools, plans, folds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.export import export_page
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json
from orihon.cli.pager import paged
from orihon.cli.task_argument import MOST, TaskArgument, named_task
from orihon.texts import text

if TYPE_CHECKING:
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
    last: Annotated[
        int | None,
        typer.Option("--last", metavar="N", min=1, max=MOST, help=text("cli.show.last"), show_default=False),
    ] = None,
    role: Annotated[str | None, option("--role", help=text("cli.show.role"))] = None,
    follow: Annotated[bool, flag("--follow", "-f", help=text("cli.show.follow"))] = False,
    full: Annotated[bool, flag("--full", help=text("cli.view.full"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    export_html: Annotated[str | None, option("--export-html", help=text("cli.show.export_html"))] = None,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
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
    from orihon.cli.show_output import print_card
    from orihon.reports.overview import task_overview

    options = context.ensure_object(CommandOptions)
    overview = task_overview(options.base, uuid)
    if as_json:
        print_json(overview)
    else:
        print_card(overview)


def show_records(
    options: CommandOptions, uuid: str, wanted: list[str], choice: Choice, *, full: bool, as_json: bool
) -> None:
    """What a task has recorded, one list after the other."""
    from orihon.cli.show_output import RecordPrinter
    from orihon.cli.view_output import print_json_streams
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

    from orihon.cli.view_output import EntryPrinter
    from orihon.errors import TaskNotFound
    from orihon.reports.follow import follow_messages
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
