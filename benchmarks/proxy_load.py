"""For benchmarks/proxy.py: what the proxy weighs, and what is left of conversations under kills and in a crowd."""

from __future__ import annotations

import random
import statistics
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.proxying import CHAT, RELAYED, Got, Kept, Proxy, Upstream, ask, request_body
from benchmarks.sample import contents
from orihon import Base
from orihon.proxy.conversations import PROXY

WANTED_CPU = {100_000: 20.0, 500_000: 50.0}
WANTED_FIRST_BYTE = 15.0
WANTED_RSS = 80
_SYSTEM = {"role": "system", "content": "You are a careful agent. " * 20}
_AT_ONCE = 8
#: Of the conversations that are interleaved: turns of each, how many are under way, how many of these are asked next.
_TURNS, _UNDER_WAY, _WAVE = 3, 300, 100
_DEADLINE = 60.0
_OK = 200
_KILLED_WINDOW = 6_000
_KILLED_AT_ONCE = 4
#: A kill comes after so many answers at most, and so many seconds at most behind the last of them.
_ANSWERS_BETWEEN, _SECONDS_BEHIND, _LONGEST_BETWEEN = 6, 0.4, 15.0
#: A conversation ends after so many answers, and another one begins.
_LONGEST_TALK = 30


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    data: Path | None
    conversations: int
    kills: int
    streams: int
    rounds: int
    seed: int
    minutes: float


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="orihon-proxy-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def user(said: str) -> dict[str, Any]:
    return {"role": "user", "content": said}


# ---- weight ----------------------------------------------------------------------------------------------------------


def long_history(tokens: int) -> list[dict[str, Any]]:
    """Messages of a few thousand characters at most."""
    texts = [text for text in contents(200) if len(text) < 20_000]
    history: list[dict[str, Any]] = [_SYSTEM]
    characters, number = 0, 0
    while characters < 4 * tokens:
        said = f"{number} {texts[number % len(texts)]}"
        history.append({"role": "assistant" if number % 2 else "user", "content": said})
        characters += len(said)
        number += 1
    return [*history, user("Go on.")] if history[-1]["role"] == "assistant" else history


def print_weight(options: Options) -> None:
    with scratch() as folder, Upstream(keeps=False).serving() as upstream:
        proxy = Proxy(folder, upstream.address, "--window", "2000000")
        with proxy.running():
            time.sleep(1.0)
            print(f"idle: {proxy.rss / 2**20:.1f} MB (wanted: at most {WANTED_RSS})", flush=True)
            for tokens, wanted in WANTED_CPU.items():
                whole, relayed, messages = next_turn(proxy, tokens, options.rounds)
                print(
                    f"CPU of the next turn at {tokens:,} tokens ({messages} messages):"
                    f" {1000 * (whole - relayed):.1f} ms added ({1000 * whole:.1f} ms,"
                    f" the same bytes relayed {1000 * relayed:.1f} ms;"
                    f" wanted: at most {wanted:.0f})",
                    flush=True,
                )
            direct, relayed, through = first_bytes(proxy, upstream, options.rounds)
            print(
                f"first streamed byte: {1000 * (through - direct):.1f} ms added (direct {1000 * direct:.1f} ms,"
                f" through the proxy {1000 * through:.1f} ms, only relayed"
                f" {1000 * relayed:.1f} ms; wanted: at most {WANTED_FIRST_BYTE:.0f})",
                flush=True,
            )
            print(f"memory after that: {proxy.rss / 2**20:.1f} MB", flush=True)


def next_turn(proxy: Proxy, tokens: int, rounds: int) -> tuple[float, float, int]:
    """CPU seconds of the proxy for one more turn, and for as many bytes that it only passes on; medians."""
    history, key = long_history(tokens), f"long-{tokens}"
    taken: list[float] = []
    relayed: list[float] = []
    for turn in range(rounds + 2):
        body = request_body(history)
        for path, into in ((CHAT, taken), (RELAYED, relayed)):
            before = proxy.cpu
            got = ask(proxy.address, body, key, path=path)
            spent = proxy.cpu - before
            if turn > 1:  # the first one writes all of it down
                into.append(spent)
            if path != RELAYED:
                assert got.message is not None, got
                assert got.view == "whole", got
                answer = got.message
        history += [answer, user(f"Go on with {turn}.")]
    return statistics.median(taken), statistics.median(relayed), len(history)


