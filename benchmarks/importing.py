"""How fast transcripts are imported, next to merely reading and writing the same bytes, on one disk in one run.

    python -m benchmarks.importing [--dir DIR] [--megabytes 40] [--format claude-code|codex|openai-chat]

The transcript is generated: an agent that reads files, edits them and runs commands. `cpu` is what one core takes,
without what the disk takes; a rate is megabytes of transcript per second.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.sample import contents
from orihon import import_transcripts
from orihon.settings import load_settings

FORMATS = ("claude-code", "codex", "openai-chat")
SESSION = "3f1b7a52-6c1d-4a88-9a51-2f1e5a7c9d10"


def turns() -> Iterator[tuple[str, str, str]]:
    """What was thought, what was run, what came back."""
    words = itertools.cycle(contents())
    for thought in words:
        yield thought[:300], next(words)[:120], next(words)[:6000]


def claude_code() -> Iterator[dict[str, Any]]:
    base = {"isSidechain": False, "sessionId": SESSION, "cwd": "/work", "version": "2.1.0", "gitBranch": "main"}
    usage = {
        "input_tokens": 4,
        "cache_read_input_tokens": 9000,
        "cache_creation_input_tokens": 300,
        "output_tokens": 50,
    }
    for number, (thought, command, result) in enumerate(turns()):
        moment = {"timestamp": f"2026-01-02T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}.000Z"}
        answer = {"id": f"msg_{number}", "role": "assistant", "type": "message", "model": "claude-x", "usage": usage}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Bash", "input": {"command": command}}
        done = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": result, "is_error": False}
        pieces = [{"type": "text", "text": thought}], [call]
        for step, piece in enumerate(pieces):
            link = {"uuid": f"{number}-{step}", "parentUuid": f"{number - 1}-2"}
            yield {**base, **link, **moment, "type": "assistant", "message": {**answer, "content": piece}}
        link = {"uuid": f"{number}-2", "parentUuid": f"{number}-1"}
        told = {"stdout": result, "stderr": "", "interrupted": False}
        yield {
            **base,
            **link,
            **moment,
            "type": "user",
            "message": {"role": "user", "content": [done]},
            "toolUseResult": told,
        }


def codex() -> Iterator[dict[str, Any]]:
    def line(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return {"timestamp": "2026-01-02T03:04:05.678Z", "type": kind, "payload": payload}

    yield line("session_meta", {"id": SESSION, "cwd": "/work", "cli_version": "0.98.0"})
    yield line("turn_context", {"model": "gpt-x"})
    for number, (thought, command, result) in enumerate(turns()):
        asked = json.dumps({"command": ["bash", "-lc", command]})
        spoken = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": thought}]}
        yield line("response_item", spoken)
        yield line("event_msg", {"type": "agent_message", "message": thought})
        yield line(
            "response_item", {"type": "function_call", "name": "shell", "call_id": f"call_{number}", "arguments": asked}
        )
        yield line("response_item", {"type": "function_call_output", "call_id": f"call_{number}", "output": result})


def openai_chat() -> Iterator[dict[str, Any]]:
    yield {"role": "system", "content": "You are an agent."}
    for number, (thought, command, result) in enumerate(turns()):
        function = {"name": "bash", "arguments": json.dumps({"command": command})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": thought, "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": f"call_{number}", "content": result}


def write(path: Path, records: Iterator[dict[str, Any]], size: int) -> int:
    written = 0
    with path.open("wb") as file:
        for record in records:
            written += file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
            if written >= size:
                return written
    return written


def bare(path: Path, folder: Path) -> None:
    """The limit: every line parsed by the standard library and written again."""
    with path.open("rb") as source, (folder / "bare.jsonl").open("wb") as target:
        for line in source:
            target.write(json.dumps(json.loads(line), ensure_ascii=False).encode() + b"\n")
        target.flush()
        os.fsync(target.fileno())


def measured(name: str, size: int, act: Callable[[], object]) -> None:
    wall, cpu = time.perf_counter(), time.process_time()
    act()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:<32}{size / wall / 1e6:8.1f} MB/s{size / cpu / 1e6:10.1f} MB/s cpu{wall:9.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=None)
    parser.add_argument("--megabytes", type=int, default=40)
    parser.add_argument("--format", choices=FORMATS, action="append")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.dir))
    makers = {"claude-code": claude_code, "codex": codex, "openai-chat": openai_chat}
    try:
        for form in options.format or FORMATS:
            path = folder / f"{form}.jsonl"
            write(path, makers[form](), 1 << 16)
            import_transcripts(folder / "warm", load_settings({}, environ={}), [path])
            size = write(path, makers[form](), options.megabytes << 20)
            measured(f"{form}: json, no task", size, partial(bare, path, folder))
            for masking in (False, True):
                base = folder / f"{form}-{masking}"
                settings = load_settings({"masking": {"enabled": masking}}, environ={})
                name = f"{form}: {'masked' if masking else 'not masked'}"
                act = partial(import_transcripts, base, settings, [path])
                measured(name, size, act)
                if masking:
                    measured(f"{form}: again, unchanged", size, act)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
