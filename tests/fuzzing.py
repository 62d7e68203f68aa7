"""What the fuzz tests are made of: hostile values, spoiled files, and a check that nothing hangs or writes elsewhere.

How many examples each target gets is an option (``--fuzz``): few in the suite, as many as you like in ``make fuzz``.
With ``--atheris SECONDS`` (``make fuzz ATHERIS=1``) each target is searched for so long by atheris instead, which sees
what part of the code an input has reached; ``tests.atheris_plugin`` prepares that.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

_Value = TypeVar("_Value")

#: So many values for each target are looked at in the suite.
FEW = 15
#: Seconds of computing after which an input counts as one that hangs; ordinary ones take a thousandth.
_HANGS = 30

_PIECES = (
    *(
        "../",
        "..\\",
        "/etc/passwd",
        "\0",
        "%2e%2e/",
        "C:",
        "~",
        "\n",
        "\r\n",
        "\u2028",
        "\ud800",
        "\U000e0041",
        "\ufeff",
    ),
    *(
        "'; DROP TABLE tasks; --",
        "${HOME}",
        "{{7*7}}",
        "<script>",
        "&a",
        "*a",
        "!!python/object",
        "- ",
        ": ",
        "# ",
        "@",
    ),
    *("[" * 60, "{" * 60, '{"a":' * 60, "9" * 400, "1e999", "-0", "NaN", "true", "null", '"', "\\", "\\u0000", ":" * 9),
    *(
        "github",
        "me/project#27",
        "!7",
        "@last:running",
        "postgresql://",
        "amqp://u:p@h",
        "file:///",
        "s3://b",
        "http://",
    ),
)


def hostile_text() -> st.SearchStrategy[str]:
    """Text with whatever has bitten somebody."""
    dirty = st.text(st.characters(exclude_categories=()), max_size=12)
    return st.lists(st.one_of(st.sampled_from(_PIECES), dirty), max_size=6).map("".join)


def hostile_json(*names: str) -> st.SearchStrategy[Any]:
    """A value of any form; its keys are often ``names``."""
    keys = st.one_of(st.sampled_from([*names, "type", "id"]), hostile_text())
    numbers = st.one_of(st.integers(), st.floats(), st.just(1 << 70))
    scalars = st.one_of(st.none(), st.booleans(), numbers, hostile_text(), st.sampled_from(names or ("",)))
    nested = st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
        max_leaves=8,
    )
    return st.one_of(nested, st.dictionaries(keys, nested, max_size=8))


def deep(levels: int) -> Any:
    """A list in a list in a list …"""
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return value


def spoiled(whole: bytes) -> st.SearchStrategy[bytes]:
    """A good file with pieces cut out, put in, doubled or replaced, or its JSON values exchanged."""
    size = max(len(whole), 1)
    piece = st.one_of(st.binary(max_size=6), hostile_text().map(lambda said: said.encode("utf-8", "surrogatepass")))
    change = st.tuples(st.integers(0, size), st.integers(0, 40), piece)
    cut = st.lists(change, min_size=1, max_size=5).map(lambda changes: _changed(whole, changes))
    return st.one_of(cut, st.tuples(st.integers(0, 1 << 30), hostile_json()).map(lambda pair: _exchanged(whole, *pair)))


def _changed(whole: bytes, changes: list[tuple[int, int, bytes]]) -> bytes:
    for at, length, piece in changes:
        whole = whole[:at] + piece + whole[at + length :]
    return whole


def _exchanged(whole: bytes, which: int, value: Any) -> bytes:
    """The file with one value of its JSON replaced by another."""
    lines = whole.split(b"\n")
    at = which % len(lines)
    try:
        lines[at] = json.dumps(_with(json.loads(lines[at]), which, value)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return whole[: which % (len(whole) + 1)]
    return b"\n".join(lines)


def _with(document: Any, which: int, value: Any) -> Any:
    if not document or which % 3 == 0 or not isinstance(document, dict | list):
        return value
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = keys[which % len(keys)]
    document[key] = _with(document[key], which // 3, value)
    return document


def fuzz(examples: int, values: st.SearchStrategy[_Value], check: Callable[[_Value], object]) -> None:
    """Try so many values: the same ones each time when they are few, so that the suite does not depend on luck."""

    @settings(
        max_examples=examples,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=examples <= FEW,
    )
    @given(values)
    def tried(value: _Value) -> None:
        with no_hang():
            check(value)

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", HypothesisWarning
        )  # about a value that is too long to print, instead of its error
        if SEARCH:
            _search(tried.hypothesis.fuzz_one_input)  # type: ignore[attr-defined]
        else:
            tried()


#: Seconds for which atheris searches each target; 0 without it.
SEARCH = 0


def _search(one_input: Callable[[bytes], object]) -> None:
    """In a process of its own: atheris ends the one that it runs in."""
    import atheris

    child = os.fork()
    if child == 0:
        atheris.Setup([sys.argv[0], f"-max_total_time={SEARCH}", "-artifact_prefix=.hypothesis/"], one_input)
        atheris.Fuzz()
    assert os.waitpid(child, 0)[1] == 0, "the input that failed is in .hypothesis, and its error above"


@contextmanager
def no_hang() -> Iterator[None]:
    """Fails when the block computes for ever."""

    def ring(_: int, frame: FrameType | None) -> None:
        raise AssertionError(f"computes for more than {_HANGS} s")

    before = signal.signal(signal.SIGVTALRM, ring)
    signal.setitimer(signal.ITIMER_VIRTUAL, _HANGS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def tree(folder: Path, *, without: Path) -> dict[str, str]:
    """Everything below a folder, but for what is below ``without``, with its contents."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path != without and without not in path.parents:
            content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
            found[str(path)] = f"{path.lstat().st_mode} {content}"
    return found
