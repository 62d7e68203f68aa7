"""What is wrong with a command line, in the reader's language.

Typer says it in English only. The frequent mistakes have texts of our own; a rare one keeps Typer's words.
"""

from __future__ import annotations

import re

import typer

from orihon.texts import text

#: What Typer says of a value or an option, and which of our texts says the same.
_SAID = {
    "not_one_of": re.compile(r"(?P<value>.+) is not one of (?P<known>.+?)\.?", re.DOTALL),
    "out_of_range": re.compile(r"(?P<value>.+) is not in the range (?P<range>[^ ]+?)\.?", re.DOTALL),
    "no_number": re.compile(r"(?P<value>.+) is not a valid (?:int|integer|float)(?: range)?\.?", re.DOTALL),
    "needs_value": re.compile(r"Option '?(?P<name>[^ ']+)'? requires an argument\.?"),
    "takes_no_value": re.compile(r"Option '?(?P<name>[^ ']+)'? does not take a value\.?"),
    "too_many": re.compile(r"Got unexpected extra arguments?(?:\(s\))? \((?P<value>.*)\)", re.DOTALL),
}
_MOST_QUOTED = 200


def usage_text(error: typer.TyperException) -> str:
    """One line with what is wrong and where to look."""
    kind, parameter = type(error).__name__, getattr(error, "param", None)
    if kind == "NoSuchOption":
        return text("cli.usage.no_option", name=getattr(error, "option_name", "?"))
    is_argument = parameter is not None and parameter.param_type_name == "argument"
    names = ["-"] if parameter is None else [parameter.metavar or parameter.name] if is_argument else parameter.opts
    if kind == "MissingParameter" and parameter is not None:
        return text("cli.usage.missing", name=names[0])
    name = " / ".join(f"'{one}'" for one in names)
    for key, pattern in _SAID.items():
        found = pattern.fullmatch(error.message)
        if found is not None:
            fields = {field: value[:_MOST_QUOTED] for field, value in found.groupdict().items()}
            return text(f"cli.usage.{key}", **{"name": name, **fields})
    return text("cli.usage.other", detail=error.format_message())
