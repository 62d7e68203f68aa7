"""``orihon proxy`` against a scripted upstream that counts cached prefixes, and what of it is still there after kills.

    python -m benchmarks.proxy [PART …] [--data FOLDER] [--conversations 10000] [--kills 1000] [--streams 200]

FOLDER has transcripts (``*.jsonl``, one chat message a line); without one they are made up. Parts: ``replay`` (cost,
prefixes, recall), ``weight`` (CPU, first byte, memory), ``mixing`` (or ``mixing-without-ids``, ``mixing-with-ids``),
``kills``, ``streams``; without a name all of them.

Cost: a token that the request before began with, entry for entry, is read from the cache at 0.1, any other one is
written at 1.25; tools and system prompt are counted, answers are not. Direct is the client's own requests, as if the
window had no end. A turn is one without a fold if the log has no compression between this request and the one before.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.proxy_load import Options, print_kills, print_mixing, print_streams, print_weight
from benchmarks.proxying import Entries, Heard, Kept, Proxy, Upstream, ask, common, cost, entries_of, request_body, size
from benchmarks.sample import contents
from orihon import Base

WANTED_COST = 0.75
#: What the review of other proxies was measured with, and the longest of each kind; (part of the file's name, window).
REPLAYS = (
    *(("django-13265", 32_000), ("django-13964", 32_000), ("django-11149", 32_000), ("sqlfluff-1733", 32_000)),
    *(("pi-large", 32_000), ("pi-large", 100_000), ("aider-2024-08-20", 100_000)),
)
_KILLS = 5  # of the proxy in one replay
_LONGEST = 20_000  # characters of a made-up message


@dataclass
class Replay:
    """One transcript through the proxy."""

    name: str
    window: int
    direct: list[Entries] = field(default_factory=list)
    sent_at: list[float] = field(default_factory=list)
    killed: set[int] = field(default_factory=set)  # turns before which the proxy was killed
    views: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    history: list[Mapping[str, Any]] = field(default_factory=list)
    task: str = ""

    def run(self, messages: Sequence[Mapping[str, Any]], proxy: Proxy, upstream: Upstream) -> None:
        tools = tools_of(messages)
        turns = sum(message["role"] == "assistant" for message in messages)
        for message in messages:
            if message["role"] == "assistant" and self.history:
                turn = len(self.direct)
                if turn and turn % max(turns // (_KILLS + 1), 1) == 0:
                    proxy.kill()
                    proxy.start()
                    self.killed.add(turn)
                body = request_body(self.history, tools=tools)
                self.direct.append(entries_of({"tools": tools, "messages": self.history}))
                upstream.ready[self.name] = {k: v for k, v in message.items() if k in ("content", "tool_calls")}
                self.sent_at.append(time.time())
                got = ask(proxy.address, body, self.name)
                self.views[got.view or "silent"] += 1
                self.failed += got.message is None
                self.task = got.task or self.task
            self.history.append(message)

    def figures(self, heard: Sequence[Heard], base: Base) -> dict[str, Any]:
        kept = Kept(base, self.task)
        sent = [one.entries for one in heard]
        plain: list[float] = []
        after_kill: list[float] = []
        for turn in range(1, len(sent)):
            has_fold = any(self.sent_at[turn - 1] <= act <= heard[turn].at for act in kept.acts)
            share = common(sent[turn - 1], sent[turn]) / len(sent[turn - 1])
            if not has_fold:
                (after_kill if turn in self.killed else plain).append(share)
        steps = [entry for entry in self.history if entry["role"] != "system"]
        first = next(place for place, entry in enumerate(self.history) if entry["role"] != "system")
        assert all(entry["role"] != "system" for entry in self.history[first:]), "a system message amidst"
        recalled = sum(kept.has(place, steps[place]) for place in kept.folded)
        return {
            "transcript": self.name,
            "window": f"{self.window // 1000}k",
            "requests": len(sent),
            "direct over": sum(size(one) > self.window for one in self.direct),
            "over": sum(size(one) > self.window for one in sent),
            "acts": len(kept.acts),
            "tokens": sum(map(size, sent)) / sum(map(size, self.direct)),
            "cost": cost(sent) / cost(self.direct),
            "kept": mean(plain),
            "after kill": mean(after_kill),
            "kills": f"{len(after_kill)}/{len(self.killed)}",
            "recalled": f"{recalled}/{len(kept.folded)}",
            "failed": self.failed + self.views["degraded"] + self.views["silent"],
        }


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("nan")


def tools_of(messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Definitions for the tools that a transcript calls: transcripts have none."""
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    names = sorted({call["function"]["name"] for call in calls}) or ["run"]
    about = "Does what its name says, in the folder of the project; long output is cut in the middle. " * 4
    schema = {"type": "object", "properties": {"input": {"type": "string", "description": about}}}
    return [{"type": "function", "function": {"name": n, "description": about, "parameters": schema}} for n in names]


