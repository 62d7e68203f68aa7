"""Every line of the log says which task it is about, and the log file is for its owner only."""

from __future__ import annotations

import gc
import logging
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orihon.errors import StorageUnavailable
from orihon.guard.logs import configure, enter_task, leave_task, shifted
from tests.damage import start_task
from tests.helpers import refused

UUID = "0f0f0f0f-1111-4222-8333-444444444444"
logger = logging.getLogger("orihon.test")


pytestmark = pytest.mark.usefixtures("own_logging")


def lines(path: Path) -> list[str]:
    """The lines without their times."""
    return [line.split(" ", 2)[2] for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_names_its_task_once(tmp_path: Path) -> None:
    configure("INFO", tmp_path / "agent.log")
    logger.info("nobody's line")
    logger.info("%s: said with its name", UUID)
    enter_task("my-task")
    logger.info("said without a name")
    logger.info("%s: said with its name", "my-task")
    logger.info("%s: about another one", UUID)
    leave_task("another")
    logger.info("still inside")
    leave_task("my-task")
    logger.info("outside again")
    assert lines(tmp_path / "agent.log") == [
        "INFO orihon.test -: nobody's line",
        f"INFO orihon.test {UUID}: said with its name",
        "INFO orihon.test my-task: said without a name",
        "INFO orihon.test my-task: said with its name",
        f"INFO orihon.test {UUID}: about another one",
        "INFO orihon.test my-task: still inside",
        "INFO orihon.test -: outside again",
    ]


def test_a_task_names_its_lines_from_opening_to_end(tmp_path: Path) -> None:
    gc.collect()  # a store that an earlier test has dropped may have something to say
    configure("INFO", tmp_path / "agent.log")
    task = start_task(tmp_path / "contexts", "files")
    logger.info("a line of some other module")
    task.complete()
    logger.info("afterwards")
    *inside, last = lines(tmp_path / "agent.log")
    assert len(inside) >= 3
    assert all(f" {task.uuid}: " in line for line in inside)
    assert last == "INFO orihon.test -: afterwards"


def test_threads_do_not_mix_up_their_tasks(tmp_path: Path) -> None:
    configure("INFO", tmp_path / "agent.log")
    enter_task("first")

    def other() -> None:
        enter_task("second")
        logger.info("from the thread")

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    logger.info("from here")
    assert lines(tmp_path / "agent.log") == [
        "INFO orihon.test second: from the thread",
        "INFO orihon.test first: from here",
    ]


def test_what_is_logged_cannot_forge_a_line(tmp_path: Path) -> None:
    program = (
        "import logging, sys; from pathlib import Path; from orihon.guard.logs import configure, enter_task;"
        "configure('INFO', Path(sys.argv[1])); enter_task(sys.argv[2]);"
        r"logging.getLogger('orihon.test').info('first\n2026-01-01 INFO x: forged \x1b[2J \r\u2028end \ud800')"
    )
    # In a process of its own: the test run could not report a broken character.
    command = [sys.executable, "-c", program, str(tmp_path / "agent.log"), UUID]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = lines(tmp_path / "agent.log")
    assert first == f"INFO orihon.test {UUID}: first"
    assert second == rf"INFO orihon.test {UUID}: 2026-01-01 INFO x: forged \x1b[2J \r\u2028end \ud800"
    assert ended.stderr == (tmp_path / "agent.log").read_text(encoding="utf-8")


def test_every_line_of_a_traceback_names_the_task(tmp_path: Path) -> None:
    configure("INFO", tmp_path / "agent.log")
    enter_task(UUID)
    try:
        raise ValueError("失敗")
    except ValueError:
        logger.exception("it failed")
    found = lines(tmp_path / "agent.log")
    assert len(found) > 3
    assert all(line.startswith(f"ERROR orihon.test {UUID}: ") for line in found)
    assert found[-1].endswith("ValueError: 失敗")


def test_the_file_is_private_and_grows(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "agent.log"
    for _ in range(2):
        configure("WARNING", path)
        logger.warning("one line")
    logger.info("not this one")
    assert len(lines(path)) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_screen_and_file_have_levels_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure("DEBUG", tmp_path / "agent.log", screen="ERROR")
    logger.debug("for the file")
    logger.error("for both")
    assert "for the file" not in capsys.readouterr().err
    assert [line.rpartition(": ")[2] for line in lines(tmp_path / "agent.log")] == ["for the file", "for both"]
    configure("INFO")
    logger.info("on the screen")
    assert "INFO orihon.test -: on the screen" in capsys.readouterr().err
    assert len(lines(tmp_path / "agent.log")) == 2


def test_a_log_file_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with refused(StorageUnavailable, "io"):
        configure("INFO", tmp_path)


def test_each_v_is_one_level_more() -> None:
    assert [shifted("WARNING", verbosity) for verbosity in (-9, -1, 0, 1, 2, 9)] == [50, 40, 30, 20, 10, 10]
    assert shifted(logging.INFO, 1) == logging.DEBUG
