"""Memory of an agent's history: in memory, and on the disk, by the scenario of the first design (000 §2.2, §8.1).

    python -m benchmarks.seed_memory [--calls 100] [--backend sqlite] [--tokenizer estimate]

A call is a question of 5 KB, an answer of 20 KB and a tool's result of 50 KB. The model is a server on loopback in a
process of its own. The goal is at most 20 % of what the history in memory grows by. The growth of so many calls is
printed over a fresh process, since the first call and since the process is warm (``--warm`` calls, with the first
compressions): what lies between is no history, but code, and what the allocator keeps of the work on one view. What
Python's objects take (``tracemalloc``, in a run of its own) is the history alone.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

from benchmarks.memory import resident
from orihon import OpenAIClient, ScriptedModel
from orihon.llm.scripted import Reply

WORDS = "the valve of pump {n} holds 4.2 bar; read src/pump_{n}.py and fix line {n}. "
WHAT_GROWS = (
    "growth over a fresh process",
    "growth since one call",
    "growth since a warm process",
    "Python's objects since one call",
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "read_file", "description": "", "parameters": SCHEMA}}]


def said(number: int, size: int) -> str:
    one = WORDS.format(n=number)
    return (one * (size // len(one) + 1))[:size]


def serve() -> None:
    """A model that calls a tool, answers, and sums up what it is asked to."""

    def answer(request: Any) -> Reply:
        model.requests.clear()
        newest = request.body["messages"][-1]
        if not request.body.get("tools"):
            return Reply(said(request.number, 2000))
        if newest["role"] == "tool":
            return Reply(said(request.number, 20_000))
        return Reply(calls=[("read_file", {"path": f"src/pump_{request.number}.py"})])

    with ScriptedModel(answer) as model:
        print(model.base_url, flush=True)
        sys.stdin.read()


def work(url: str, warm: int, calls: int, backend: str, tokenizer: str) -> None:
    """Print what the process has after its imports, its first call, when it is warm, and so many calls later."""
    section = {"base_url": url, "api_key": "k", "model": "gpt-4o", "context_length": 128_000}
    section |= {} if tokenizer == "guess" else {"tokenizer": tokenizer}
    config: dict[str, Any] = {"llm": {"provider": "openai", "openai": section}}
    if backend == "memory":  # as the first design had it: everything, for as long as it fits
        section["context_length"] = 50_000_000
        config["context_storage"] = {"enabled": False}
    else:
        config["context_storage"] = {"backend": backend}
    fresh = resident()
    with tempfile.TemporaryDirectory() as folder:
        client = OpenAIClient(config, None, TOOLS, Path(folder) / "task")
        client.send_system_prompt(said(0, 10_000))
        seen = {1: 0, warm: 0, calls: 0, warm + calls: 0}
        held = {1: 0, calls: 0}
        for number in range(1, warm + calls + 1):
            client.send_user_message(said(number, 5_000))
            _, asked = client.get_response()
            client.send_function_result("read_file", said(number, 50_000), tool_call_id=asked[0]["id"])
            client.get_response()
            if number in seen:
                gc.collect()
                seen[number] = resident()
            if number in held and tracemalloc.is_tracing():
                held[number] = tracemalloc.get_traced_memory()[0]
        print(fresh, seen[1], seen[calls], seen[warm], seen[warm + calls], held[calls] - held[1])
        client.close()


def measured(url: str, given: argparse.Namespace, backend: str, *options: str) -> tuple[float, ...]:
    """The same in megabytes, of a process of its own."""
    command = [sys.executable, *options, "-m", "benchmarks.seed_memory", "--work", url, "--calls", str(given.calls)]
    command += ["--warm", str(given.warm), "--backend", backend, "--tokenizer", given.tokenizer]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return tuple(int(one) / 1e6 for one in run.stdout.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--warm", type=int, default=20)
    parser.add_argument("--backend", default="sqlite")
    parser.add_argument("--tokenizer", default="guess")
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--work", metavar="URL")
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    if given.work:
        work(given.work, given.warm, given.calls, given.backend, given.tokenizer)
        return
    command = [sys.executable, "-m", "benchmarks.seed_memory", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        grown: dict[str, tuple[float, ...]] = {}
        for backend in ("memory", given.backend):
            fresh, first, cold, warm, last, _ = measured(url, given, backend)
            *_, held = measured(url, given, backend, "-X", "tracemalloc=1")
            grown[backend] = cold - fresh, cold - first, last - warm, held
            print(
                f"{backend:>7}: {fresh:.1f} MB fresh, {first:.1f} after one call, {cold:.1f} after {given.calls}; "
                f"{warm:.1f} when warm, {last:.1f} after {given.calls} more: +{last - warm:.1f} MB"
            )
        compared = zip(WHAT_GROWS, grown[given.backend], grown["memory"], strict=True)
        for what, ours, memory in compared:
            print(f"{what}: {ours:.1f} MB against {memory:.1f} in memory, {ours / memory:.0%} (goal: at most 20 %)")
        assert server.stdin is not None
        server.stdin.close()


if __name__ == "__main__":
    main()
