"""What the adapters share: one base for each place, the task of a session, versions, refusals."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from orihon.adapters import common
from orihon.base import Base
from orihon.errors import InvalidInput, InvalidMessage, StaleWriter, TaskBusy


def test_a_place_has_one_base_in_a_process(tmp_path: Path) -> None:
    assert common.base_at(tmp_path) is common.base_at(str(tmp_path))
    assert common.base_at(tmp_path) is not common.base_at(tmp_path / "other")
    own = Base(tmp_path)
    assert common.base_at(own) is own


@pytest.mark.parametrize("name", ["hello", "user#1", "a/b!2", "github:a/b#3", "日本語 / x", "@last"])
def test_the_name_of_a_session_stands_for_itself(tmp_path: Path, name: str) -> None:
    with Base(tmp_path) as base:
        assert common.session_row(base, name) is None
        task = common.session_task(base, name)
        assert common.session_task(base, name) is task
        row = common.session_row(base, name)
        assert row is not None
        assert row.uuid == task.context.uuid
        assert (row.key.task_type, row.key.task_id) == ("task", name)
        task.complete()
        assert common.session_row(base, name) is None


def test_a_session_may_be_a_task_that_is_there(tmp_path: Path) -> None:
    with Base(tmp_path) as base:
        task = base.task("owner/repo#27")
        assert common.session_task(base, task.context.uuid) is task
        assert common.session_task(base, task) is task
        task.stop()


@pytest.mark.parametrize("name", ["", "x" * 201, "nul\0", None, 7])
def test_no_session_without_a_usable_name(tmp_path: Path, name: str) -> None:
    with Base(tmp_path) as base, pytest.raises(InvalidInput):
        common.session_task(base, name)
    assert not list(tmp_path.glob("running/*"))


def test_an_untested_version_warns_once_and_names_the_range() -> None:
    with pytest.warns(UserWarning, match=r"pytest .* from 0\.1 up to, but not including, 0\.2"):
        common.check_version("pytest", "0.1", "0.2")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        common.check_version("pytest", "0.1", "0.2")
        common.check_version("ruff", "0.1", "1000")
        common.check_version("no-such-package", "1", "2")


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {"b": object()}]}, r"state\.a\[1\]\.b cannot be kept: it is of type object"),
        ({1: 2}, r"state\[1\]"),
        ({"a": {1, 2}}, r"state\.a .* set"),
        ([float("nan")], r"state\[0\]"),
        ({"a": b"x"}, r"state\.a .* bytes"),
    ],
)
def test_what_cannot_be_kept_is_named(value: object, where: str) -> None:
    with pytest.raises(InvalidMessage, match=where):
        common.check_kept(value, "state")


def test_plain_data_can_be_kept() -> None:
    common.check_kept({"a": [1, 2.5, None, True, "日本語", {"b": []}]}, "state")


def test_a_task_of_somebody_else_is_refused_in_the_frameworks_own_type() -> None:
    for error in (
        TaskBusy("claimed", uuid="u", owner="o"),
        StaleWriter("released", uuid="u", epoch=1),
    ):
        with pytest.raises(KeyError) as caught, common.refusing_as(KeyError):
            raise error
        assert caught.value.__cause__ is error
