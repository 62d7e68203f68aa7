"""``orihon scan --fix``: killed between two changes it leaves a sound task and can be run again; on sealed tasks."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, scan_tasks
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import Finding, verify
from tests.integration.killing import count_changes, killed_at_change
from tests.integration.test_scan import KEY, SECRET, leaky_task, places_with_the_secret, settings_of
from tests.sealing import sealed_settings, write_key

#: So many moments for each back end, spread over the whole run.
MOMENTS = 10


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_fix_that_is_killed_can_be_done_again(tmp_path: Path, backend: str) -> None:
    config: dict[str, Any] = {"context_storage": {"backend": backend, "blob_bytes": 4096}}
    settings = settings_of(config, masking=True)
    uuid = leaky_task(tmp_path / "leaky", config)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(tmp_path / "leaky", tmp_path / name))

    whole = copy("whole")
    changes = count_changes(lambda: scan_tasks(whole, settings, fix=True))
    assert places_with_the_secret(whole, config) == []
    assert changes > MOMENTS
    for moment in range(1, changes, max(1, changes // MOMENTS)):
        base = copy(f"killed-{moment}")
        assert killed_at_change(moment, lambda base=base: scan_tasks(base, settings, fix=True))  # type: ignore[misc]
        assert damage(base, uuid, settings) == [], moment
        scan_tasks(base, settings, fix=True)
        assert places_with_the_secret(base, config) == [], moment
        assert damage(base, uuid, settings) == [], moment


def damage(base: Path, uuid: str, settings: Settings) -> list[Finding]:
    """What is wrong with the task; a temporary file that a killed process leaves behind is not."""
    return [finding for finding in verify(OpenBase(base, settings), uuid) if finding.severity != "warning"]


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_sealed_task_is_scanned_and_mended(tmp_path: Path, backend: str) -> None:
    base = tmp_path / "base"
    source = write_key(tmp_path / "master.key")
    unmasked, masked = (sealed_settings(source, backend, masking={"enabled": on}) for on in (False, True))
    with TaskContextManager(base, KEY, unmasked, uuid="sealed-1") as context:
        context.message_store.add_message("user", f"use {SECRET}")
        context.tool_store.add_tool_call("curl", {"header": SECRET}, {"ok": True}, None)
        context.stop()
    [found] = scan_tasks(base, masked)
    assert {(hit.where, hit.number) for hit in found.hits} >= {("messages", 1), ("tools", 1)}
    [fixed] = scan_tasks(base, masked, fix=True)
    assert fixed.is_fixed
    assert damage(base, "sealed-1", masked) == []
    with TaskContextManager.resume(base, "sealed-1", unmasked) as context:
        [message] = context.message_store.get_messages_for_llm()
    assert SECRET not in message["content"]
    assert "[GITHUB_TOKEN]#" in message["content"]
    # Sealed again, and not merely replaced: not even the placeholder can be read.
    assert not [path for path in base.rglob("*") if path.is_file() and b"[GITHUB_TOKEN]#" in path.read_bytes()]
