"""``docs/python.md``: the names at the front door, from their signatures and docstrings.

What each does is said in English by its docstring, in Japanese by ``python.ja.toml`` beside this script; around the
tables stands what is written in ``python.en.md`` and ``python.ja.md``. A method without words for it is a fault.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orihon
from orihon.tasks.base import OpenBase

_HERE = Path(__file__).parent
_HEADS = {
    "en": ("| call | what it does |", "| name | what it is |"),
    "ja": ("| 呼び出し | 働き |", "| 名前 | 意味 |"),
}
_PLACE = re.compile(r"^<!-- (Base|Task|names|others) -->$", re.MULTILINE)
#: What a base has of the rooms behind the door that programs use, too.
_ALSO = {"Base": (OpenBase.resolve, OpenBase.close), "Task": ()}


def python_page(lang: str) -> str:
    """The template of a language with the tables set in."""
    template = (_HERE / f"python.{lang}.md").read_text(encoding="utf-8")
    return _PLACE.sub(lambda found: _set_in(found[1], lang), template)


def _set_in(what: str, lang: str) -> str:
    methods, names = _HEADS[lang]
    if what == "names":
        rows = [f"| `{name}` | {_said(getattr(orihon, name), name, lang)} |" for name in orihon.__all__]
        return "\n".join([names, "|---|---|", *rows])
    if what == "others":
        others = sorted(set(dir(orihon)) - set(orihon.__all__))
        return ", ".join(f"`{name}`" for name in others if hasattr(getattr(orihon, name), "__qualname__"))
    kind = getattr(orihon, what)
    rows = [f"| `{call}` | {_said(member, f'{what}.{name}', lang)} |" for name, call, member in _members(kind)]
    return "\n".join([methods, "|---|---|", *rows])


def _members(kind: type) -> Iterator[tuple[str, str, Any]]:
    """Name, call and function of what a class offers, in the order of its source."""
    also = {function.__name__: function for function in _ALSO[kind.__name__]}
    for name, member in {**vars(kind), **also}.items():
        if isinstance(member, property) and not name.startswith("_"):
            yield name, name, member
        elif inspect.isfunction(member) and not name.startswith("_"):
            yield name, f"{name}{_signature(member)}", member


def _signature(function: Any) -> str:
    """What is given, with defaults, and what comes back: types of arguments are left to the editor."""
    given = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in given.parameters.values() if one.name != "self"]
    returned = "" if given.return_annotation in ("None", given.empty) else f" → {given.return_annotation}"
    return f"{given.replace(parameters=plain, return_annotation=given.empty)}{returned}".replace("|", "\\|").replace(
        "Posix", ""
    )


def _said(member: Any, name: str, lang: str) -> str:
    words = inspect.getdoc(member) if lang == "en" else _japanese()[name]
    assert words, name
    return " ".join(words.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|")


@cache
def _japanese() -> dict[str, str]:
    given = tomllib.loads((_HERE / "python.ja.toml").read_text(encoding="utf-8"))
    return {f"{kind}.{name}" if kind else name: said for kind, rows in given.items() for name, said in rows.items()}
