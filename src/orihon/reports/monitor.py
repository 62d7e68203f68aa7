"""The monitor: is anything wrong with a base folder and its catalogue? ``ContextMonitor``.

Looks at the disk, at sizes, old tasks, leases without a process, compressions that failed, the last durable write and
locked databases, and compares each with the section ``monitor`` of the settings. What goes wrong is told through the
notifications, and so is its end: once each, however often and by how many processes it is looked at. It changes
nothing but the alerts that stand.
"""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.errors import OrihonError, StorageUnavailable
from orihon.notifications.notifier import Outbox, event_of
from orihon.reports.metrics.collect import write_ages
from orihon.reports.storage import sizes_of
from orihon.settings import Settings
from orihon.system.clock import utc_now
from orihon.system.files import wrapping
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase, opened_base
from orihon.texts import text
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.monitor")

GIGABYTE = 2**30
#: So few compressions of a day say nothing about their rate.
FEWEST_COMPRESSIONS = 5
_SIZE_AGE = 300.0  # seconds for which a measured size is good enough
_MOST_RUNNING = 1000


@dataclass(frozen=True, slots=True)
class Check(AsJson):
    """One figure and its limit. ``value`` is ``None`` where there is nothing to judge."""

    json_fields = "* -more"

    name: str
    value: float | None
    limit: float
    is_wrong: bool
    more: Mapping[str, float] = field(default_factory=dict)

    @property
    def figures(self) -> dict[str, Any]:
        """For the sentence about it."""
        return {"value": _short(self.value), "limit": _short(self.limit), **self.more}

    @property
    def message(self) -> str:
        return text(f"monitor.{self.name}", **self.figures)


@dataclass(frozen=True, slots=True)
class MonitorSnapshot(AsJson):
    """What one look has found, and which alerts it has raised and ended."""

    at: str
    checks: tuple[Check, ...]
    raised: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()

    @property
    def wrong(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.is_wrong)


@dataclass(frozen=True, slots=True)
class StandingAlert:
    """What the last look has found wrong."""

    name: str
    since: str
    message: str


def standing_alerts(base: OpenBase) -> tuple[StandingAlert, ...]:
    """What is wrong as far as it was looked at; this only reads."""
    catalogue = base.open_catalogue()
    if catalogue is None:
        return ()
    times, alerts = catalogue.outbox.alert_times(), catalogue.outbox.alerts()
    return tuple(
        StandingAlert(name, times.get(name, ""), text(f"monitor.{name}", **figures)) for name, figures in alerts.items()
    )


