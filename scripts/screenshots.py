"""Makes the pictures of the web page: ``make screenshots``.

A base folder with the demo's tasks and others at work, in line, waiting for a person and failed; all of it made up.
Each page is photographed into ``docs/images``, some dark, Japanese or on a phone. Needs Chromium, as the tests do.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.workers import WorkerStatistics
from orihon.errors import Waiting
from orihon.runtime.broker_queue import open_queue
from orihon.settings import Settings, load_settings
from orihon.tasks.approvals.answers import approve
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.usage import record_usage_of_log
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage
from orihon.values.task import TaskKey, TaskStatus
from orihon.values.view import PlannedFold
from orihon.web.server import Listening, WebServer
from tests.helpers import raw_database

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
_WIDE = {"width": 1200, "height": 700}
_PHONE = {"width": 390, "height": 700}
#: Charts are drawn and figures come after the page itself.
_SECONDS_TO_SETTLE = 1.5
_MODELS = ("gpt-4o", "claude-sonnet-4-5", "gpt-4o-mini")
_WORDS = (
    "The handler reads the basket before the session is checked; I move the call down and add a test for it.",
    "src/shop/basket.py:118: AssertionError: expected 2 items, found 3 after the second request.",
    "I looked at the migration: the column is nullable in the first version and required in the second one.",
    "Decided: keep the old endpoint for one release, log a warning, remove it in the next one.",
)
_SUBJECTS = {
    "running": (
        "Basket loses items after a second login",
        "Search suggests deleted products",
        "Slow start of the worker",
    ),
    "queued": ("Translate the error pages", "Update the licence headers"),
    "failed": ("Import the old invoices",),
    "completed": ("Rate limit for the public API", "Dark mode for the receipts", "Remove the flaky retry test"),
}


@dataclass(frozen=True)
class Shot:
    """One picture."""

    name: str
    path: str
    language: str = "en"
    dark: bool = False
    phone: bool = False


def shots(demo: str) -> Iterator[Shot]:
    """All of them; ``demo`` is the task of the demo."""
    yield Shot("tasks", "")
    yield Shot("task", f"tasks/{demo}")
    yield Shot("compare", f"tasks/{demo}/compare/3")
    yield Shot("approvals", "approvals")
    yield Shot("search", "search?query=basket")
    yield Shot("statistics", "statistics")
    yield Shot("workers", "workers")
    yield Shot("notifications", "notifications")
    yield Shot("settings", "settings")
    yield Shot("task-dark", f"tasks/{demo}", dark=True)
    yield Shot("tasks.ja", "", language="ja")
    yield Shot("approvals.ja", "approvals", language="ja", dark=True)
    yield Shot("tasks-phone", "", phone=True)
    yield Shot("task-phone", f"tasks/{demo}", phone=True)


def main() -> None:
    system, _, *rest = os.uname()
    os.uname = lambda: os.uname_result((system, "laptop", *rest))  # pages show where a task runs
    os.environ["LOGNAME"] = "ana"  # and who looks at it
    demo = Path(tempfile.gettempdir(), "orihon-demo")
    shutil.rmtree(demo, ignore_errors=True)
    try:
        program = str(Path(sys.executable).with_name("orihon"))
        subprocess.run([program, "demo", "--folder", str(demo)], check=True, capture_output=True)
        base, settings = demo / "contexts", _settings()
        with closing(open_catalogue(base, settings)) as catalogue:
            first = min(catalogue.tasks.page(limit=10), key=lambda row: row.created_at).uuid
        with _at_work(base, settings):
            _photograph(base, settings, first)
    finally:
        shutil.rmtree(demo, ignore_errors=True)


def _settings() -> Settings:
    return load_settings(
        {"llm": {"provider": "openai", "openai": {"model": "gpt-4o", "context_length": 16_000}}}, environ={}
    )


@contextmanager
def _at_work(base: Path, settings: Settings) -> Iterator[None]:
    """Tasks of a small shop, some of them open until the block ends."""
    chance = random.Random(3)  # noqa: S311 - for pictures that look the same every time
    with closing(open_queue(base, settings)) as queue:
        for number, subject in enumerate(_SUBJECTS["queued"]):
            queue.enqueue(_key(40 + number, "kim"), prompt=subject)
    for number, subject in enumerate(_SUBJECTS["completed"]):
        task = _task(base, settings, _key(10 + number, ("ana", "kim", "lee")[number]), subject, 12 + 6 * number, chance)
        task.complete()
        task.catalogue.close()
    failed = _task(base, settings, _key(21, "lee"), _SUBJECTS["failed"][0], 9, chance)
    failed.fail("The file invoices-2019.csv has 3 columns where 7 were expected.")
    failed.catalogue.close()
    _ask(base, settings, chance)
    running = [
        _task(base, settings, _key(30 + number, ("ana", "lee", "kim")[number]), subject, (52, 24, 11)[number], chance)
        for number, subject in enumerate(_SUBJECTS["running"])
    ]
    _let_weeks_pass(base)
    for number, task in enumerate(running, 1):
        figures = WorkerStatistics(f"laptop-{number}", 4 * number, number // 3)
        task.catalogue.workers.add(figures.name, f"worker-{number}")
        task.catalogue.workers.note(figures, "working", task.uuid)
    try:
        yield
    finally:
        for task in running:
            task.stop()
            task.catalogue.close()


def _let_weeks_pass(base: Path) -> None:
    """Figures as if all that had been the work of some weeks."""
    with raw_database(base / "tasks.db") as connection:
        connection.execute("DELETE FROM workers")  # those of the demo have gone
        for number, (uuid,) in enumerate(connection.execute("SELECT uuid FROM tasks ORDER BY task_id").fetchall()):
            connection.execute(
                "UPDATE usage SET day = date('now', ?) WHERE uuid = ?", (f"-{number * 7 % 19} days", uuid)
            )
            connection.execute(
                "UPDATE tasks SET total_tokens = (SELECT coalesce(sum(input_tokens + output_tokens), 0) FROM usage "
                "WHERE usage.uuid = tasks.uuid) WHERE uuid = ?",
                (uuid,),
            )


def _key(number: int, user: str) -> TaskKey:
    return TaskKey("github", "acme", "shop", "issue", str(number), user)


def _task(
    base: Path, settings: Settings, key: TaskKey, subject: str, turns: int, chance: random.Random
) -> TaskContextManager:
    task = TaskContextManager(base, key, settings, inherit=False)
    store = task.message_store.task_store
    store.append(Message("system", "You are a careful coding agent."))
    store.append(Message("user", subject))
    task.planning_store.add_plan("initial", ["read the code", "write a failing test", "mend it"])
    for number in range(turns):
        said = " ".join(chance.choices(_WORDS, k=chance.randint(2, 14)))
        usage = Usage(chance.randint(2_000, 9_000), chance.randint(100, 900), chance.randint(0, 2_000))
        model = _MODELS[int(key.task_id) % len(_MODELS)]
        store.append(Message("assistant", said), call=ModelCall(model, usage))
        if number % 2:
            store.append(Message("user", chance.choice(_WORDS)))
        if number and number % 20 == 0:
            last = store.count("messages")
            task.message_store.folding.compress(
                [PlannedFold(last - 18, last - 6, f"{subject}: the cause is found and a failing test is written.")],
                strategy="summarize",
                trigger="usage",
            )
    # What a worker does beside its work.
    record_usage_of_log(task.catalogue, store, task.uuid)
    task.catalogue.tasks.update(task.uuid, prompt=subject)
    task.heartbeat()
    return task


def _ask(base: Path, settings: Settings, chance: random.Random) -> None:
    """A task that waits for its second answer."""
    key = TaskKey("github", "acme", "shop", "issue", "52", "ana")
    task = _task(base, settings, key, "Plan the move to the new payment provider", 8, chance)
    task.stop()
    task.catalogue.close()
    for phase, question in (("research", "Shall we go on with provider B?"), ("plan", "Is the plan good as it is?")):
        task = TaskContextManager.resume(base, task.uuid, settings)
        task.phase(phase)
        task.message_store.add_message(
            "assistant", f"## Decision\n\n{_WORDS[3]}\n\n## Research\n\n{' '.join(_WORDS) * 4}"
        )
        with suppress(Waiting):
            task.checkpoint(phase, question)
        task.catalogue.close()
        if phase == "research":
            approve(OpenBase(base, settings), task.uuid, by="ana", reason="B is cheaper and has the better API.")
    with closing(open_catalogue(base, settings)) as catalogue:
        assert catalogue.tasks.page(status=TaskStatus.WAITING)


def _photograph(base: Path, settings: Settings, demo: str) -> None:
    from tests.browser import chromium

    IMAGES.mkdir(exist_ok=True)
    with WebServer(base, settings, Listening(port=0)) as server, chromium() as browser:
        server.start()
        for shot in shots(demo):
            options: dict[str, Any] = {
                "viewport": _PHONE if shot.phone else _WIDE,
                "color_scheme": "dark" if shot.dark else "light",
                "locale": "ja-JP" if shot.language == "ja" else "en-GB",
            }
            context = browser.new_context(**options)
            page = context.new_page()
            page.goto(server.login_address)
            page.wait_for_selector("nav [aria-current]")
            page.goto(server.address + shot.path)
            page.wait_for_selector("[data-live][data-on]", state="attached")
            page.wait_for_timeout(_SECONDS_TO_SETTLE * 1000)
            path = IMAGES / f"{shot.name}.png"
            page.screenshot(path=path)
            context.close()
            sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB\n")


if __name__ == "__main__":
    main()
