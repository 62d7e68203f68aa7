"""The settings as people look at them: each with its value, where that came from, and what it means; and as a file.

Secrets are masked before they leave this module. What a setting means is said in English where the setting is declared,
in other languages in ``orihon/texts``; the reference is made from both (``make docs``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orihon.settings.model import Settings, leaf, schema
from orihon.texts import language, text

_WIDTH = 116


@dataclass(frozen=True, slots=True)
class SettingInForce:
    """One setting; ``origin`` is ``flag``, ``environment NAME``, the path of a file, or ``default``."""

    key: str
    value: Any  # plain JSON; a secret is masked
    origin: str
    default: Any
    meaning: str


def settings_in_force(settings: Settings) -> list[SettingInForce]:
    """Every setting, in the order of the reference."""
    values, defaults = settings.as_dict(), Settings().as_dict()
    return [
        SettingInForce(key, leaf(values, key), settings.origin(key), leaf(defaults, key), meaning_of(key))
        for key in schema()
    ]


def settings_as_dict(settings: Settings, file: Path | None, *, changed: bool = False) -> dict[str, Any]:
    """Every setting with the configuration file that was read, for JSON; or those alone that are not the default."""
    found = [asdict(one) for one in settings_in_force(settings) if not changed or one.origin != "default"]
    return {"file": None if file is None else str(file), "settings": found}


def meaning_of(key: str) -> str:
    """What a setting is for, in the reader's language."""
    return schema()[key].doc if language() == "en" else text(f"settings.meanings.{key}")


def config_template(base_dir: Path) -> str:
    """A configuration file with every setting and its default, all but the base folder commented out."""
    head = [f"# {line}" for line in text("settings.head").splitlines()]
    return "\n".join([*head, *_template_lines(Settings().as_dict(), "", str(base_dir))]) + "\n"


def _template_lines(node: dict[str, Any], prefix: str, base_dir: str) -> Iterator[str]:
    from orihon.system import jsonio

    indent = "  " * prefix.count(".")
    for name, value in node.items():
        key = f"{prefix}{name}"
        if key not in schema():
            yield from ["", f"{indent}{name}:"]
            yield from _template_lines(value, f"{key}.", base_dir)
            continue
        if not prefix:
            yield ""
        yield from (f"{indent}# {line}" for line in _wrapped(meaning_of(key), _WIDTH - len(indent)))
        if key == "context_storage.base_dir":
            yield f"{indent}{name}: {jsonio.encode(base_dir).decode()}"
        else:
            yield f"{indent}# {name}: {jsonio.encode(value).decode()}"


def _wrapped(said: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(said, width, break_long_words=False, break_on_hyphens=False) or [""]
