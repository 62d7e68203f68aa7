"""Which base folder a command works on when nobody names one, and that looking makes none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orihon import Base
from orihon.cli.main import main
from orihon.settings import load_settings
from orihon.settings.where import FOUND, KEY, USER, user_base, with_base_folder


def _where() -> tuple[Path, str]:
    found = with_base_folder(load_settings())
    return found.context_storage.base_dir.absolute(), found.origin(KEY)


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project" / "src" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def test_one_place_for_each_user_wherever_they_stand(inside: Path) -> None:
    assert _where() == (user_base(), USER)
    with Base() as base, base.task("hello") as task:
        task.add("user", "kept")
    assert base.path == user_base()
    assert not (inside / "contexts").exists()


def test_a_base_that_is_there_is_found_upwards(inside: Path, tmp_path: Path) -> None:
    above = tmp_path / "project" / "contexts"
    with Base(above) as base, base.task("hello"):
        pass
    assert _where() == (above, FOUND)
    (inside / "contexts").mkdir()  # some project's own folder
    assert _where() == (above, FOUND)
    with Base("contexts") as base, base.task("nearer"):
        pass
    assert _where() == (inside / "contexts", FOUND)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_base_above_that_is_somebody_elses_is_not_taken(inside: Path, tmp_path: Path) -> None:
    above = tmp_path / "project" / "contexts"
    with Base(above) as base, base.task("theirs"):
        pass
    os.chown(above, 65534, 65534)
    assert _where() == (user_base(), USER)


def test_what_is_named_comes_first(inside: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Base("contexts") as base, base.task("hello"):
        pass
    monkeypatch.setenv("ORIHON_BASE_DIR", str(tmp_path / "named"))
    assert _where() == (tmp_path / "named", "environment ORIHON_BASE_DIR")


def test_a_data_folder_that_is_not_absolute_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    home = Path("~/.local/share/orihon").expanduser()
    assert user_base({"XDG_DATA_HOME": "here"}) == user_base({}) == home


def test_looking_makes_nothing_and_filling_says_where(
    inside: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for looking in (["list"], ["search", "x"], ["stats"], ["costs"], ["doctor"]):
        assert main(looking) == 0, looking
    assert not user_base().exists()
    assert f"Base folder: {user_base()} (user)" in capfd.readouterr().out
    assert main(["enqueue", "Fix it"]) == 0
    assert f"Tasks are kept in {user_base()}" in capfd.readouterr().err
    assert main(["-v", "list"]) == 0
    said = capfd.readouterr()
    assert "Fix it" in said.out or "cli" in said.out
    assert f"base folder: {user_base()} (user)" in said.err
    assert main(["--base-dir", str(tmp_path / "slip"), "list"]) == 2  # what was named must be there
