"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import copy
import importlib
import pkgutil
import re
import subprocess
import sys

import orihon.compression
import orihon.guard
from orihon.system.patterns import _LazyPattern, lazy_re


def test_it_does_what_a_compiled_one_does() -> None:
    lazy, compiled = lazy_re(r"(?P<letter>[a-c])(\d)?", re.IGNORECASE), re.compile(r"(?P<letter>[a-c])(\d)?", re.I)
    text = "xA1-b-C33"
    assert lazy.pattern == compiled.pattern
    assert lazy.findall(text) == compiled.findall(text)
    assert [match.span() for match in lazy.finditer(text)] == [match.span() for match in compiled.finditer(text)]
    assert lazy.sub(r"<\g<letter>>", text) == compiled.sub(r"<\g<letter>>", text)
    assert (lazy.groups, dict(lazy.groupindex)) == (compiled.groups, dict(compiled.groupindex))
    assert copy.deepcopy(lazy).split(text) == compiled.split(text)


def test_every_one_can_be_compiled() -> None:
    found = 0
    for room in (orihon.compression, orihon.guard):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, _LazyPattern):
                    assert re.compile(value.pattern, value._flags).groups == value.groups
                    found += 1
    assert found > 200


def test_a_short_process_compiles_few() -> None:
    program = (
        "import re, sys\n"
        "from orihon import Base, Task\n"
        "import orihon.tasks.task, orihon.guard.masking.rules\n"
        "from orihon.system.patterns import _LazyPattern as Lazy\n"
        "known = [value for name in list(sys.modules) if name.startswith('orihon.')\n"
        "         for value in vars(sys.modules[name]).values() if isinstance(value, Lazy)]\n"
        "print(len(known), sum('search' in vars(value) for value in known))\n"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    known, compiled = map(int, said.split())
    assert known > 150
    assert compiled < known / 10