def first_bytes(proxy: Proxy, upstream: Upstream, rounds: int) -> tuple[float, float, float]:
    """Medians, taken in turns: straight from the upstream, relayed as it is, and as a conversation."""
    history: list[dict[str, Any]] = [_SYSTEM, user("Begin.")]
    direct: list[float] = []
    relayed: list[float] = []
    through: list[float] = []
    for turn in range(4 * rounds):
        body = request_body(history)
        ways = ((upstream.address, CHAT, direct), (proxy.address, RELAYED, relayed), (proxy.address, CHAT, through))
        for address, path, into in ways:
            got = ask(address, body, "first", path=path)
            assert got.message is not None, got
            into.append(got.first)
            answer = got.message
        history += [answer, user(f"Go on with {turn}.")]
    return statistics.median(direct), statistics.median(relayed), statistics.median(through)


# ---- conversations side by side --------------------------------------------------------------------------------------


def print_mixing(options: Options, *, both: tuple[bool, ...] = (False, True)) -> None:
    for has_ids in both:
        began = time.perf_counter()
        outcome = mixing(options.conversations, has_ids=has_ids, seed=options.seed)
        print(
            f"{options.conversations:,} conversations, {_TURNS} turns each, {_UNDER_WAY} under way at a time,"
            f" {_AT_ONCE} requests at once,"
            f" {'with' if has_ids else 'without'} the client's ids: {outcome['mixed']} mixed,"
            f" {outcome['missing']} not whole in one task, {outcome['failed']} requests failed,"
            f" {outcome['tasks']:,} tasks, {time.perf_counter() - began:.0f} s (wanted: 0 mixed)",
            flush=True,
        )


def mixing(count: int, *, has_ids: bool, seed: int) -> Counter[str]:
    """Turn by turn in random order, some hundred under way. Every third begins with the words of others."""
    histories: dict[int, list[dict[str, Any]]] = {
        number: [_SYSTEM, user("Hello." if number % 3 == 0 else f"Hello, this is about {number}.")]
        for number in range(count)
    }
    tasks: dict[int, str] = {}
    outcome: Counter[str] = Counter()
    rng, lock = random.Random(seed), threading.Lock()
    upstream = Upstream(script=lambda key, turn: {"content": f"Answer {turn} for {key}."}, keeps=False)
    with scratch() as folder, upstream.serving():
        proxy = Proxy(
            folder, upstream.address, "--window", "100000", settings={"context_storage": {"durability": "os"}}
        )

        def turn(number: int) -> None:
            headers = {"x-session-id": f"session-{number}"} if has_ids else {}
            got = ask(proxy.address, request_body(histories[number]), f"c{number}", headers=headers, deadline=300)
            with lock:
                if got.message is None or got.view != "whole":
                    outcome["failed"] += 1
                    return
                tasks[number] = got.task
            histories[number] += [got.message, user(f"And then, {number}?")]

        with proxy.running(), ThreadPoolExecutor(_AT_ONCE) as threads:
            for wave in interleaved(list(histories), rng):
                list(threads.map(turn, wave))
        with Base(proxy.base) as base:
            _look_for_mixtures(base, histories, tasks, outcome)
    return outcome


def interleaved(numbers: list[int], rng: random.Random) -> Iterator[list[int]]:
    """Each number three times, those of a wave in any order; a number's turns lie some waves apart."""
    rng.shuffle(numbers)
    waiting: list[tuple[int, int]] = []
    while numbers or waiting:
        waiting += [(numbers.pop(), _TURNS) for _ in range(min(_UNDER_WAY - len(waiting), len(numbers)))]
        rng.shuffle(waiting)
        wave, waiting = waiting[:_WAVE], waiting[_WAVE:]
        yield [number for number, _ in wave]
        waiting += [(number, left - 1) for number, left in wave if left > 1]


