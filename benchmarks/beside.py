"""Two versions of Orihon side by side: CPU of an append, a resume, a request, a page and an import, in turns.

    python -m benchmarks.beside PATH/TO/OTHER/CHECKOUT [--rounds 7]

Each round runs the same program with this source and with the other one, in processes of their own, in changing order;
printed is the least CPU time of each and its ratio. The programs use public names alone, so that an older checkout
understands them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]

_PROGRAM = """
import json, sys, time
from pathlib import Path
from orihon import TaskContextManager, TaskKey, import_transcripts, load_settings
from orihon.web.server import WebServer
import http.client

base = Path(sys.argv[1])
settings = load_settings({}, environ={})
text = "The module reads a file, counts its lines and says how many there are. " * 20
spent = {}

def measured(name, count, act):
    act()
    began = time.process_time()
    for _ in range(count):
        act()
    spent[name] = (time.process_time() - began) / count * 1e6

task = TaskContextManager(base, TaskKey("cli", "", "", "task", "1"), settings)
numbers = iter(range(10**9))
measured("append", 1500, lambda: task.message_store.add_message("user", f"{next(numbers)}: {text}"))
task.compressor.compress()
for number in range(120):
    task.message_store.add_message("user", f"{number}: {text}")
measured("request", 30, task.message_store.get_messages_for_llm)
uuid = task.uuid

def resumed():
    TaskContextManager.resume(base, uuid, settings).stop()

task.stop()
measured("resume", 20, resumed)
with WebServer(base, settings) as server:
    server.start() if hasattr(server, "start") else None
    def page():
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("GET", f"/tasks/{uuid}", headers={"Authorization": f"Bearer {server.token}"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body[:200]
        connection.close()
    measured("page", 30, page)
source = base.parent / "talk.jsonl"
source.write_text("".join(json.dumps({"role": "user", "content": f"{n}: {text}"}) + "\\n" for n in range(3000)))
began = time.process_time()
report = import_transcripts(base, settings, [source])
assert report.messages == 3000, report
spent["import"] = (time.process_time() - began) / 3000 * 1e6
print(json.dumps(spent))
"""


def run(source: Path) -> dict[str, float]:
    """Microseconds of CPU by what was done."""
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        command = [sys.executable, "-c", _PROGRAM, str(Path(folder) / "contexts")]
        environment = {**os.environ, "PYTHONPATH": str(source / "src")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source.name}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("other", type=Path)
    options.add_argument("--rounds", type=int, default=7)
    given = options.parse_args()
    least: dict[Path, dict[str, float]] = {HERE: {}, given.other.resolve(): {}}
    for number in range(given.rounds):
        for source in sorted(least, reverse=bool(number % 2)):
            for name, spent in run(source).items():
                least[source][name] = min(spent, least[source].get(name, spent))
    other = least[given.other.resolve()]
    print(f"{'':10}{'other, µs':>12}{'here, µs':>12}{'ratio':>8}")
    for name, spent in least[HERE].items():
        print(f"{name:10}{other[name]:12,.1f}{spent:12,.1f}{spent / other[name]:8.2f}")


if __name__ == "__main__":
    main()
