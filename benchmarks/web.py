"""The web page: how long it takes with very many tasks and a very long task, and what open pages cost a worker.

    python -m benchmarks.web [--tasks 10000] [--messages 100000] [--waiting 0] [--pages 50] [--rounds 12] [--only files]

The server is ``orihon serve`` in a process of its own. Server time is from the request to the last byte over loopback;
first contentful paint is what Chromium says of itself, in a window that has seen nothing before. An appended message is
on the screen when a MutationObserver of the page sees its text. What pages cost is measured at a process that appends
without a pause, with and without open pages in turn; a page is its two streams of events, read to the end of each
event. A figure is the median of the rounds. ``--waiting`` measures the inbox alone, with so many tasks that wait; the
first look at it reads all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.catalogue import answers, fill_postgres, sqlite
from benchmarks.figures import used
from orihon import PlannedFold, TaskContextManager, TaskKey
from orihon.catalogue.connect import open_catalogue
from orihon.errors import Waiting
from orihon.settings import Settings, load_settings
from orihon.store.record_codec import Said
from orihon.values.message.message import Message

WANTED_MILLISECONDS = 100.0
WANTED_PAINT = 1000.0
WANTED_ON_SCREEN = 500.0
WANTED_COST = 1.05
ORIHON = str(Path(sys.executable).with_name("orihon"))
_DATABASE = "postgresql://127.0.0.1:5432/test"
_AT_ONCE = 1000
_SECONDS = 2.0  # that a round of appends takes
# Asked so that the page itself answers when it knows: its policy allows nothing that is made of text.
_PAINTED = """() => new Promise(told => new PerformanceObserver(found => {
    for (const one of found.getEntriesByName("first-contentful-paint")) told(one.startTime);
}).observe({type: "paint", buffered: true}))"""
_WATCHING = """() => {
    window.seen = {};
    new MutationObserver(changes => {
        const said = changes.flatMap(one => [...one.addedNodes]).map(one => one.textContent).join(" ");
        const words = said.match(/marker-\\d+/g) || [];
        requestAnimationFrame(() => words.forEach(word => window.seen[word] ??= Date.now()));
    }).observe(document.querySelector("main"), {childList: true, subtree: true});
}"""
_SEEN = """word => new Promise(told => {
    const look = () => window.seen[word] ? told(window.seen[word]) : setTimeout(look, 10);
    look();
})"""
_KEY = TaskKey("bench", "team", "repo", "issue", "1", "ana")


@dataclass(frozen=True)
class Place:
    """A base folder with what is measured in it."""

    base: Path
    config: Path
    settings: Settings
    uuid: str


def fill(task: TaskContextManager, messages: int) -> None:
    """A long log, folded as a long task is: a thousand messages at a time, all but the last ones."""
    store = task.message_store
    store.add_message("system", "You are a coding agent.")
    for start in range(1, messages, _AT_ONCE):
        texts = (f"Message {seq} of a long log. " * 12 for seq in range(start, min(start + _AT_ONCE, messages)))
        roles = ("user", "assistant")
        store.task_store.append([Said(Message(roles[at % 2], said)) for at, said in enumerate(texts)])
        if start > 1:
            store.folding.compress([PlannedFold(start - _AT_ONCE + 1, start, f"What happened until {start}.")])


@contextmanager
def place(backend: str, tasks: int, messages: int) -> Iterator[Place]:
    """The base folder, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="orihon-web-"))
    schema = f"orihon_benchmark_{secrets.token_hex(4)}"
    storage = {"backend": backend, "durability": "os"}
    config: dict[str, Any] = {"context_storage": storage, "masking": {"enabled": False}}
    config["web"] = {"max_connections": 1000, "max_streams_per_user": 1000}
    if backend == "postgres":
        config["database"] = {"url": _DATABASE, "schema": schema}
    settings = load_settings(config, environ={})
    base = folder / "contexts"
    base.mkdir()
    (folder / "config.yaml").write_text(json.dumps(config))
    try:
        if backend == "postgres":
            with open_catalogue(base, settings) as catalogue:
                fill_postgres(catalogue, _DATABASE, schema, tasks)
        else:
            with sqlite(base, tasks):
                pass
            used(base)
        task = TaskContextManager(base, _KEY, settings, inherit=False)
        fill(task, messages)
        task.stop()
        task.catalogue.close()
        yield Place(base, folder / "config.yaml", settings, task.uuid)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if backend == "postgres":
            import psycopg

            with psycopg.connect(_DATABASE, autocommit=True) as session:
                session.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


