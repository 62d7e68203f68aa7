"""Plays campaigns side by side in processes of their own, adds up what they show, and ends them in time.

The runner itself opens no store. Each job has a folder, with PostgreSQL a schema, and is ended with all its children
when its time is over, when it has made its trials, or when the runner is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput, OrihonError
from orihon.guard.masking.rules import built_in_finders
from orihon.settings import Settings
from orihon.system.files import make_private_folder
from orihon.upkeep.torture.campaign import BACKENDS, MUST_BE_ZERO, Arena, Campaign, Trial
from orihon.upkeep.torture.nursery import Nursery, die_with_parent, where_raised

#: By name, in the order of the table, each as ``module:class`` of this package.
CAMPAIGNS = {
    "kills": "kills:Kills",
    "stops": "stops:Stops",
    "writers": "writers:Writers",
    "fleet": "fleet:Fleet",
    "clock": "clock:Clock",
    "cuts": "cuts:Cuts",
    "errors": "faults:Errors",
    "full": "faults:Full",
    "damage": "damage:Damage",
}
_LOOK_SECONDS = 0.2
#: Seconds that a job has to end after it was told to.
_LAST_SECONDS = 20.0
#: Bytes that a job may need on the disk.
_ROOM = 32 << 20
#: Of one campaign and back end so many failures are told, and their folders kept.
_MOST_TOLD = 20


@dataclass(slots=True)
class TortureRow:
    """What one campaign has shown at one back end. The fields from ``lost`` on must be zero."""

    campaign: str
    backend: str
    seconds: float = 0.0
    trials: int = 0
    tasks: int = 0
    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    stale: int = 0
    shut: int = 0
    unnoticed: int = 0
    tracebacks: int = 0

    def add(self, trial: Trial) -> None:
        for name in ("trials", "tasks", "acknowledged", *MUST_BE_ZERO):
            setattr(self, name, getattr(self, name) + getattr(trial, name))

    @property
    def is_clean(self) -> bool:
        return not any(getattr(self, name) for name in MUST_BE_ZERO)


@dataclass(frozen=True, slots=True)
class TortureFailure:
    """One trial that failed: ``--seed`` and ``--jobs`` as they were lead to the same choices again."""

    campaign: str
    backend: str
    job: int
    trial: int
    seen: str
    folder: Path


@dataclass(slots=True)
class TortureReport:
    """What a run has shown, as far as it came."""

    seed: int
    jobs: int
    seconds: float = 0.0
    is_complete: bool = False  # not interrupted
    rows: list[TortureRow] = field(default_factory=list)
    failures: list[TortureFailure] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return all(row.is_clean for row in self.rows)

    @property
    def unplayed(self) -> list[str]:
        """What nothing is known of: campaigns that have not come to a trial at a back end."""
        return [f"{row.campaign} {row.backend}" for row in self.rows if row.is_clean and not row.trials]


@dataclass(frozen=True, slots=True)
class TorturePlan:
    """What is to be played: each campaign at each back end that it knows, for its share of the time."""

    campaigns: Sequence[str]
    backends: Sequence[str]
    folder: Path
    seed: int
    jobs: int
    minutes: float | None = None  # in all
    trials: int | None = None  # for each campaign and back end

    def cells(self) -> list[tuple[Campaign, str]]:
        made, wanted = [campaign_named(name) for name in self.campaigns], {*self.backends}
        found = [(one, backend) for one in made for backend in BACKENDS if backend in wanted & {*one.backends}]
        if not found:
            raise InvalidInput("torture_nothing", campaign=", ".join(self.campaigns), backend=", ".join(self.backends))
        return found


def campaign_named(name: str) -> Campaign:
    if name not in CAMPAIGNS:
        raise InvalidInput("no_campaign", name=name, known=", ".join(CAMPAIGNS))
    module, kind = CAMPAIGNS[name].split(":")
    made: Campaign = getattr(import_module(f"orihon.upkeep.torture.{module}"), kind)()
    return made


def torture(
    plan: TorturePlan, settings: Settings, watch: Callable[[TortureReport], object] = lambda report: None
) -> TortureReport:
    """Play it all; ``watch`` is told how it stands, several times a second. At Ctrl-C what is known by then counts."""
    report, began = TortureReport(plan.seed, plan.jobs), time.monotonic()
    cells = plan.cells()
    _check_room(plan)
    database = _checked_database(settings) if any(backend == "postgres" for _, backend in cells) else None
    make_private_folder(plan.folder)
    with suppress(KeyboardInterrupt):
        for number, (campaign, backend) in enumerate(cells):
            left = None if plan.minutes is None else plan.minutes * 60 - (time.monotonic() - began)
            row = TortureRow(campaign.name, backend)
            report.rows.append(row)
            seconds = None if left is None else max(0.0, left) / (len(cells) - number)
            _play(plan, campaign, row, report, seconds, database if backend == "postgres" else None, watch)
        report.is_complete = True
    report.seconds = time.monotonic() - began
    if not report.failures:
        shutil.rmtree(plan.folder, ignore_errors=True)
    return report


def _check_room(plan: TorturePlan) -> None:
    """A folder of another disk than the wanted one, or one that is full anyway, would prove nothing."""
    place = plan.folder.parent
    if not place.is_dir():
        raise InvalidInput("torture_dir", path=place)
    free, wanted = shutil.disk_usage(place).free, plan.jobs * _ROOM
    if free < wanted:
        raise InvalidInput("torture_room", path=place, free=free >> 20, wanted=wanted >> 20)


def _play(
    plan: TorturePlan,
    campaign: Campaign,
    row: TortureRow,
    report: TortureReport,
    seconds: float | None,
    url: str | None,
    watch: Callable[[TortureReport], object],
) -> None:
    """One campaign at one back end, in all jobs side by side."""
    if plan.minutes == 0:
        return
    began = time.monotonic()
    shares = [None] * plan.jobs if plan.trials is None else _shares(plan.trials, plan.jobs)
    with _jobs(plan, campaign, row.backend, shares, url) as lines:
        told_to_end = False
        while lines:
            for ready in wait(list(lines), _LOOK_SECONDS):
                assert isinstance(ready, Connection)
                _take(ready, lines, row, report, plan.folder)
            row.seconds = time.monotonic() - began
            watch(report)
            if seconds is not None and row.seconds >= seconds and not told_to_end:
                told_to_end = True
                for process in lines.values():
                    process.terminate()
            if seconds is not None and row.seconds >= seconds + _LAST_SECONDS:
                return


def _shares(trials: int, jobs: int) -> list[int | None]:
    return [trials // jobs + (job < trials % jobs) for job in range(jobs)]


def _take(line: Connection, lines: dict[Connection, Any], row: TortureRow, report: TortureReport, folder: Path) -> None:
    try:
        got = line.recv()
    except EOFError:
        process = lines.pop(line)
        process.join(_LAST_SECONDS)
        if process.exitcode in (0, None, -signal.SIGTERM):
            return
        # It was killed, or could not even say what went wrong. What it has not played counts for nothing.
        job, trial = int(process.name.rpartition("-")[2]), Trial(trials=0)
        trial.fail("tracebacks", f"the process that plays it has ended with status {process.exitcode}")
        row.add(trial)
        got = TortureFailure(row.campaign, row.backend, job, row.trials, trial.seen[0], _folder_of(folder, row, job))
    if isinstance(got, Trial):
        row.add(got)
    elif sum((one.campaign, one.backend) == (row.campaign, row.backend) for one in report.failures) < _MOST_TOLD:
        report.failures.append(got)


@contextmanager
def _jobs(
    plan: TorturePlan, campaign: Campaign, backend: str, shares: Sequence[int | None], url: str | None
) -> Iterator[dict[Connection, Any]]:
    """The processes of a campaign by the lines that they report on; none is left afterwards."""
    context = multiprocessing.get_context("fork")
    lines: dict[Connection, Any] = {}
    with ExitStack() as at_end:
        for job, trials in enumerate(shares):
            if trials == 0:
                continue
            ours, theirs = context.Pipe(duplex=False)
            arguments = (theirs, plan, campaign, backend, job, trials, url)
            process = context.Process(target=_job, args=arguments, name=f"orihon-torture-{job}")
            process.start()
            theirs.close()
            at_end.callback(_end, process)
            lines[ours] = process
        yield lines


def _folder_of(folder: Path, row: TortureRow, job: int) -> Path:
    return folder / f"{row.campaign}-{row.backend}-{job}"


def _end(process: Any) -> None:
    process.terminate()
    process.join(_LAST_SECONDS)
    if process.is_alive():
        process.kill()
        process.join()


# ---- inside a job ----------------------------------------------------------------------------------------------------


def _job(
    line: Connection, plan: TorturePlan, campaign: Campaign, backend: str, job: int, trials: int | None, url: str | None
) -> None:
    """A process that plays one campaign. Ctrl-C is for the runner."""
    os.setsid()
    signal.signal(signal.SIGTERM, _leave)
    die_with_parent(signal.SIGTERM)  # what is left over is tidied up
    folder = _folder_of(plan.folder, TortureRow(campaign.name, backend), job)
    make_private_folder(folder)
    with ExitStack() as at_end:
        output = at_end.enter_context((folder / "output.txt").open("a", buffering=1))
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        _warm_up(backend)
        nursery = Nursery()
        at_end.callback(nursery.close)
        schema = _new_schema()
        failed: list[TortureFailure] = []
        at_end.push(lambda kind, *_: _tidy(folder, failed, url, schema, by_error=kind not in (None, SystemExit)))
        chance = random.Random(f"{plan.seed} {campaign.name} {backend} {job}")  # noqa: S311 - nobody is to be surprised
        arena = Arena(folder, backend, chance, nursery, {} if url is None else {"url": url, "schema": schema})
        arena.job, arena.jobs = job, plan.jobs
        played = 0
        for trial in _played(campaign, arena, at_end):
            played += trial.trials
            newest = max(folder.glob("[0-9]" * 6), default=folder)
            line.send(trial)
            for seen in trial.seen:
                failed.append(TortureFailure(campaign.name, backend, job, played, seen, newest))
                line.send(failed[-1])
            _remove_places(folder, {failure.folder for failure in failed[:_MOST_TOLD]} | {newest})
            if trials is not None and played >= trials:
                break


def _warm_up(backend: str) -> None:
    """What takes long is done once, and not in every child."""
    import_module(f"orihon.store.{backend}")
    import_module("orihon.audit.files_sink")
    built_in_finders(email=False, ssn=False)


def _leave(*_: object) -> None:
    """Told to end; told again while it tidies up, it goes on with that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _played(campaign: Campaign, arena: Arena, at_end: ExitStack) -> Iterator[Trial]:
    """The trials; an error that comes out of the campaign is one too, and it begins anew."""
    trials = campaign.trials(arena)
    at_end.callback(trials.close)
    for _ in range(_MOST_TOLD):
        try:
            yield from trials
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, the table has to tell it
            traceback.print_exc(file=sys.stderr)
            trial = Trial()
            column = "shut" if isinstance(error, OrihonError) else "tracebacks"
            trial.fail(column, f"{where_raised(error)}: {type(error).__name__}: {error}")
            arena.nursery.clear()
            yield trial
            trials = campaign.trials(arena)
            at_end.callback(trials.close)


def _remove_places(folder: Path, kept: set[Path]) -> None:
    for place in folder.glob("[0-9]" * 6):
        if place not in kept:
            shutil.rmtree(place, ignore_errors=True)


def _tidy(folder: Path, failed: Sequence[TortureFailure], url: str | None, schema: str, *, by_error: bool) -> None:
    """What proves nothing goes; what failed stays to be looked at."""
    if failed or by_error:
        return
    if url is not None:
        _run(url, f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
    shutil.rmtree(folder, ignore_errors=True)


# ---- PostgreSQL ------------------------------------------------------------------------------------------------------


def _checked_database(settings: Settings) -> str:
    """The address of a server where schemas may be made; the server's own refusal is told."""
    url = settings.database.url
    if url is None:
        raise InvalidInput("torture_no_database")
    schema = _new_schema()
    _run(url, f'CREATE SCHEMA "{schema}"')
    _run(url, f'DROP SCHEMA "{schema}"')
    return url


def _new_schema() -> str:
    return f"orihon_torture_{secrets.token_hex(6)}"


def _run(url: str, statement: str) -> None:
    from orihon.drivers.postgres.pool import Postgres

    server = Postgres(url, "public")
    with server.connection() as connection:
        connection.execute(statement.encode())
    server.close()
