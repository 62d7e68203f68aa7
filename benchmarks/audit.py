"""How many audit records are written in a second, how long their proof takes, and what the audit costs an append.

    python -m benchmarks.audit [--dir DIR] [--records 1000000] [--rounds 40]

`written one by one` are records without a wait for the disk, as added messages are; `written in groups`, as reads are.
An append with the audit on (`changes`, the default, and `all`) is compared with one without it in turn, round after
round; the ratio is the median over rounds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.append import touch_memory
from benchmarks.sample import contents
from orihon import TaskContextManager, load_settings, verify_audit
from orihon.audit import AuditTrail, audit_of
from orihon.settings import Settings
from orihon.values.task import TaskKey

TURN = 10
KEY = TaskKey("github", "owner", "repo", "issue", "27", "user")


def settings_with(level: str) -> Settings:
    audit = {"enabled": level != "off", "level": "changes" if level == "off" else level}
    return load_settings({"audit": audit}, environ={})


def writing(trail: AuditTrail, action: str, count: int) -> float:
    """Records in a second."""
    started = time.perf_counter()
    for number in range(count):
        trail.record(action, "0f8fad5b-d9cb-469f-a165-70867728950e", details={"seq": number, "messages": 1})
    trail.flush()
    return count / (time.perf_counter() - started)


def chain(folder: Path, records: int) -> None:
    """Write records, then prove them."""
    settings = settings_with("all")
    TaskContextManager(folder, KEY, settings, uuid="task").stop()
    trail = audit_of(folder, settings)
    single = writing(trail, "append", records // 10)
    grouped = writing(trail, "read", records - records // 10)
    print(f"  written one by one  {single:10,.0f} records/s")
    print(f"  written in groups   {grouped:10,.0f} records/s   (wanted: at least 20,000)")
    started, cpu = time.perf_counter(), time.process_time()
    report = verify_audit(folder, settings)
    took, cpu = time.perf_counter() - started, time.process_time() - cpu
    assert report.is_sound
    print(f"  verified            {report.records:10,} records in {took:.1f} s, {cpu:.1f} s CPU   (wanted: under 20 s)")


def append_cost(folder: Path, rounds: int) -> None:
    """What the audit adds to an append with fsync."""
    levels = ("off", "changes", "all")
    tasks = {level: TaskContextManager(folder / level, KEY, settings_with(level), uuid="task") for level in levels}
    texts = contents()
    times: dict[str, list[float]] = {level: [] for level in levels}
    for number in range(rounds):
        for level in levels[number % 3 :] + levels[: number % 3]:
            started = time.perf_counter()
            for text in texts[number * TURN % 100 : number * TURN % 100 + TURN]:
                tasks[level].message_store.add_message("user", text)
            times[level].append((time.perf_counter() - started) / TURN)
    for level in levels:
        print(f"  append, audit {level:<8} {statistics.median(times[level]) * 1e6:8.0f} µs")
    for level, wanted in (("changes", "   (wanted: under 2 %)"), ("all", "")):
        ratio = statistics.median(a / b for a, b in zip(times[level], times["off"], strict=True))
        print(f"  audit {level} costs {(ratio - 1) * 100:+.1f} % of an append{wanted}")
    for task in tasks.values():
        task.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path("build"), help="a folder on the disk to measure")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    options.dir.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="orihon-audit-", dir=options.dir))
    try:
        touch_memory(folder, 1 << 30)
        chain(folder / "chain", options.records)
        append_cost(folder / "append", options.rounds)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
