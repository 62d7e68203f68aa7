"""Makes the pages that follow from the program: ``make docs``.

- ``docs/commands.md`` and ``docs/ja/commands.md``: the help page of every command
- ``docs/json.md``, ``docs/ja/json.md``, ``docs/schema.json``: what ``--json`` prints, from ``scripts.json_forms``
- ``docs/api.md``, ``docs/ja/api.md``, ``docs/openapi.json``: the JSON API, from ``orihon.web.routes``
- ``docs/settings.md`` and ``docs/ja/settings.md``: every setting, from ``orihon.settings``, and what is said around
  the tables, from ``settings.en.md`` and ``settings.ja.md`` beside this script
- ``docs/python.md`` and ``docs/ja/python.md``: the names for programs, from ``python_reference.py``
- ``docs/architecture.md`` and ``docs/ja/architecture.md``: the rooms, the files and the walks, from ``architecture.py``
- in ``docs/compression.md`` and ``docs/ja/compression.md`` the notes below each ``orihon squeeze docs/samples/…``

``tests/acceptance/test_generated_docs.py`` compares what is there with what would be made.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from scripts.architecture import architecture_page
from scripts.python_reference import python_page

ROOT = Path(__file__).parents[1]
_LANGUAGES = {"en": ROOT / "docs", "ja": ROOT / "docs" / "ja"}
_WIDTH = "100"
#: A line of a template in whose place a table is set: of the settings of one section, or of all other spellings.
_TABLE = re.compile(r"^<!-- (?:settings: (?P<section>[a-z_.]+)|spellings|(?P<reach>reach)) -->$", re.MULTILINE)
#: A command on the page about compression, and the block below it, which has the notes that it makes.
_NOTES = re.compile(
    r"(?P<above>`orihon squeeze (?P<sample>docs/samples/\S+) --tokens (?P<tokens>\d+)`[^\n]*\n\n```text\n).*?(?=^```$)",
    re.DOTALL | re.MULTILINE,
)
#: Kinds of setting whose name says nothing beyond what is allowed.
_UNNAMED_KINDS = frozenset({"choice", "flag", "identifier", "url"})


def pages() -> dict[Path, str]:
    """Every generated file with what it has to say."""
    made = {folder / name: page for lang, folder in _LANGUAGES.items() for name, page in _apart(lang).items()}
    made |= {_LANGUAGES[lang] / "architecture.md": page for lang, page in _apart("house").items()}
    made |= {path: _with_notes(path) for path in (folder / "compression.md" for folder in _LANGUAGES.values())}
    made[ROOT / "docs" / "schema.json"] = _schema_document()
    made[ROOT / "docs" / "openapi.json"] = _openapi_document()
    return made


def _apart(what: str) -> dict[str, str]:
    """Made in a process of its own: commands are worded when they are imported, and walks change their process."""
    command = [sys.executable, "-m", "scripts.docs", what]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, env=_plain_environment())
    made: dict[str, str] = json.loads(printed.stdout)
    return made


def pages_in(lang: str) -> dict[str, str]:
    """The pages of one language, by name."""
    from orihon.texts import set_language

    set_language(lang)
    made = {"commands.md": commands_page(lang), "json.md": json_page(), "api.md": api_page()}
    return made | {"settings.md": settings_page(lang), "python.md": python_page(lang)}


def _schema_document() -> str:
    from scripts.json_forms import document

    return json.dumps(document(), ensure_ascii=False, indent=1) + "\n"


def _openapi_document() -> str:
    from orihon.texts import speaking
    from orihon.web.openapi import document
    from orihon.web.routes import ENDPOINTS

    with speaking("en"):
        return json.dumps(document(ENDPOINTS), ensure_ascii=False, indent=1) + "\n"


def _plain_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORIHON_", "FORCE_COLOR"))}
    return {**kept, "COLUMNS": _WIDTH, "TERMINAL_WIDTH": _WIDTH, "NO_COLOR": "1", "TERM": "dumb"}


# ---- notes ---------------------------------------------------------------------------------------------------------


def _with_notes(path: Path) -> str:
    """The page with the notes that its commands make now."""
    page = path.read_text(encoding="utf-8")
    return _NOTES.sub(lambda found: found["above"] + notes_of(found["sample"], found["tokens"]) + "\n", page)


@cache
def notes_of(sample: str, tokens: str) -> str:
    """The fold in what ``orihon squeeze`` prints, in the language of the transcript."""
    from orihon.values.records import SUMMARY_PREFIX

    command = [str(Path(sys.executable).with_name("orihon")), "--lang", "en", "squeeze", sample, "--tokens", tokens]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, env=_plain_environment())
    contents = (json.loads(line)["content"] for line in printed.stdout.splitlines())
    (notes,) = (content for content in contents if content and content.startswith(SUMMARY_PREFIX))
    assert "```" not in notes, sample
    return str(notes)


# ---- settings ------------------------------------------------------------------------------------------------------


def settings_page(lang: str) -> str:
    """The template of a language with a table for each section; a section that it leaves out is a fault."""
    from orihon.settings import schema

    template = (Path(__file__).parent / f"settings.{lang}.md").read_text(encoding="utf-8")
    placed = [key for found in _TABLE.finditer(template) for key in _keys_in(found["section"])]
    assert sorted(placed) == sorted(schema()), set(placed) ^ set(schema())
    return _TABLE.sub(lambda found: _reach_table() if found["reach"] else _settings_table(found["section"]), template)


def _keys_in(section: str | None) -> list[str]:
    """The settings right below a section; a setting that is in none is a section by itself."""
    from orihon.settings import schema

    return [key for key in schema() if section == (key.rpartition(".")[0] or key)]


def _settings_table(section: str | None) -> str:
    from orihon.settings import schema

    if section is None:
        spellings = [f"| `{name}` | `{row.key}` |" for row in schema().values() for name in row.spellings]
        return "\n".join([*_table_head("spelling", "key"), *spellings])
    head = _table_head("key", "default", "allowed", "environment", "meaning")
    return "\n".join([*head, *(_setting_described(schema()[key]) for key in _keys_in(section))])


def _reach_table() -> str:
    """What a file that is merely found may not set, with the reason."""
    from orihon.settings import schema
    from orihon.settings.kinds import Reach
    from orihon.texts import text

    rows = []
    for reach in list(Reach)[1:]:
        keys = ", ".join(f"`{row.key}`" for row in schema().values() if row.reach is reach)
        rows.append(f"| {text(f'docs.settings.reach.{reach.value}')} | {keys} |")
    return "\n".join([*_table_head("why", "key"), *rows])


def _table_head(*columns: str) -> list[str]:
    from orihon.texts import text

    titles = " | ".join(text(f"docs.settings.columns.{name}") for name in columns)
    return [f"| {titles} |", "|" + "---|" * len(columns)]


def _setting_described(row: Any) -> str:
    from orihon.settings.in_force import meaning_of
    from orihon.texts import text

    named = "" if row.kind.name in _UNNAMED_KINDS else text(f"docs.settings.kinds.{row.kind.name}")
    variables = "<br>".join(f"`{name}`" for name in row.env)
    cells = (f"`{row.key}`", _default(row.default), named + row.kind.allowed, variables, _cell(meaning_of(row.key)))
    return f"| {' | '.join(cells)} |"


def _default(value: object) -> str:
    if value is None:
        return "—"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | Mapping):
        return "`[]`" if isinstance(value, tuple) else "`{}`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


# ---- help pages ----------------------------------------------------------------------------------------------------


def commands_page(lang: str) -> str:
    """The help page of the program and of each command, as it is printed."""
    from orihon.texts import text

    parts = [f"# {text('docs.commands.title')}\n", f"{text('docs.commands.head')}\n", _fenced(help_of(lang))]
    for name in command_names():
        parts.append(f"\n## `orihon {name}`\n\n{_fenced(help_of(lang, *name.split()))}")
    return "\n".join(parts)


def help_of(lang: str, *command: str) -> str:
    """One help page without colours, a hundred columns wide."""
    from orihon.cli.main import main

    printed = io.StringIO()
    with redirect_stdout(printed):
        code = main(["--lang", lang, *command, "--help"])
    assert code == 0, command
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())


def command_names() -> list[str]:
    """Every command as it is typed, those of groups with the group's name before them."""
    return list(_names_in(_application(), ""))


