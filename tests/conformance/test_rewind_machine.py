"""Random lives of a task in which people also go back to earlier steps: the invariants hold, and undo is exact."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from orihon.errors import ToolCallError
from orihon.tasks.verify.verify import verify_task
from orihon.values.records import Compression
from tests.conformance.invariants import shown
from tests.conformance.test_machine import _BOUNDED, LIVES, FilesMachine, SqliteMachine, TaskMachine


class _Rewinding(TaskMachine):
    @precondition(lambda self: self.store.count_messages() > 1)
    @rule(data=st.data(), is_taken_back=st.booleans(), appended=st.booleans())
    def rewind(self, data: st.DataObject, is_taken_back: bool, appended: bool) -> None:
        seq = data.draw(st.integers(1, self.store.count_messages() - 1))
        before = shown(self.store)
        made = self.tried(lambda: self._rewound(seq))
        if made is not None and is_taken_back:
            self.take_back(made, before, appended=appended)

    def _rewound(self, seq: int) -> Compression | None:
        with suppress(ToolCallError):
            return self.store.rewind(seq)
        return None

    def teardown(self) -> None:
        findings = [finding for finding in verify_task(self.store.task_store) if finding.severity == "error"]
        super().teardown()
        assert findings == []


class RewindingFiles(_Rewinding, FilesMachine):
    pass


class RewindingSqlite(_Rewinding, SqliteMachine):
    pass


TestRewindingFiles: Any = RewindingFiles.TestCase
TestRewindingSqlite: Any = RewindingSqlite.TestCase
TestRewindingFiles.settings = settings(_BOUNDED, max_examples=LIVES // 2)
TestRewindingSqlite.settings = settings(_BOUNDED, max_examples=LIVES // 2)
