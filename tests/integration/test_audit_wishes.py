"""What people want of tasks in line, and who may come in, is in the audit like any other change."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskQueue, new_grant, revoke_grant
from orihon.audit import AuditFilter, acting_as, audit_records, verify_audit
from orihon.errors import IllegalTransition, InvalidInput
from orihon.settings import load_settings
from orihon.values.task import TaskKey
from tests.helpers import refused
from tests.services import Database

KEY = TaskKey("cli", "", "", "task", "1", "ann")


@pytest.fixture(params=["files", "postgres"])
def config(request: pytest.FixtureRequest) -> dict[str, Any]:
    if request.param == "files":
        return {}
    database: Database = request.getfixturevalue("emptied_postgres")
    return {"database": database.settings}


def test_wishes_and_grants_are_recorded_with_who_and_how_they_ended(tmp_path: Path, config: dict[str, Any]) -> None:
    settings = load_settings(config, environ={})
    with acting_as("bob", "192.0.2.7"), closing(TaskQueue(tmp_path, settings)) as queue:
        uuid = queue.enqueue(KEY, prompt="a secret plan")
        for act in (queue.pause, queue.resume, queue.cancel, queue.retry):
            act(uuid)
        with refused(IllegalTransition, "change"):
            queue.retry(uuid)
        made = new_grant(tmp_path, settings, user="ann", role="operate")
        for _ in range(2):  # the second time nothing is changed
            revoke_grant(tmp_path, settings, made.grant.id)
        with refused(InvalidInput, "no_grant"):
            revoke_grant(tmp_path, settings, "nothing")
    records = [one for one in audit_records(tmp_path, settings, AuditFilter()) if one.action != "configure"]
    assert [(one.action, one.task, one.result) for one in records] == [
        *((name, uuid, "ok") for name in ("enqueue", "pause", "resume", "cancel", "retry")),
        ("retry", uuid, "IllegalTransition.change"),
        ("grant", "", "ok"),
        ("revoke", "", "ok"),
    ]
    assert {(one.user, one.address) for one in records} == {("bob", "192.0.2.7")}
    assert [one.details for one in records[-2:]] == [{"grant": made.grant.id, "role": "operate"}] * 2
    told = str(records)
    assert "secret plan" not in told
    assert made.token not in told
    assert verify_audit(tmp_path, settings).is_sound