def _application() -> Any:
    import typer

    from orihon.cli.main import build

    return typer.main.get_command(build())


def _names_in(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _names_in(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"


def _fenced(page: str) -> str:
    return f"```text\n{page}\n```"


# ---- JSON ----------------------------------------------------------------------------------------------------------


def json_page() -> str:
    """What ``--json`` prints: for each command its variants, with fields, types and meanings."""
    from orihon.texts import text
    from scripts.json_forms import DEFINITIONS, SCHEMAS

    parts = [f"# {text('docs.json.title')}\n", text("docs.json.head")]
    for command, variants in SCHEMAS.items():
        parts.append(f"\n## `orihon {command}`")
        for options, schema in variants.items():
            title = f"`orihon {command} {options} --json`".replace("  ", " ")
            parts.append(f"\n{title}\n" if options else "")
            parts.append(_described(schema))
    parts.append(f"\n## {text('docs.json.shared')}")
    for name, schema in DEFINITIONS.items():
        parts.append(f"\n### `{name}`\n")
        parts.append(_described(schema))
    return "\n".join(parts).rstrip() + "\n"


def _described(schema: Mapping[str, Any]) -> str:
    """A table of fields; what is no object is said in a line."""
    from orihon.texts import text

    if "properties" not in schema:
        return text("docs.json.whole", type=_type(schema)) + "\n"
    titles = [text(f"docs.json.columns.{name}") for name in ("field", "type")]
    rows = [f"| {titles[0]} | {titles[1]} |", "|---|---|"]
    rows += [f"| `{name}` | {_type(field)} |" for name, field in _fields(schema, "")]
    return "\n".join(rows) + "\n"


def _fields(schema: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        mark = "" if name in required else "?"
        yield f"{prefix}{name}{mark}", field
        for one in field.get("anyOf", [field]):
            inner = one.get("items", one)
            if "properties" in inner:
                yield from _fields(inner, f"{prefix}{name}{'[]' if 'items' in one else ''}.")


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "anyOf" in field:
        return " / ".join(_type(one) for one in field["anyOf"])
    kinds = field.get("type", "any")
    listed = [kinds] if isinstance(kinds, str) else list(kinds)
    said = " / ".join(_list_type(field) if kind == "array" else kind for kind in listed)
    if "additionalProperties" in field and isinstance(field["additionalProperties"], Mapping):
        said += f" of {_type(field['additionalProperties'])}"
    return said


def _list_type(field: Mapping[str, Any]) -> str:
    items = field.get("items")
    return "array" if not items or "properties" in items else f"array of {_type(items)}"


# ---- the API -------------------------------------------------------------------------------------------------------


def api_page() -> str:
    """Every endpoint of the JSON API with its fields, and how it is called."""
    from orihon.texts import text
    from orihon.web.openapi import examples, group_of
    from orihon.web.routes import ENDPOINTS

    called = examples(ENDPOINTS)
    parts = [f"# {text('web.api_page.title')}\n", text("docs.api.head"), text("web.api_page.about") + "\n"]
    parts += [text("web.api_page.bearer") + "\n", text("web.api_page.pages")]
    groups: dict[str, list[Any]] = {}
    for endpoint in sorted(ENDPOINTS, key=lambda one: one.path):
        groups.setdefault(group_of(endpoint), []).append(endpoint)
    for group, endpoints in groups.items():
        parts.append(f"\n## {text('web.api_page.groups.' + group.removesuffix('.json'))}")
        parts += [_endpoint_described(one, called[one.name]) for one in endpoints]
    return "\n".join(parts).rstrip() + "\n"


def _endpoint_described(endpoint: Any, example: str) -> str:
    from orihon.texts import text
    from orihon.web.openapi import about, places, summary_of

    lines = [f"\n### `{endpoint.method} {endpoint.path}`\n", summary_of(endpoint)]
    lines.append(text("web.api_page.role", role=f"`{endpoint.role}`") + "\n")
    fields = (("path", places(endpoint)), ("query", endpoint.query), ("body", endpoint.body))
    rows = [
        f"| `{one.name}` | {text(f'web.api_page.in.{where}')} | {_field_kind(one, where)} | {_cell(about(one))} |"
        for where, some in fields
        for one in some
    ]
    if rows:
        names = (text(f"web.api_page.{name}") for name in ("field", "where", "kind", "meaning"))
        lines += [f"| {' | '.join(names)} |", "|---|---|---|---|", *rows, ""]
    return "\n".join([*lines, f"```sh\n{example}\n```"])


def _field_kind(field: Any, where: str) -> str:
    from orihon.texts import text

    said = ", ".join(f"`{choice}`" for choice in field.choices) or text(f"web.api_page.kinds.{field.kind}")
    if field.required or where == "path":
        return f"{said}, {text('web.api_page.required')}"
    return said if field.default in (None, "") else f"{said} (`{field.default}`)"


def _cell(said: str) -> str:
    return said.replace("|", "\\|")


def write() -> int:
    """Write what is not as it should be; the number of files."""
    changed = 0
    for path, page in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != page:
            path.write_text(page, encoding="utf-8")
            changed += 1
    return changed


if __name__ == "__main__":
    if sys.argv[1:] == ["house"]:
        sys.stdout.write(json.dumps({lang: architecture_page(lang) for lang in _LANGUAGES}))
    elif sys.argv[1:]:
        sys.stdout.write(json.dumps(pages_in(sys.argv[1])))
    else:
        sys.stdout.write(f"{write()} files written\n")