@contextmanager
def serving(where: Place) -> Iterator[dict[str, Any]]:
    """The address and the token of a server."""
    command = [ORIHON, "--base-dir", str(where.base), "--config", str(where.config), "serve", "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = ""
        while not said.endswith("}\n"):
            said += process.stdout.readline()
        yield {**json.loads(said), "pid": process.pid}
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def print_figure(name: str, milliseconds: list[float], wanted: float) -> None:
    print(f"  {name:40} {statistics.median(milliseconds):7.1f} ms   (wanted: under {wanted:.0f})", flush=True)


def print_server_times(where: Place, server: dict[str, Any], rounds: int, last: int) -> None:
    rows = {
        "tasks page": "/",
        "tasks page, one user's": "/?user=user-7",
        "task page at its end": f"/tasks/{where.uuid}",
        "task page in the middle": f"/tasks/{where.uuid}?at={last // 2}",
        "what the model saw at a step": f"/tasks/{where.uuid}/view?at={last // 2}",
        "statistics": "/statistics",
    }
    headers = {"Authorization": f"Bearer {server['token']}"}
    with httpx.Client(base_url=server["address"], headers=headers, timeout=60) as client:
        for name, path in rows.items():
            client.get(path).raise_for_status()
            took = []
            for _ in range(rounds):
                started = time.perf_counter()
                client.get(path)
                took.append(1000 * (time.perf_counter() - started))
            print_figure(name, took, WANTED_MILLISECONDS)


def print_paints(where: Place, server: dict[str, Any], browser: Any, rounds: int) -> None:
    for name, path in {"tasks page": "", "task page": f"tasks/{where.uuid}"}.items():
        took = []
        for _ in range(rounds):
            context = _let_in(browser, server)
            page = context.new_page()
            page.goto(server["address"] + path)
            took.append(page.evaluate(_PAINTED))
            context.close()
        print_figure(f"{name}, first contentful paint", took, WANTED_PAINT)


def print_on_screen(where: Place, server: dict[str, Any], browser: Any, rounds: int) -> None:
    """From before the append until the page has it."""
    context = _let_in(browser, server)
    page = context.new_page()
    page.goto(f"{server['address']}tasks/{where.uuid}")
    page.wait_for_selector("[data-live][data-on]", state="attached")
    page.evaluate(_WATCHING)
    task = TaskContextManager.resume(where.base, where.uuid, where.settings)
    took = []
    for number in range(rounds):
        started = time.time()
        task.message_store.add_message("user", f"Something new: marker-{number}")
        took.append(page.evaluate(_SEEN, f"marker-{number}") - 1000 * started)
        time.sleep(0.3)
    task.stop()
    task.catalogue.close()
    context.close()
    print_figure("an appended message is on the screen", took, WANTED_ON_SCREEN)


def _let_in(browser: Any, server: dict[str, Any]) -> Any:
    context = browser.new_context()
    answer = context.request.post(server["address"] + "login", form={"token": server["token"]}, max_redirects=0)
    assert answer.status == 303
    return context


def print_cost(where: Place, server: dict[str, Any], pages: int, rounds: int) -> None:
    """CPU of a process that appends, for each append, with and without open pages in turn."""
    worker = _child("appending", where)
    listener: subprocess.Popen[str] | None = None
    figures: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    shares = []
    try:
        for number in range(2 * rounds):
            is_watched = bool(number % 2)
            if is_watched:
                listener = _child("listening", where, server["address"], server["token"], str(pages))
            before, begun = _cpu_of(server["pid"]), time.perf_counter()
            figures[is_watched].append(_turn(worker))
            if is_watched and listener is not None:
                shares.append((_cpu_of(server["pid"]) - before) / (time.perf_counter() - begun))
                _end(listener)
    finally:
        _end(worker)
    pairs = list(zip(figures[True], figures[False], strict=True))[1:]
    cpu, wall = (statistics.median(one[at] / other[at] for one, other in pairs) for at in (0, 1))
    each = statistics.median(cpu for cpu, _ in figures[False])
    print(f"  a worker's CPU for an append             {1e6 * each:7.0f} µs")
    print(f"  the same with {pages} pages open             {cpu:7.3f} of it   (wanted: at most {WANTED_COST})")
    print(f"  the time that appends take then          {wall:7.3f} of it, pages and server on the same cores")
    print(f"  the server's own CPU meanwhile           {100 * statistics.median(shares):7.0f} % of a core")


def _child(kind: str, where: Place, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.web", "--child", kind, str(where.base), str(where.config), where.uuid]
    child = subprocess.Popen([*command, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def _turn(worker: subprocess.Popen[str]) -> tuple[float, float]:
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("go\n")
    worker.stdin.flush()
    cpu, wall = worker.stdout.readline().split()
    return float(cpu), float(wall)


def _end(child: subprocess.Popen[str]) -> None:
    child.terminate()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def appending(base: Path, config: Path, uuid: str) -> None:
    """Appends for every line of the input, and says what that took."""
    task = TaskContextManager.resume(base, uuid, load_settings(config, environ={}))
    print("ready", flush=True)
    for _ in sys.stdin:
        cpu, begun, number = time.process_time(), time.perf_counter(), 0
        while time.perf_counter() - begun < _SECONDS:
            number += 1
            task.message_store.add_message("user", f"{number}: the test fails because the cache is filled first. " * 8)
        print((time.process_time() - cpu) / number, (time.perf_counter() - begun) / number, flush=True)


def listening(uuid: str, address: str, token: str, pages: int) -> None:
    """So many pages of a task, as far as the server knows."""
    import selectors
    import socket

    host = address.split("/")[2]
    name, _, port = host.partition(":")
    chosen = selectors.DefaultSelector()
    for _ in range(pages):
        for path in ("/events", f"/tasks/{uuid}/events"):
            line = socket.create_connection((name, int(port)))
            line.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            assert line.recv(12) == b"HTTP/1.1 200"
            chosen.register(line, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, _ in chosen.select():
            line = key.fileobj  # type: ignore[assignment]
            assert line.recv(1 << 18)


def measure_waiting(backend: str, given: argparse.Namespace) -> None:
    print(f"{backend}: {given.waiting:,} tasks that wait for a person", flush=True)
    with place(backend, 0, 1) as where:
        for number in range(given.waiting):
            key = TaskKey("bench", "team", "repo", "issue", f"w{number}", "ana")
            task = TaskContextManager(where.base, key, where.settings, inherit=False)
            task.message_store.add_message("user", "Plan the move.")
            with suppress(Waiting):
                task.checkpoint("plan", "Is the plan good as it is?")
            task.catalogue.close()
        with serving(where) as server:
            headers = {"Authorization": f"Bearer {server['token']}"}
            with httpx.Client(base_url=server["address"], headers=headers, timeout=60) as client:
                took = []
                for _ in range(given.rounds + 1):
                    started = time.perf_counter()
                    client.get("/approvals").raise_for_status()
                    took.append(1000 * (time.perf_counter() - started))
        print(f"  {'approvals, the first look':40} {took[0]:7.1f} ms")
        print_figure("approvals", took[1:], WANTED_MILLISECONDS)


def measure(backend: str, given: argparse.Namespace) -> None:
    from tests.browser import chromium

    print(f"{backend}: {given.tasks:,} tasks, {given.messages:,} messages", flush=True)
    with place(backend, given.tasks, given.messages) as where, serving(where) as server:
        print_server_times(where, server, given.rounds, given.messages)
        with chromium() as browser:
            print_paints(where, server, browser, given.rounds // 2)
            print_on_screen(where, server, browser, given.rounds)
        print_cost(where, server, given.pages, given.rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--waiting", type=int, default=0)
    parser.add_argument("--pages", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", choices=["files", "sqlite", "postgres"])
    parser.add_argument("--child", nargs="+")
    given = parser.parse_args()
    if given.child:
        kind, base, config, uuid, *more = given.child
        if kind == "appending":
            appending(Path(base), Path(config), uuid)
        else:
            listening(uuid, more[0], more[1], int(more[2]))
        return
    for backend in ("files", "sqlite", "postgres"):
        if given.only not in (None, backend) or (backend == "postgres" and not answers(_DATABASE)):
            continue
        (measure_waiting if given.waiting else measure)(backend, given)


if __name__ == "__main__":
    main()