def _look_for_mixtures(
    base: Base, histories: Mapping[int, list[dict[str, Any]]], tasks: Mapping[int, str], outcome: Counter[str]
) -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    all_kept: dict[str, Kept] = {}
    base.needed_catalogue()
    for row in base.rows():
        if PROXY not in row.metadata:
            continue
        outcome["tasks"] += 1
        kept = all_kept[row.uuid] = Kept(base, row.uuid)
        for message in kept.all:
            said = message.text
            if said.startswith("Answer"):
                owners[row.uuid].add(said.partition(" for c")[2].rstrip("."))
            elif said != "Hello.":
                owners[row.uuid].add("".join(filter(str.isdigit, said)))
        outcome["mixed"] += len(owners[row.uuid]) > 1
    for number, history in histories.items():
        found = all_kept.get(tasks.get(number, ""))
        sent = history[1:-1]  # without the system, and what was not sent any more
        is_whole = found is not None and len(found.steps) == len(sent)
        outcome["missing"] += not (found and is_whole and all(found.has(place, one) for place, one in enumerate(sent)))


# ---- kills -----------------------------------------------------------------------------------------------------------


_BEGINNING = threading.Lock()


@dataclass
class Talk:
    """A client that tries again until it has a whole answer."""

    number: int
    history: list[dict[str, Any]] = field(default_factory=list)
    task: str = ""
    tasks: set[str] = field(default_factory=set)
    answers: int = 0
    tries: int = 0
    hung: int = 0
    silent: int = 0
    views: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)


def print_kills(options: Options) -> None:
    began = time.perf_counter()
    with scratch() as folder:
        upstream = Upstream(script=lambda key, number: {"content": f"Answer {number} for {key}. " * 40}, pause=0.02)
        with upstream.serving():
            proxy = Proxy(folder, upstream.address, "--window", str(_KILLED_WINDOW))
            talks = campaign(proxy, options.kills, options.seed, began + 60 * options.minutes)
            outcome = _what_is_left(proxy, talks)
    print(
        f"{proxy.kills:,} kills of the proxy: {sum(talk.answers for talk in talks):,} acknowledged answers in"
        f" {sum(talk.tries for talk in talks):,} tries, {outcome['messages']:,} messages;"
        f" lost {outcome['lost']}, hung {sum(talk.hung for talk in talks)},"
        f" silent pass-throughs {sum(talk.silent for talk in talks)},"
        f" degraded {outcome['degraded']} (the log says why of {outcome['explained']}),"
        f" folded {outcome['folded']:,}, tasks {outcome['tasks']} for {len(talks)} conversations,"
        f" {time.perf_counter() - began:.0f} s (wanted: 0 lost, 0 hung, 0 silent)",
        flush=True,
    )
    for said, count in outcome.items():
        if said.startswith(("refused", "log")):
            print(f"    {said}: {count}", flush=True)


def campaign(proxy: Proxy, kills: int, seed: int, give_up: float) -> list[Talk]:
    """Conversations that go on while the proxy is killed at any moment and started again, or until it is late."""
    over, rng = threading.Event(), random.Random(seed)
    talks: list[Talk] = []
    proxy.start()
    threads = [threading.Thread(target=talk_on, args=(talks, proxy, over)) for _ in range(_KILLED_AT_ONCE)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(kills):
            if time.perf_counter() > give_up:
                break
            wanted = _answers(talks) + rng.randint(0, _ANSWERS_BETWEEN)
            latest = time.monotonic() + _LONGEST_BETWEEN
            while _answers(talks) < wanted and time.monotonic() < latest:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, _SECONDS_BEHIND))
            proxy.kill()
            proxy.start()
    finally:
        over.set()
        for thread in threads:
            thread.join()
        proxy.stop()
    return talks


def _answers(talks: list[Talk]) -> int:
    return sum(talk.answers for talk in list(talks))


