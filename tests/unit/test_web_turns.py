"""Changes of one task wait for each other; nobody else waits for them, and they do not wait for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager

import pytest

from orihon.web.site import MOST_WAITING, Turns

LONG = 240.0


@contextmanager
def somebody_changes(turns: Turns, task: str) -> Iterator[None]:
    """Another thread has its turn while the block runs."""
    began, goes_on = threading.Event(), threading.Event()

    def change() -> None:
        with turns.of(task):
            began.set()
            goes_on.wait(LONG)

    thread = threading.Thread(target=change)
    thread.start()
    assert began.wait(LONG)
    try:
        yield
    finally:
        goes_on.set()
        thread.join(LONG)


def test_changes_of_one_task_are_made_one_after_the_other() -> None:
    turns, inside, most = Turns(LONG), [0], [0]

    def change(_: int) -> None:
        with turns.of("one"):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            threading.Event().wait(0.01)
            inside[0] -= 1

    with ThreadPoolExecutor(MOST_WAITING) as pool:
        list(pool.map(change, range(3 * MOST_WAITING)))
    assert most == [1]
    assert turns._lines == {}


def test_another_task_does_not_wait() -> None:
    turns = Turns(LONG)
    with somebody_changes(turns, "one"), ThreadPoolExecutor(1) as pool:
        pool.submit(_take, turns, "two").result(LONG / 2)


def test_nobody_waits_for_ever() -> None:
    turns = Turns(0.01)
    with somebody_changes(turns, "one"), ThreadPoolExecutor(1) as pool:
        pool.submit(_take, turns, "one").result(LONG / 2)
        assert "one" in turns._lines
    assert turns._lines == {}


def test_only_some_wait_so_that_threads_are_left_for_everybody_else() -> None:
    turns, many = Turns(LONG), 40
    with ThreadPoolExecutor(many) as pool:
        with somebody_changes(turns, "one"):
            asked: list[Future[None]] = [pool.submit(_take, turns, "one") for _ in range(many)]
            passed = as_completed(asked, LONG / 2)
            for _ in range(many - MOST_WAITING):
                next(passed).result()
            assert len(wait(asked, 0.2).not_done) == MOST_WAITING
        assert not wait(asked, LONG).not_done


def test_a_change_that_fails_gives_its_turn_on() -> None:
    turns = Turns(LONG)
    with pytest.raises(ZeroDivisionError), turns.of("one"):
        raise ZeroDivisionError
    with ThreadPoolExecutor(1) as pool:
        pool.submit(_take, turns, "one").result(LONG / 2)


def _take(turns: Turns, task: str) -> None:
    with turns.of(task):
        pass
