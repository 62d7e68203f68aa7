"""Changing a task over HTTP, on every back end: what the commands do, done for a page, with the same refusals."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from orihon import Settings, TaskContextManager, TaskKey, export_task, load_settings
from orihon.audit import AuditFilter, audit_records
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.errors import IllegalFold, TaskNotFound
from orihon.tasks.base import OpenBase
from orihon.tasks.hand_edits import change_view, preview_compression
from orihon.tasks.verify.verify import verify
from orihon.tasks.view_reader import reading_view
from orihon.values.task import TaskStatus
from orihon.web.access import Role, Visitor
from orihon.web.api.figures import GROUPS, list_notices
from orihon.web.broadcaster import Broadcaster
from orihon.web.call import Call, task_of
from orihon.web.pages.task_views import can_of
from orihon.web.server import _me as _user
from orihon.web.site import MOST_KEPT, Drafts, Site
from orihon.web.snapshots import open_topic
from tests.conformance.backends import BACKENDS
from tests.integration.run_supervisor import eventually
from tests.serving import Answer, Client, serving

MESSAGES = 41
LONG = "The settings are read before the cache is made, so the test fails. " * 8


@dataclass
class Shown:
    """A paused task with a long conversation, and a browser that is logged in."""

    base: Path
    settings: Settings
    uuid: str
    client: Client

    def change(self, act: str, **body: Any) -> Answer:
        return self.client.change(f"/api/tasks/{self.uuid}/{act}", body)

    def changed(self, act: str, **body: Any) -> dict[str, Any]:
        answer = self.change(act, **body)
        assert answer.status == 200, answer.text
        found: dict[str, Any] = answer.value
        return found

    def view(self) -> list[str]:
        with reading_view(OpenBase(self.base, self.settings), self.uuid) as view:
            return [str(shown.message.get("content")) for shown in view.entries()]


def start(base: Path, settings: Settings) -> TaskContextManager:
    task = TaskContextManager(base, TaskKey("cli", "", "", "task", base.parent.name, "me"), settings)
    task.message_store.add_message("system", "You are careful.")
    for turn in range(MESSAGES // 2):
        task.message_store.add_message("user", f"Step {turn}: look at src/part{turn}.py. {LONG}")
        task.message_store.add_message("assistant", f"We decided to keep part {turn}. {LONG}")
    return task


@pytest.fixture
def shown(kind: str, tmp_path: Path) -> Iterator[Shown]:
    settings = load_settings(BACKENDS[kind].config(), environ={})
    base = tmp_path / "contexts"
    task = start(base, settings)
    task.stop()
    task.catalogue.close()
    with serving(base, settings) as server:
        yield Shown(base, settings, task.uuid, Client(server).log_in())
    findings = verify(OpenBase(base, settings), task.uuid)
    assert [found for found in findings if found.severity != "warning"] == []


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Shown]:
    """The same with the back end that needs the least."""
    settings = load_settings({"context_storage": {"backend": "files"}}, environ={})
    base = tmp_path / "contexts"
    task = start(base, settings)
    task.stop()
    with serving(base, settings) as server:
        yield Shown(base, settings, task.uuid, Client(server).log_in())
    task.catalogue.close()


def test_what_was_previewed_is_folded_and_can_be_undone_and_redone(shown: Shown) -> None:
    before = shown.view()
    planned = shown.changed("compress/preview", strategy="summarize", target=0.001)
    assert shown.view() == before
    fold = planned["folds"][0]
    assert fold["before_tokens"] > fold["after_tokens"] > 0
    assert planned["before_tokens"] > planned["after_tokens"]
    made = shown.changed("compress", preview=planned["preview"])
    record = made["compression"]
    assert (record["kind"], record["made_by"]) == ("compress", f"web:{_user()}")
    assert record["after_tokens"] == planned["after_tokens"]
    assert fold["text"] in "\n".join(shown.view())
    assert len(shown.view()) == made["entries"]
    undone = shown.changed("undo")
    assert undone["compression"]["parent"] == record["id"]
    assert shown.view() == before
    assert shown.changed("redo", compression=record["id"])["compression"]["kind"] == "redo"
    assert len(shown.view()) == made["entries"]
    recorded = audit_records(shown.base, shown.settings, AuditFilter(task=shown.uuid))
    assert [one.action for one in recorded].count("compress") == 1


def test_folds_are_edited_and_opened_and_messages_pinned(shown: Shown) -> None:
    planned = shown.changed("compress/preview", strategy="summarize", target=0.001)
    first = planned["folds"][0]
    made = shown.changed("compress", preview=planned["preview"], texts={str(first["start_seq"]): "my own words"})
    number = made["compression"]["folds"][0]
    assert shown.client.ask("GET", f"/api/tasks/{shown.uuid}/folds/{number}/text").value["text"] == "my own words"
    edited = shown.changed("edit", fold=number, text="better words")
    assert "better words" in "\n".join(shown.view())
    (new,) = edited["compression"]["folds"]
    shown.changed("unfold", fold=new)
    assert "better words" not in "\n".join(shown.view())
    pinned = shown.changed("pin", seq=3, line="We decided to keep part 0.")
    assert pinned["compression"]["pins"] == [{"seq": 3, "line": "We decided to keep part 0."}]
    assert shown.changed("unpin", seq=3, line="We decided to keep part 0.")["compression"]["pins"] == []


def test_one_goes_back_and_forks(shown: Shown) -> None:
    shown.changed("rewind", to=5, notice="We try it again.")
    assert len(shown.view()) == 6
    assert shown.view()[-1].endswith("We try it again.")
    forked = shown.changed("fork", at=9)
    with reading_view(OpenBase(shown.base, shown.settings), forked["uuid"]) as view:
        assert view.last_seq == 9


def test_a_task_is_paused_and_goes_on_and_is_given_up(shown: Shown) -> None:
    queued = shown.client.change("/api/tasks", {"prompt": "Tidy up.", "repository": "ann/shop", "priority": 3})
    uuid = queued.value["uuid"]
    assert (queued.status, queued.value["status"]) == (200, "queued")
    wish = f"/api/tasks/{uuid}"
    assert shown.client.change(f"{wish}/pause").value["requested"] == "pause"
    assert shown.client.change(f"{wish}/resume").value["requested"] is None
    assert shown.client.change(f"{wish}/cancel").value["status"] == "cancelled"
    assert shown.client.change(f"{wish}/retry").value["status"] == "queued"
    refused = shown.client.change(f"{wish}/retry")
    assert (refused.status, refused.reason) == (409, "IllegalTransition.change")
    with closing(open_catalogue(shown.base, shown.settings)) as catalogue:
        row = catalogue.tasks.get(uuid)
    assert (row.repository, row.priority, row.user, row.prompt) == ("ann/shop", 3, _user(), "Tidy up.")


def test_a_task_at_work_is_changed_where_several_may_write_and_refused_otherwise(shown: Shown, kind: str) -> None:
    with TaskContextManager.resume(shown.base, shown.uuid, shown.settings):
        answer = shown.change("pin", seq=2)
        assert answer.status == (200 if BACKENDS[kind].many_writers else 409)
        if answer.status == 409:
            assert answer.reason == "TaskBusy.view"


def test_a_preview_is_not_applied_to_what_has_changed_since(plain: Shown) -> None:
    old = plain.changed("compress/preview", strategy="summarize", target=0.001)["preview"]
    plain.changed("compress", strategy="summarize", target=0.001)
    view = plain.view()
    for name, reason in ((old, "preview_old"), ("unknown", "preview_gone")):
        refused = plain.change("compress", preview=name)
        assert (refused.status, refused.reason) == (409, f"IllegalFold.{reason}")
        assert refused.value["error"]["remedy"] == "Make a new preview and look at it."
    assert plain.view() == view


def test_messages_that_come_meanwhile_do_a_preview_no_harm(plain: Shown) -> None:
    name = plain.changed("compress/preview", strategy="summarize", target=0.001)["preview"]
    with TaskContextManager.resume(plain.base, plain.uuid, plain.settings) as task:
        task.message_store.add_message("user", "One more thing.")
        task.stop()
    plain.changed("compress", preview=name)
    assert plain.view()[-1] == "One more thing."


def test_what_cannot_be_folded_says_why(plain: Shown) -> None:
    found = plain.changed("compress/preview", strategy="offload", target=0.001)  # no tool has printed anything
    assert (found["preview"], found["folds"]) == (None, [])
    assert (found["nothing"], found["why"]) == ("nothing_bulky", "no old tool result is large enough")
    refused = plain.change("compress", strategy="offload", target=0.001)
    assert (refused.status, refused.reason) == (409, "IllegalFold.nothing_planned")


def test_bad_input_changes_nothing(plain: Shown) -> None:
    view = plain.view()
    for act, body, reason in (
        ("compress", {"strategy": "magic"}, "InvalidInput.field"),
        ("compress", {"target": 2}, "InvalidInput.field"),
        ("compress", {"texts": {"x": "y"}, "target": 0.001}, "InvalidInput.field"),
        ("compress", {"texts": {"999": "y"}, "target": 0.001}, "InvalidInput.no_planned_fold"),
        ("compress", {"texts": ["y"]}, "InvalidInput.field"),
        ("undo", {"compression": "one"}, "InvalidInput.field"),
        ("undo", {}, "NothingToUndo.no_undo"),
        ("unfold", {}, "InvalidInput.field_missing"),
        ("unfold", {"fold": 7}, "NothingToUndo.no_fold"),
        ("pin", {"seq": 999}, "NoSuchMessage.seq"),
        ("pin", {"seq": 2, "line": "not in it"}, "NoSuchMessage.line"),
        ("rewind", {"to": MESSAGES}, "NothingToUndo.at_end"),
        ("fork", {"at": 999}, "NoSuchMessage.seq"),
    ):
        answer = plain.change(act, **body)
        assert answer.status in (400, 404, 409), (act, answer.text)
        assert answer.reason == reason, act
    assert plain.view() == view
    blank = plain.client.change("/api/tasks", {"prompt": " "})
    assert (blank.status, blank.reason) == (400, "InvalidInput.no_prompt")


def test_a_finished_task_is_read_and_not_changed(plain: Shown) -> None:
    with TaskContextManager.resume(plain.base, plain.uuid, plain.settings) as task:
        task.complete()
    assert plain.change("undo").reason == "IllegalTransition.unchangeable"
    bar = plain.client.ask("GET", f"/tasks/{plain.uuid}/actions").text
    assert 'data-act="fork"' in bar
    assert 'data-act="compress"' not in bar


def test_buttons_are_those_that_make_sense(plain: Shown) -> None:
    path = f"/tasks/{plain.uuid}/actions"
    before = plain.client.ask("GET", path).text
    assert 'data-act="undo"' in before
    assert _is_disabled(before, "undo")
    assert 'data-act="resume"' in before
    assert 'data-act="pause"' not in before
    plain.changed("compress", target=0.001)
    assert not _is_disabled(plain.client.ask("GET", path).text, "undo")


def test_nobody_changes_anything_in_read_only_mode(plain: Shown) -> None:
    with serving(plain.base, plain.settings, read_only=True) as server:
        client = Client(server).log_in()
        assert client.change(f"/api/tasks/{plain.uuid}/undo").reason == "read_only"
        assert client.change(f"/api/tasks/{plain.uuid}/compress/preview", {"target": 0.001}).status == 200
        assert "data-act=" not in client.ask("GET", f"/tasks/{plain.uuid}/actions").text


def test_a_task_is_downloaded_as_the_export_writes_it(shown: Shown, tmp_path: Path) -> None:
    for form, ending in (("html", "html"), ("markdown", "md"), ("jsonl", "jsonl"), ("chat", "chat.jsonl")):
        answer = shown.client.ask("GET", f"/tasks/{shown.uuid}/export?format={form}")
        assert answer.status == 200
        assert answer.headers["content-disposition"] == f'attachment; filename="{shown.uuid}.{ending}"'
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"].startswith("sandbox;")
        written = tmp_path / form
        export_task(shown.base, shown.uuid, shown.settings, form, written)  # type: ignore[arg-type]
        assert _lines(answer.body) == _lines(written.read_bytes())


def test_whoever_breaks_a_download_off_leaves_nobody_waiting(plain: Shown) -> None:
    with TaskContextManager.resume(plain.base, plain.uuid, plain.settings) as task:
        for _ in range(40):
            task.message_store.add_message("user", "x" * 400_000)  # more than any buffer on the way
        task.stop()
    client = plain.client
    head = f"GET /tasks/{plain.uuid}/export?format=chat HTTP/1.1\r\nHost: 127.0.0.1:{client.server.port}\r\n"
    with socket.create_connection(("127.0.0.1", client.server.port), timeout=120) as line:
        line.sendall(f"{head}Cookie: {client.cookie}\r\n\r\n".encode())
        assert line.recv(1000).startswith(b"HTTP/1.1 200")
        assert _is_anybody_writing()  # and has to wait for the reader
    eventually(lambda: not _is_anybody_writing())


def _is_anybody_writing() -> bool:
    """Is a thread inside of a download?"""
    for frame in sys._current_frames().values():
        here: FrameType | None = frame
        while here is not None:
            if here.f_code.co_filename.endswith("web/downloads.py") and here.f_code.co_name == "write":
                return True
            here = here.f_back
    return False


def test_an_export_that_fails_is_an_error_and_no_file(plain: Shown) -> None:
    (folder,) = (plain.base / "paused").iterdir()
    lines = (folder / "messages.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "messages.jsonl").write_bytes(b"{broken\n" + b"".join(lines[1:]))
    answer = plain.client.ask("GET", f"/tasks/{plain.uuid}/export?format=chat")
    assert answer.status == 500
    assert "content-disposition" not in answer.headers
    assert plain.client.ask("GET", f"/tasks/{plain.uuid}/export?format=exe").status == 400
    assert plain.client.ask("GET", "/tasks/nobody/export").status == 404


def test_what_was_folded_is_told_with_addresses(shown: Shown) -> None:
    number = shown.changed("compress", target=0.001)["compression"]["id"]
    found = shown.client.ask("GET", f"/api/notices?task={shown.uuid}").value
    (notice,) = [one for one in found["notices"] if one["kind"] == "compressed"]
    compare = f"/tasks/{shown.uuid}/compare/{number}"
    assert notice["actions"] == {"view_archive": compare, "undo": f"/api/tasks/{shown.uuid}/undo"}
    assert notice["compression"] == number
    assert notice["details"]["before_tokens"] > notice["details"]["after_tokens"]
    later = shown.client.ask("GET", f"/api/notices?task={shown.uuid}&since={found['notices'][0]['number']}").value
    assert later == {"notices": [], "older": None}
    page = shown.client.ask("GET", f"/notifications?group=compressions&task={shown.uuid}").text
    assert compare in page
    assert f'data-undo="{number}"' in page
    assert "data-undo" not in shown.client.ask("GET", f"/notifications?group=failures&task={shown.uuid}").text


def test_the_feed_has_pages(plain: Shown) -> None:
    for _ in range(3):
        plain.changed("compress", target=0.001)
        plain.changed("undo")
    pages, before = [], ""
    while True:
        found = plain.client.ask("GET", f"/api/notices?limit=2{before}").value
        pages.append([one["number"] for one in found["notices"]])
        if found["older"] is None:
            break
        before = f"&before={found['older']}"
    numbers = [number for page in pages for number in page]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers) >= 3
    assert all(len(page) == 2 for page in pages[:-1])
    groups = [plain.client.ask("GET", f"/api/notices?group={name}").value["notices"] for name in GROUPS]
    assert sum(map(len, groups)) == len(numbers)


def test_only_the_newest_previews_are_kept(plain: Shown) -> None:
    planned = preview_compression(OpenBase(plain.base, plain.settings), plain.uuid, target=0.001)
    drafts = Drafts()
    other = drafts.keep(planned, "ben")
    names = [drafts.keep(planned, "ann") for _ in range(MOST_KEPT)]
    assert list(drafts.names()) == [other, *names[1:]]  # nobody else loses one by them
    assert drafts.get(names[1], plain.uuid) is planned
    for name, uuid in ((names[0], plain.uuid), (names[1], "another")):
        with pytest.raises(IllegalFold):
            drafts.get(name, uuid)


def test_an_undone_compression_of_somebody_else_is_seen(plain: Shown) -> None:
    """The buttons follow what others do."""
    number = plain.changed("compress", target=0.001)["compression"]["id"]
    change_view(OpenBase(plain.base, plain.settings), plain.uuid, "undo", made_by="cli")
    refused = plain.change("undo", compression=number)
    assert (refused.status, refused.reason) == (409, "NothingToUndo.no_undo")
    assert _row(plain).status is TaskStatus.PAUSED


@pytest.mark.parametrize("role", ["read", "operate", "approve"])
def test_who_is_no_administrator_sees_their_own_tasks_alone(plain: Shown, role: Role) -> None:
    plain.changed("compress", target=0.001)
    opened = OpenBase(plain.base, plain.settings)
    site = Site(opened, Broadcaster(partial(open_topic, opened)))
    given = {"task": plain.uuid, "since": 0, "before": None, "limit": 50, "group": None}
    mine, other = (Call(site, Visitor(user, role), given) for user in ("me", "bob"))
    assert task_of(mine) == plain.uuid
    with pytest.raises(TaskNotFound):
        task_of(other)
    found, none = (list_notices(replace(call, given={**given, "task": None}))["notices"] for call in (mine, other))
    assert ([one["kind"] for one in found], none) == (["compressed"], [])
    assert bool(found[0]["actions"]["undo"]) == (role != "read")
    row = _row(plain)
    assert any(can_of(mine, row, ()).values()) == (role != "read")
    assert not any(can_of(replace(mine, site=replace(site, read_only=True)), row, ()).values())


def _row(shown: Shown) -> TaskRow:
    with closing(open_catalogue(shown.base, shown.settings)) as catalogue:
        return catalogue.tasks.get(shown.uuid)


def _is_disabled(bar: str, act: str) -> bool:
    tag = bar.split(f'data-act="{act}"')[1].split(">")[0]
    return "disabled" in tag


def _lines(content: bytes) -> list[Any]:
    """Without what says when it was written."""
    lines = [line for line in content.splitlines() if b"exported" not in line.lower()]
    return [json.loads(line) if line.startswith(b"{") else line for line in lines]
