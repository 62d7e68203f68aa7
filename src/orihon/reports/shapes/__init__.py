"""What ``--json`` prints, as JSON Schema: for each command its forms, by the options that lead to them.

Owns the promise to programs: fields are added, never renamed or taken away, within a major version. ``docs/json.md`` is
made from here, and ``tests/acceptance/test_every_command.py`` compares the real output of every command.
"""

from __future__ import annotations

from orihon.reports.shapes.commands import SCHEMAS
from orihon.reports.shapes.shapes import DEFINITIONS, Schema

__all__ = ["LINES", "SCHEMAS", "definitions", "document", "schema_of"]

#: Forms that print one JSON object on each line, for as long as there is something to tell.
LINES = (("show", "--follow"), ("notifications", "--follow"), ("monitor", "--every"))


def definitions() -> dict[str, Schema]:
    """The shapes that several commands share."""
    return DEFINITIONS


def schema_of(command: str, form: str = "") -> Schema:
    """The schema of one form, whole."""
    return {**SCHEMAS[command][form], "$defs": DEFINITIONS}


def document() -> Schema:
    """All of them in one document, for programs."""
    forms = {
        f"{command} {form}".strip(): schema for command, found in SCHEMAS.items() for form, schema in found.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "orihon --json",
        "$defs": {**DEFINITIONS, **forms},
    }