def talk_on(talks: list[Talk], proxy: Proxy, over: threading.Event) -> None:
    """Turns of two conversations, one after another, until it is over; what was begun is brought to its end."""
    mine: list[Talk] = []
    while not over.is_set():
        mine = [talk for talk in mine if talk.answers < _LONGEST_TALK]
        while len(mine) < 2:
            with _BEGINNING:
                mine.append(Talk(len(talks), [_SYSTEM]))
                talks.append(mine[-1])
        for talk in mine:
            talk.history.append(user(f"Turn {talk.answers} of {talk.number}: " + "go on with the work. " * 120))
            _insist(talk, proxy)


def _insist(talk: Talk, proxy: Proxy) -> None:
    headers = {"x-session-id": f"talk-{talk.number}"} if talk.number % 2 else {}
    while True:
        is_streamed = bool((talk.tries + talk.number) % 3)
        talk.tries += 1
        key = f"t{talk.number}"
        got = ask(
            proxy.address,
            request_body(talk.history, is_streamed=is_streamed),
            key,
            headers=headers,
            deadline=_DEADLINE,
        )
        talk.hung += got.took >= _DEADLINE
        if got.message is not None:
            break
        if got.status:
            talk.refused["cut" if got.status == _OK else f"{got.status} {got.trouble[:160]}"] += 1
        time.sleep(0.1)
    _note(talk, got)


def _note(talk: Talk, got: Got) -> None:
    talk.silent += got.view not in ("whole", "folded", "degraded")
    talk.views[str(got.view)] += 1
    if got.task:
        talk.task = got.task
        talk.tasks.add(got.task)
    assert got.message is not None
    talk.history.append(got.message)
    talk.answers += 1


def _what_is_left(proxy: Proxy, talks: list[Talk]) -> Counter[str]:
    """Every message of every conversation has to be in the log of its task, as it was sent, in its place."""
    outcome: Counter[str] = Counter()
    with Base(proxy.base) as base:
        for talk in talks:
            said = talk.history[1:]
            outcome["messages"] += len(said)
            if not talk.task:  # it never came into the base
                outcome["lost"] += len(said)
                continue
            kept = Kept(base, talk.task)
            outcome["lost"] += sum(not kept.has(place, one) for place, one in enumerate(said))
            outcome["lost"] += max(len(kept.steps) - len(said), 0)
            outcome["tasks"] += len(talk.tasks)
            outcome["folded"] += talk.views["folded"]
            outcome["degraded"] += talk.views["degraded"]
            for trouble, count in talk.refused.items():
                outcome[f"refused {trouble}"] += count
    log = proxy.log.read_text()
    outcome["explained"] = log.count("degraded:")
    outcome |= Counter(f"log: {line[:200]}" for line in log.splitlines() if "degraded:" in line)
    return outcome


# ---- streams ---------------------------------------------------------------------------------------------------------


def print_streams(options: Options) -> None:
    seconds, pieces = 5.0, 25
    upstream = Upstream(
        script=lambda key, turn: {"content": f"{key} says {turn}. " * 50},
        pieces=pieces,
        pause=seconds / pieces,
        keeps=False,
    )
    with scratch() as folder, upstream.serving():
        proxy = Proxy(folder, upstream.address, "--window", "100000")
        with proxy.running(), ThreadPoolExecutor(options.streams) as threads:
            began = time.perf_counter()
            talk: Callable[[int], Got] = lambda number: ask(  # noqa: E731
                proxy.address, request_body([_SYSTEM, user(f"I am {number}.")]), f"s{number}", deadline=300
            )
            got = list(threads.map(talk, range(options.streams)))
            took, memory = time.perf_counter() - began, proxy.rss
    whole = sum(
        one.message is not None and one.message["content"] == f"s{number} says 1. " * 50
        for number, one in enumerate(got)
    )
    firsts = statistics.median(one.first for one in got)
    print(
        f"{options.streams} streams of {seconds:.0f} s at a time: {whole} whole, {len(got) - whole} cut,"
        f" {took:.1f} s in all, first byte after {firsts:.1f} s (median), {memory / 2**20:.0f} MB"
        f" (wanted: all whole)",
        flush=True,
    )
