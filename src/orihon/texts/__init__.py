"""Everything Orihon says to people, in English and Japanese.

Owns the files in ``en`` and ``ja``, one for each room, and the choice between the languages: ``set_language`` (the
setting), then ``ORIHON_LANGUAGE`` or ``ORIHON_LANG``, then ``LANG``; English when none of them says Japanese.
``speaking`` chooses for one block, such as the answer to one reader of a page. A text is found by a dotted key and
filled with named fields; the reason of an error, a finding or a refusal is written as ``reason = ["cause",
"remedy"]``. A missing key is a programming error and raises ``KeyError``; a test compares both languages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

LANGUAGES = ("en", "ja")
#: The files of a language and how the keys of their texts begin. Large rooms have several files, so that a quick
#: command reads little; an error belongs to the room of its class.
_FILES = {
    "adapters": ("adapters",),
    "audit": ("audit",),
    "classic": ("memory", "old_tools"),
    "cli": ("cli",),
    "cli_queue": (
        *("cli.enqueue", "cli.worker", "cli.workers", "cli.pause", "cli.resume", "cli.cancel", "cli.retry"),
        *("cli.approvals", "cli.answer", "cli.approve", "cli.reject", "cli.revise", "cli.notifications"),
    ),
    "cli_tasks": (
        *("cli.list", "cli.show", "cli.view", "cli.diff", "cli.chain", "cli.search", "cli.export", "cli.handoff"),
        *(
            "cli.import",
            "cli.change",
            "cli.compress",
            "cli.undo",
            "cli.redo",
            "cli.rewind",
            "cli.fork",
            "cli.unfold",
            "cli.edit",
        ),
        *("cli.pin", "cli.unpin"),
    ),
    "cli_upkeep": (
        *("cli.restore", "cli.archive", "cli.unarchive", "cli.keep", "cli.cleanup", "cli.vacuum", "cli.maintain"),
        *("cli.tools", "cli.verify", "cli.scan", "cli.doctor", "cli.backup", "cli.migrate", "cli.keys", "cli.audit"),
        *("cli.stats", "cli.monitor", "cli.costs", "cli.metrics", "cli.serve", "cli.privacy", "cli.grants"),
        *("cli.squeeze", "cli.completion", "cli.demo", "cli.torture", "cli.config", "cli.init", "cli.trust"),
        "cli.mcp",
    ),
    "compression": (
        *("compression", "folds", "nothing", "notes", "offload", "optimizer", "prompts", "sections"),
        *("errors.BudgetExceeded", "errors.IllegalFold", "errors.NothingToUndo"),
    ),
    "demo": ("demo",),
    "docs": ("docs",),
    "importers": ("importing",),
    "input": (
        *("errors.InvalidInput", "errors.InvalidId", "errors.InvalidMessage", "errors.NoSuchMessage"),
        "errors.ToolCallError",
    ),
    "llm": (
        *("errors.Unreachable", "errors.TimedOut", "errors.Refused", "errors.Overflow", "errors.CutOff"),
        *("errors.NotJSON", "errors.EmptyAnswer", "errors.Cancelled", "requests"),
    ),
    "mcp": ("mcp",),
    "meanings": ("settings.meanings",),  # in English the settings themselves have them
    "notifications": ("notifications",),
    "proxy": ("proxy", "cli.proxy", "cli.wrap"),
    "reports": ("monitor",),
    "runtime": (
        *("agent", "queue", "sources", "tools"),
        *("errors.GaveUp", "errors.SourceError", "errors.ToolFailed", "errors.ToolServerError"),
    ),
    "settings": ("settings", "errors.InvalidSettings"),
    "store": (
        *("errors.DamagedStore", "errors.KeyUnavailable", "errors.NewerSchema", "errors.StaleWriter"),
        "errors.StorageUnavailable",
    ),
    "tasks": (
        *("approvals", "findings", "inheritance", "kept_note"),
        *("errors.IllegalTransition", "errors.NotWaiting", "errors.QuotaExceeded", "errors.StateError"),
        *("errors.TaskBusy", "errors.TaskNotFound", "errors.Waiting"),
    ),
    "transfer": ("archive", "export"),
    "web": ("web",),
    "web_api": ("web.api", "web.api_page", "web.fields", "web.refused"),
    "web_task": ("web.actions", "web.approvals", "web.compare", "web.names", "web.task", "web.view"),
}
_FILE_OF = {beginning: file for file, beginnings in _FILES.items() for beginning in beginnings}
#: The two texts of a reason, in the order in which they are written.
_OF_A_REASON = {"cause": 0, "remedy": 1}

_chosen: str | None = None
_preferred: str | None = None
_spoken: ContextVar[str | None] = ContextVar("orihon_language", default=None)


def set_language(language: str | None) -> None:
    """Fix the language for this process (``None``: back to the settings and the environment)."""
    global _chosen, _preferred
    if language is not None and language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, not {language!r}")
    _chosen, _preferred = language, None if language is None else _preferred


def prefer_language(language: str) -> None:
    """The settings of a base want this language; a program or a person on the command line may have chosen another."""
    global _preferred
    _preferred = language


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Fix the language inside this block, for this thread or asynchronous task alone."""
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, not {language!r}")
    before = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(before)


def language() -> str:
    """The language in force."""
    chosen = _spoken.get() or _chosen or _preferred
    if chosen is not None:
        return chosen
    wanted = next(filter(None, map(os.environ.get, ("ORIHON_LANGUAGE", "ORIHON_LANG", "LANG"))), "")
    return "ja" if wanted.lower().startswith("ja") else "en"


def text(key: str, /, *, lang: str | None = None, **fields: object) -> str:
    """The text under ``key``, with ``{field}`` places filled in; ``{{`` stands for a brace."""
    parts = key.split(".")
    node: Any = _file(lang or language(), _FILE_OF.get(".".join(parts[:2])) or _FILE_OF[parts[0]])
    for part in parts:
        node = node[_OF_A_REASON[part]] if isinstance(node, list) else node[part]
    if not isinstance(node, str):
        raise KeyError(key)
    return node.format_map(fields)


@cache
def _file(lang: str, name: str) -> dict[str, Any]:
    """The texts of one room: to read all of them takes a tenth of a quick command."""
    import tomllib  # only when something has to be said
    from importlib.resources import files

    return tomllib.loads(files(__package__).joinpath(lang, f"{name}.toml").read_text(encoding="utf-8"))
