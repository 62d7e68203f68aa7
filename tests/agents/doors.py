"""What a client speaks to: ``orihon proxy``, a process with a base of its own, and the provider behind it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from orihon.system import jsonio
from tests.agents.job import NOTES
from tests.commands import ended, start
from tests.upstream import Request, Step, Upstream
from tests.upstream.cache import kept
from tests.upstream.server import Aside

PATIENCE = 240  # seconds; nothing here takes so long unless it hangs


@dataclass(frozen=True, slots=True)
class Door:
    """Where a client is sent to, the provider behind, and the base that keeps what is said."""

    url: str
    upstream: Upstream
    base: Path

    @property
    def turns(self) -> list[Request]:
        """The requests of the work itself that were answered."""
        return [request for request in self.upstream.turns if request.status == 200]

    @property
    def prefixes(self) -> list[float]:
        """The share of each turn that the next one begins with."""
        return [kept(one, other) for one, other in pairwise(self.turns)]

    def check(self, *, least_turns: int) -> None:
        """The whole script was played; no history was one that providers refuse, or too long for them."""
        upstream = self.upstream
        assert upstream.flaws == []
        assert upstream.is_over
        assert len(self.turns) >= least_turns
        asked = [request for request in upstream.requests if request.path != "/orihon/health"]  # a proxy, too?
        refused = [(request.method, request.path, request.status) for request in asked if request.status != 200]
        assert refused == []

    def check_prefix(self, *, most_folds: int = 2) -> None:
        """At least one fold on the way, not many, and between them the beginning stays as it was, to the byte."""
        changed = [share for share in self.prefixes if share < 1]
        assert 0 < len(changed) <= most_folds, self.prefixes


@dataclass(frozen=True, slots=True)
class Kept:
    """What is in a base after all: the one conversation that was the work, and what was beside it."""

    main: dict[str, Any]
    beside: list[dict[str, Any]]
    messages: list[dict[str, Any]]  # of the work, as they are in the log

    def check(self) -> None:
        """Each of the notes is there once, whatever the client makes of the output of a command."""
        for number in range(1, NOTES + 1):
            for line in (f"Note {number}.1: ", f"Note {number}.90: "):
                having = [stored["seq"] for stored in self.messages if line in str(stored["message"])]
                assert len(having) == 1, (line, having)
        assert [stored["seq"] for stored in self.messages] == list(range(1, len(self.messages) + 1))


def kept_in(base: Path, *, is_folded: bool = True) -> Kept:
    """Read it, and verify every task of it."""
    tasks = orihon(base, "list")["tasks"]
    for task in tasks:
        assert task["status"] == "paused", "the proxy puts everything to rest when it ends"
        assert orihon(base, "verify", task["uuid"])["clean"]
    kinds = {task["uuid"]: task["metadata"]["proxy"]["kind"] for task in tasks}
    (main,) = [task for task in tasks if kinds[task["uuid"]] == "main"]
    beside = [task for task in tasks if task is not main]
    assert {kinds[task["uuid"]] for task in beside} <= {"side"}
    assert bool(orihon(base, "show", main["uuid"], "--folds")["folds"]) is is_folded
    return Kept(main, beside, orihon(base, "show", main["uuid"], "--messages")["messages"])


@contextmanager
def opened(
    steps: list[Step], folder: Path, *, aside: Aside | None = None, window: int | None = None, port: int = 0
) -> Iterator[Door]:
    """The proxy before a provider with a script."""
    base = folder / "contexts"
    with Upstream(steps, aside=aside, window=window) as upstream, running(base, upstream, window, port) as url:
        yield Door(url, upstream, base)


@contextmanager
def running(base: Path, upstream: Upstream, window: int | None = None, port: int = 0) -> Iterator[str]:
    """The proxy as a process, until it has been told to end and has done so."""
    sized = [] if window is None else ["--window", str(window)]
    command = ["orihon", "--base-dir", str(base), "proxy", "--port", str(port), "--json", *sized]
    complaints = base.parent / "proxy.log"
    reading, writing = os.pipe()
    with open(os.devnull, "rb") as nothing, complaints.open("wb") as log:
        streams = (nothing.fileno(), writing, log.fileno())
        process = start([*command, "--upstream", upstream.base_url], {**os.environ, "ORIHON_LANG": "en"}, streams)
    os.close(writing)
    with open(reading, "rb") as said:
        try:
            address = b"".join(takewhile(lambda line: line != b"}\n", said)) + b"}"
            assert len(address) > 1, complaints.read_text()
            yield str(jsonio.decode(address)["address"])
        finally:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGTERM)
            code = process.wait(PATIENCE)
    assert code == 0, (code, complaints.read_text())
    assert "Traceback" not in complaints.read_text()


def orihon(base: Path, *arguments: str) -> Any:
    """What a command says about a base, as JSON."""
    command = ["orihon", "--base-dir", str(base), *arguments, "--json"]
    code, out, err = ended(command, {**os.environ, "ORIHON_LANG": "en"}, PATIENCE)
    assert code == 0, (out, err)
    return jsonio.decode(out)