def read(path: Path) -> list[dict[str, Any]]:
    """The messages of a transcript; what its system says later on is taken as a user's word."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    messages = [line for line in lines if "role" in line]
    begun, found = False, []
    for message in messages:
        begun = begun or message["role"] not in ("system", "developer")
        found.append({**message, "role": "user"} if begun and message["role"] == "system" else message)
    return found


def made_up(turns: int) -> list[dict[str, Any]]:
    """An agent that calls a tool in each turn."""
    texts = [text for text in contents(10 * turns) if len(text) < _LONGEST]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": texts[0] * 8},
        {"role": "user", "content": "Mend the loading of settings."},
    ]
    for turn in range(turns):
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "run", "arguments": f'{{"n": {turn}}}'}}
        messages.append({"role": "assistant", "content": f"Step {turn}.", "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": f"{turn}\n{texts[turn + 1]}"})
    return messages


def replays(data: Path | None) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    if data is None:
        yield "made up, 60 turns", 32_000, made_up(60)
        yield "made up, 160 turns", 100_000, made_up(160)
        return
    for name, window in REPLAYS:
        for path in sorted(data.rglob(f"*{name}*.jsonl")):
            yield path.stem, window, read(path)


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="orihon-proxy-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def print_replays(options: Options) -> None:
    print(
        f"a prompt cache (cost against direct, wanted: at most {WANTED_COST}; "
        "beginnings kept on turns without a fold, and after kill -9: 1.000; folded text found again: all)"
    )
    width = max((len(name) for name, _, _ in replays(options.data)), default=10)
    for name, window, messages in replays(options.data):
        with scratch() as folder, Upstream().serving() as upstream:
            proxy = Proxy(folder, upstream.address, "--window", str(window))
            replay = Replay(name, window)
            with proxy.running():
                replay.run(messages, proxy, upstream)
            with Base(proxy.base) as base:
                row = replay.figures(upstream.heard[name], base)
        print(
            f"  {name:<{width}} {row['window']:>5} window {row['requests']:>4} requests"
            f"   cost {row['cost']:.3f}, tokens {row['tokens']:.3f}, changes of the view {row['acts']}"
            f"   kept {row['kept']:.3f}, after kill -9 {row['after kill']:.3f} ({row['kills']} kills without a fold)"
            f"   recalled {row['recalled']}   over the window {row['over']} (direct {row['direct over']})"
            f"   failed {row['failed']}",
            flush=True,
        )


PARTS: dict[str, Callable[[Options], None]] = {
    "replay": print_replays,
    "weight": print_weight,
    "mixing": print_mixing,
    "mixing-without-ids": partial(print_mixing, both=(False,)),
    "mixing-with-ids": partial(print_mixing, both=(True,)),
    "kills": print_kills,
    "streams": print_streams,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--conversations", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=60.0, help="most that the kills may take")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    options = Options(
        given.data, given.conversations, given.kills, given.streams, given.rounds, given.seed, given.minutes
    )
    for part in given.parts or ("replay", "weight", "mixing", "kills", "streams"):
        PARTS[part](options)


if __name__ == "__main__":
    main()