class ContextMonitor:
    """Looks at one base folder, once or as a loop."""

    def __init__(
        self,
        check_interval: float | None = None,
        *,
        base_dir: OpenBase | Path | str | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
    ) -> None:
        """``check_interval`` is in seconds; without it the setting ``monitor.interval``."""
        self._base = opened_base(base_dir, settings, create=True)
        self.settings, self.base_dir = self._base.settings, self._base.path
        self.check_interval = self.settings.monitor.interval if check_interval is None else check_interval
        self.alerts: list[dict[str, str]] = []  # what the last look has found wrong

    def check(self) -> MonitorSnapshot:
        """One look; alerts are raised and ended by it.

        A full disk may well be why the catalogue cannot be used: what is wrong with the disk is said all the same.
        """
        with OpenBase(self.base_dir, self.settings) as base:
            checks = tuple(_disk_checks(base))
            try:
                catalogue = base.open_catalogue()
                if catalogue is not None:
                    checks = tuple(_checks(base, catalogue, checks))
            except StorageUnavailable as error:
                if not any(check.is_wrong for check in checks):
                    raise
                logger.warning("the monitor could not read the catalogue: %s", error)
                catalogue = None
            self.alerts = [
                {"type": check.name, "message": check.message, "severity": "warning"}
                for check in checks
                if check.is_wrong
            ]
            raised, ended = ((), ()) if catalogue is None else self._send_alerts(catalogue, checks)
            return MonitorSnapshot(utc_now(), checks, raised, ended)

    def monitor(
        self, *, stop: threading.Event | None = None, on_look: Callable[[MonitorSnapshot], object] = lambda look: None
    ) -> None:
        """Look again and again until ``stop``; a look that fails is logged."""
        stop = stop or threading.Event()
        while not stop.is_set():
            started = time.monotonic()
            try:
                on_look(self.check())
            except OrihonError as error:  # a database that is away for a while is no reason to stop watching
                logger.warning("the monitor could not check: %s", error)
            stop.wait(max(0.0, self.check_interval - (time.monotonic() - started)))

    def _send_alerts(self, catalogue: Catalogue, checks: tuple[Check, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Tell what has changed since the last look, whoever took it; what cannot be written is told by the next."""
        standing = catalogue.outbox.alerts()
        raised: list[str] = []
        ended: list[str] = []
        try:
            for check in checks:
                if check.is_wrong == (check.name in standing):
                    continue
                figures = check.figures if check.is_wrong else dict(standing[check.name])
                if catalogue.outbox.change_alert(
                    check.name, figures, _notice(check, figures), is_raised=check.is_wrong
                ):
                    (raised if check.is_wrong else ended).append(check.name)
                    logger.warning("%s: %s", "wrong" if check.is_wrong else "right again", check.name)
        except StorageUnavailable as error:  # what was found is still said here
            logger.warning("alerts could not be written: %s", error)
        if raised or ended:
            Outbox(catalogue, self.base_dir, self.settings).send()
        return tuple(raised), tuple(ended)


def _notice(check: Check, figures: Mapping[str, Any]) -> NewNotice:
    kind, type_ = ("alert", "warning") if check.is_wrong else ("alert_over", "info")
    event = event_of(kind, check.name, time.time_ns())
    return NewNotice(event, kind, type_, None, {"name": check.name, "figures": dict(figures)})


# ---- the checks ----------------------------------------------------------------------------------------------------


def _disk_checks(base: OpenBase) -> Iterator[Check]:
    with wrapping(base.path):
        free = shutil.disk_usage(base.path).free / GIGABYTE
    limit = base.settings.monitor.min_free_gb
    yield Check("disk_free", round(free, 3), limit, free < limit)
    size = sizes_of(base.path, _SIZE_AGE).total / GIGABYTE
    yield _at_most("size", round(size, 3), base.settings.monitor.max_size_gb)


def _checks(base: OpenBase, catalogue: Catalogue, of_disk: tuple[Check, ...]) -> Iterator[Check]:
    """All of them; where the catalogue is a database, that takes room, too."""
    limits = base.settings.monitor
    free, size = of_disk
    yield free
    if base.settings.database.url is not None and size.value is not None:
        size = _at_most(
            "size", round(size.value + catalogue.statistics.database_bytes() / GIGABYTE, 3), limits.max_size_gb
        )
    yield size
    old = catalogue.statistics.count_old_tasks(_ago(days=limits.old_days))
    yield _at_most("old_tasks", old, limits.max_old, days=limits.old_days)
    yield _at_most("stale_leases", len(catalogue.leases.stale()), limits.max_stale_leases)
    yield _compression_failures(catalogue, base.settings)
    yield _at_most("write_age", _write_age(base, catalogue), limits.max_write_age)
    locked = catalogue.counters.counted(_ago(hours=1))["lock_errors"]
    yield _at_most("lock_errors", locked, limits.max_lock_errors)


def _at_most(name: str, value: float | None, limit: float, **more: float) -> Check:
    return Check(name, value, limit, value is not None and value > limit, more)


def _compression_failures(catalogue: Catalogue, settings: Settings) -> Check:
    """In percent, of the last day."""
    figures = catalogue.counters.counted(_ago(days=1))
    limit = 100 * settings.monitor.max_compression_failures
    if figures["compressions"] < FEWEST_COMPRESSIONS:
        return Check("compression_failures", None, limit, False)
    return _at_most(
        "compression_failures", round(100 * figures["compression_failures"] / figures["compressions"], 1), limit
    )


def _write_age(base: OpenBase, catalogue: Catalogue) -> float | None:
    """Seconds since any running task has stored something; ``None`` while nothing runs."""
    running = [row.uuid for row in catalogue.tasks.page(status=TaskStatus.RUNNING, limit=_MOST_RUNNING)]
    ages = write_ages(base, running).values()
    return round(min(ages), 1) if ages else None


def _ago(**span: float) -> str:
    try:
        return (datetime.now(UTC) - timedelta(**span)).isoformat(timespec="microseconds")
    except OverflowError:  # before there were years: nothing is so old
        return ""


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
