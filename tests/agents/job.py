"""The piece of work that every client does: read notes, mend a program, run it. And what has to come of it.

The notes are long, so that a context that fits a small window has to be folded on the way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.upstream import Reply, Step

NOTES = 6
WANTED = "Read the notes, make greet.py say good morning, run it into out.txt. Never touch the valve in room 4711."
DONE = "greet.py says good morning."
_NOTE_BYTES = 8000  # some clients cut the output of a command from 10,000 on


@dataclass(frozen=True, slots=True)
class Hands:
    """How a model has one client do things: the replies that call its tools."""

    shell: Callable[[str, str], Reply]  # a command, and what the model says to it
    edit: Callable[[Path, str, str], Step]  # a file, a text in it, another in its place
    end: Callable[[str], Reply] = Reply  # what it says at last
    look: Callable[[Path], Reply] | None = None  # at a file, where that has to be done before it is changed


def make_job(folder: Path) -> None:
    """The files to work on."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "greet.py").write_text('print("hello")\n')
    for number in range(1, NOTES + 1):
        (folder / f"notes-{number}.txt").write_text(note(number))


def note(number: int) -> str:
    """One of the notes; no line of it is in another."""
    lines: list[str] = []
    while sum(map(len, lines)) < _NOTE_BYTES:
        at = len(lines) + 1
        lines.append(
            f"Note {number}.{at}: pump {number * 1000 + at} ran at {at * 37 % 911} turns, valve {at * 53 % 97}.\n"
        )
    return "".join(lines)


def script(hands: Hands, folder: Path) -> list[Step]:
    """What the model says, turn after turn."""
    program = folder / "greet.py"
    steps: list[Step] = [
        hands.shell(f"cat notes-{number}.txt", f"I read note {number}.") for number in range(1, NOTES + 1)
    ]
    if hands.look is not None:
        steps.append(hands.look(program))
    steps.append(hands.edit(program, "hello", "good morning"))
    steps.append(hands.shell("python3 greet.py > out.txt; cat out.txt", "Now I run it."))
    return [*steps, hands.end(DONE)]


def check_job(folder: Path) -> None:
    """Was it done, and nothing else?"""
    assert (folder / "greet.py").read_text() == 'print("good morning")\n'
    assert (folder / "out.txt").read_text() == "good morning\n"
    for number in range(1, NOTES + 1):
        assert (folder / f"notes-{number}.txt").read_text() == note(number)
