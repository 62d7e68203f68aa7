"""``orihon audit show`` and ``audit verify``, by the real executable: what was done, and that it was really so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.test_cli import run
from tests.damage import start_task


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "contexts"
    start_task(base, "files", uuid="task-1").stop()
    return base


def chain_of(base: Path) -> Path:
    (chain,) = (base / "audit").glob("*.jsonl")
    return chain


def test_what_a_command_does_is_shown_with_who_did_it(base: Path) -> None:
    run("--base-dir", base, "undo", "task-1", ORIHON_AUDIT__USER="ana")
    shown = run("--base-dir", base, "audit", "show", "--user", "ana", "--action", "undo", "--since", "1h")
    (line,) = shown.out.splitlines()
    time, user, action, task, result, process, details = line.split("\t")
    assert (user, action, task, result) == ("ana", "undo", "task-1", "ok")
    assert time.endswith("+00:00")
    assert process
    assert "compression=6" in details
    assert run("--base-dir", base, "audit", "show", "--task", "other").out == ""
    found = json.loads(run("--base-dir", base, "audit", "show", "--json", "-n", "3").out)["records"]
    assert [one["action"] for one in found] == ["configure", "undo", "attest"]
    assert "audit.user" in found[0]["details"]["keys"]


def test_a_time_that_is_none_is_named(base: Path) -> None:
    refused = run("--base-dir", base, "audit", "show", "--since", "yesterday")
    assert (refused.code, "--since" in refused.err) == (2, True)


@pytest.mark.parametrize(("lang", "word"), [("en", "as they were written"), ("ja", "書かれたまま")])
def test_verify_says_that_all_is_well_or_what_is_not(base: Path, lang: str, word: str) -> None:
    assert word in run("--lang", lang, "--base-dir", base, "audit", "verify").out
    chain = chain_of(base)
    chain.write_bytes(chain.read_bytes().replace(b'"result":"ok"', b'"result":"no"', 1))
    said = run("--lang", lang, "--base-dir", base, "audit", "verify")
    assert (said.code, len(said.out.splitlines())) == (1, 2)
    assert chain.stem in said.out
    report = json.loads(run("--base-dir", base, "audit", "verify", "--json").out)
    assert [finding["kind"] for finding in report["findings"]] == ["changed"]


def test_a_file_of_anchors_is_looked_at(base: Path, tmp_path: Path) -> None:
    anchors = tmp_path / "anchors.jsonl"
    run("--base-dir", base, "undo", "task-1", ORIHON_AUDIT__ANCHOR_FILE=str(anchors))
    assert anchors.read_bytes().count(b"\n") == 1
    chain = chain_of(base)
    assert "anchors looked at: 1" in run("--base-dir", base, "audit", "verify", "--anchors", anchors).out
    # The last one attests the task, and came after the anchor.
    chain.write_bytes(b"".join(chain.read_bytes().splitlines(keepends=True)[:-2]))
    chain.with_suffix(".head").unlink()
    assert run("--base-dir", base, "audit", "verify").code == 0, "nothing here knows of it"
    found = run("--base-dir", base, "audit", "verify", "--anchors", anchors)
    assert (found.code, "missing" in found.out) == (1, True)
    anchors.write_text("no anchor\n", encoding="utf-8")
    refused = run("--base-dir", base, "audit", "verify", "--anchors", anchors)
    assert (refused.code, "anchors.jsonl" in refused.err) == (2, True)
