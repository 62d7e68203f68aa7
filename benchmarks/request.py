"""What making and sending a request costs: time beside a call of 2 s, and memory above an idle client.

    python -m benchmarks.request [--tokens 128000] [--rounds 5]

The client runs in a process of its own and the scripted model in another. The time that counts is the client's own:
the whole call, less the seconds that the model takes. Memory is the process's peak while it sends, above a client that
has its task open and waits. Sending may use again what opening the task has freed, so the peak of both together is
printed too, above a client that has made a small call and has not opened the large task yet.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.sample import contents
from orihon import MessageStore
from orihon.llm.clients import CLIENTS
from orihon.llm.scripted import Reply, ScriptedModel, Slow

MODEL_SECONDS = 2.0
PAGE = resource.getpagesize()


def serve(seconds: float) -> None:
    """A model that thinks for so long, until standard input ends."""
    reply = Reply("Done. " * 40)
    with ScriptedModel(lambda _: Slow(seconds, reply), keep_bodies=False) as model:
        print(model.base_url, flush=True)
        sys.stdin.read()


def fill(store: MessageStore, tokens: int) -> None:
    """Messages of a coding agent until the view has that many tokens."""
    texts = contents()
    for number in range(1_000_000):
        if store.get_current_token_count() >= tokens:
            return
        store.add_message("user" if number % 2 else "assistant", texts[number % len(texts)])


def peak() -> int:
    """The most memory that this process has had since ``reset_peak``."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("no VmHWM in /proc/self/status")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def settings(provider: str, url: str) -> dict[str, Any]:
    section = {"base_url": url, "context_length": 100_000_000, "model": "scripted"}
    return {"llm": {"provider": provider, provider: section}, "masking": {"enabled": False}}


def call(provider: str, url: str, seconds: float, rounds: int, folder: Path) -> None:
    """Prints the client's own seconds (median), its peaks above idle, and the tokens of the view."""
    config = settings(provider, url)
    small = CLIENTS[provider](config, context_dir=folder / "small")
    small.send_user_message("Hello.")
    small.get_response()
    reset_peak()
    idle = peak()
    client = CLIENTS[provider](config, context_dir=folder / "large")
    client.send_user_message("Go on.")
    opened = peak()
    reset_peak()
    waiting = peak()
    own = []
    for _ in range(rounds):
        began = time.perf_counter()
        client.get_response()
        own.append(time.perf_counter() - began - seconds)
        client.send_user_message("Go on.")
    sending, both = peak() - waiting, max(peak(), opened) - idle
    own.sort()
    assert client.message_store is not None
    print(own[len(own) // 2], sending, both, client.message_store.get_current_token_count())


def measure(provider: str, tokens: int, seconds: float, rounds: int) -> tuple[float, int, int, int]:
    program = [sys.executable, "-m", "benchmarks.request"]
    folder = Path(tempfile.mkdtemp(prefix="orihon-request-"))
    with subprocess.Popen(
        [*program, "--serve", str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        try:
            url = server.stdout.readline().strip()
            filled = MessageStore(folder / "large", settings(provider, url))
            fill(filled, tokens)
            filled.close()
            child = [provider, url, str(seconds), str(rounds), str(folder)]
            run = subprocess.run([*program, "--child", *child], capture_output=True, text=True, check=True)
        finally:
            server.stdin.close()
            shutil.rmtree(folder)
    own, sending, both, counted = run.stdout.split()
    return float(own), int(sending), int(both), int(counted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=128_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", type=float)
    parser.add_argument("--child", nargs=5)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    if options.child:
        provider, url, seconds, rounds, folder = options.child
        call(provider, url, float(seconds), int(rounds), Path(folder))
        return
    print(f"a call that takes {MODEL_SECONDS:g} s (wanted: at most 5 % more, sending less than 4 MiB above idle)")
    for provider in CLIENTS:
        for tokens in (options.tokens, 8 * options.tokens):
            own, sending, both, counted = measure(provider, tokens, MODEL_SECONDS, options.rounds)
            print(
                f"  {provider:<10} view of {counted:>9,} tokens"
                f"   {1000 * own:6.1f} ms = {100 * own / MODEL_SECONDS:4.1f} %"
                f"   sending {sending / 2**20:5.2f} MiB, with opening {both / 2**20:5.2f} MiB"
            )


if __name__ == "__main__":
    main()
