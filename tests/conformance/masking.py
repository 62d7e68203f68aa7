"""No secret reaches the disk, whichever way it comes."""

from __future__ import annotations

from pathlib import Path

from orihon import MessageStore
from orihon.store import PlanningHistoryStore, SummaryStore, ToolStore
from orihon.values.message.message import Message
from orihon.values.view import PlannedFold
from tests.conformance.behaviour import Behaviour, call
from tests.conformance.invariants import check_task

SECRET = "ghp_0123456789abcdefABCDEF0123456789abcd"


class MaskingBehaviour(Behaviour):
    """The guard stands before every store."""

    def test_nothing_on_disk_holds_a_secret(self, store: MessageStore) -> None:
        said = f"the token is {SECRET}, 秘密です"
        store.add_message("system", said)
        store.add_message("user", [{"type": "text", "text": said}], note={"inner": [said]})
        store.add_message("assistant", None, tool_calls=[call("a", arguments=f'{{"token": "{SECRET}"}}')])
        store.add_message(
            "tool", said, "read_file", tool_call_id="a", tool_call={"arguments": {"env": said}, "result": [said]}
        )
        store.append(Message.from_anthropic({"role": "user", "content": [{"type": "text", "text": said}]}))
        store.add_message("user", said * 5_000)
        plan = PlannedFold(2, 5, f"they used {SECRET}", reason=said)
        store.folding.compress([plan], trigger=said, strategy=said, level=said, made_by=said)
        store.folding.compress([PlannedFold(6, 6, said, form="preview")])
        store.folding.edit(1, f"again {SECRET}", made_by=said)
        store.folding.undo(made_by=said)
        task_store, folder = store.task_store, store.context_dir
        SummaryStore(folder, task_store=task_store).add_summary(said, 3, 100)
        PlanningHistoryStore(folder, task_store=task_store).add_plan(said, {"steps": [said], SECRET: 1})
        ToolStore(folder, task_store=task_store).add_tool_call("curl", {"header": said}, {"body": said}, said)
        store.get_current_context_file()
        check_task(store)
        store.close()
        assert self.backend.places_with(SECRET, folder) == []
        view = store.get_messages_for_llm()
        assert "[GITHUB_TOKEN]#" in view[0]["content"]
        assert "秘密です" in view[0]["content"]

    def test_masking_can_be_switched_off(self, folder: Path) -> None:
        store = self.backend.open(folder, masking={"enabled": False})
        store.add_message("user", f"the token is {SECRET}")
        assert SECRET in store.get_messages_for_llm()[0]["content"]
        store.close()
        assert self.backend.places_with(SECRET, folder)
