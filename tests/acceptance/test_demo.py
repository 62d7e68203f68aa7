"""``orihon demo`` through the real command: folds, pauses, resumes elsewhere, completes, inherits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ORIHON = Path(sys.executable).with_name("orihon")


def run(*words: str, language: str = "en", backend: str = "files") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "ORIHON_LANG": language, "NO_COLOR": "1", "COLUMNS": "200"}
    environment["CONTEXT_STORAGE_BACKEND"] = backend
    return subprocess.run([ORIHON, *words], capture_output=True, text=True, env=environment, check=False, timeout=120)


def test_the_figures_are_what_lies_on_disk(tmp_path: Path) -> None:
    done = run("demo", "--folder", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    folder = tmp_path / "contexts" / "completed" / report["uuid"]
    lines = (folder / "messages.jsonl").read_bytes().splitlines()
    assert report["messages"] == len(lines) > 200
    assert report["view_entries"] == len((folder / "current.jsonl").read_bytes().splitlines())
    assert report["view_tokens"] < report["window"] < report["log_tokens"]
    assert report["folds"] >= 3
    assert report["findings"] == 0
    assert len({json.loads(line)["epoch"] for line in lines}) == 2, "two processes wrote one after the other"
    assert report["uuid"] in report["inherited"]
    checked = run("--base-dir", str(tmp_path / "contexts"), "verify", report["uuid"])
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert (
        "ok\n"
        in subprocess.run(
            [sys.executable, "test_median.py"],
            cwd=tmp_path / "workspace" / "toolbox",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )


@pytest.mark.parametrize(("language", "words"), [("en", "messages in the log"), ("ja", "ログのメッセージ")])
def test_the_table_and_the_next_command_are_shown(tmp_path: Path, language: str, words: str) -> None:
    done = run("demo", "--folder", str(tmp_path), language=language)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout
    next_command = next(line.split()[1:] for line in done.stdout.splitlines() if "orihon --base-dir" in line)
    assert run(*next_command, language=language).returncode == 0


def test_both_processes_speak_the_language_that_was_asked_for(tmp_path: Path) -> None:
    done = run("--lang", "ja", "demo", "--folder", str(tmp_path), "--json")
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "contexts" / "completed" / json.loads(done.stdout)["uuid"]
    messages = [json.loads(line) for line in (folder / "messages.jsonl").read_bytes().splitlines()]
    said = [message["content"] for message in messages if message["role"] == "assistant" and message["content"]]
    assert len(said) > 50
    assert [words for words in said if words.isascii()] == []


def test_the_demo_plays_on_the_other_back_end(tmp_path: Path) -> None:
    done = run("demo", "--folder", str(tmp_path), backend="sqlite")
    assert done.returncode == 0, done.stderr
    assert "context.db" in done.stdout
    [folder] = (tmp_path / "contexts" / "completed").iterdir()
    assert not (folder / "messages.jsonl").exists()
    assert run("--base-dir", str(tmp_path / "contexts"), "verify", folder.name).returncode == 0


@pytest.mark.parametrize("moment", ["view folded", "Another process"])
def test_ctrl_c_pauses_the_task_in_whichever_process_it_is(tmp_path: Path, moment: str) -> None:
    environment = {**os.environ, "ORIHON_LANG": "en", "NO_COLOR": "1", "COLUMNS": "200"}
    words = [str(ORIHON), "demo", "--folder", str(tmp_path)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    while moment not in (line := process.stdout.readline()):
        assert line, "the demo ended before its time"
    if moment == "Another process":
        assert "view folded" in process.stdout.readline()  # it is at work
    os.killpg(process.pid, signal.SIGINT)
    _, complaints = process.communicate(timeout=60)
    assert (process.returncode, complaints) == (130, "")
    base = str(tmp_path / "contexts")
    (task,) = json.loads(run("--base-dir", base, "list", "--json").stdout)["tasks"]
    assert (task["status"], task["lease_owner"]) == ("paused", None)
    doctor = run("--base-dir", base, "doctor")
    assert doctor.returncode == 0, doctor.stdout
