"""Which formats there are, and which one a file is of.

A format is imported only when a file has to be looked at. Every importer looks at the same head of a file; the first in
this order that recognises it reads it, so that narrow formats stand before wide ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from orihon.errors import InvalidInput

if TYPE_CHECKING:
    from orihon.importers.base import Importer

#: Name of the format -> module in this room and its class, narrow formats first. ``openai-chat`` takes nearly any list
#: of messages, so it comes last.
FORMATS: dict[str, tuple[str, str]] = {
    "orihon": ("orihon_export", "OrihonExport"),
    "seed-tree": ("seed_tree", "SeedTree"),
    "claude-code": ("claude_code", "ClaudeCode"),
    "codex": ("codex", "Codex"),
    "gemini": ("gemini", "Gemini"),
    "copilot": ("copilot", "Copilot"),
    "cursor": ("cursor", "Cursor"),
    "kimi": ("kimi", "Kimi"),
    "pi": ("pi", "Pi"),
    "aider": ("aider", "Aider"),
    "swe-agent": ("swe_agent", "SweAgent"),
    "mini-swe-agent": ("mini_swe_agent", "MiniSweAgent"),
    "openhands": ("openhands", "OpenHands"),
    "tau-bench": ("tau_bench", "TauBench"),
    "openai-chat": ("openai_chat", "OpenAIChat"),
}


@cache
def importer(name: str) -> Importer:
    """The importer of a format by its name."""
    if name not in FORMATS:
        raise InvalidInput("import_format", name=name, known=", ".join(sorted(FORMATS)))
    module, kind = FORMATS[name]
    made: Importer = getattr(import_module(f"orihon.importers.{module}"), kind)()
    return made


def importers() -> Iterable[Importer]:
    """All of them, in the order in which a file is shown to them."""
    return map(importer, FORMATS)


def recognised(head: bytes, path: Path) -> Importer | None:
    """The importer of a file, by the beginning of it."""
    return next((one for one in importers() if one.recognises(head, path)), None)


def is_like_transcript(head: bytes, path: Path) -> bool:
    """Is a file that no importer knows likely to be a transcript, a damaged one or of a new kind? By its ending.

    Folders of agents are full of settings, notes and databases: those are whole, and only not ours.
    """
    from orihon.importers.peek import peek

    match path.suffix.lower():
        case ".jsonl" | ".traj":
            return True
        case ".json":
            seen = peek(head)
            return not (seen.found or seen.is_list)
        case ".db":
            return not head.startswith(b"SQLite format 3\0")
        case ".md":
            return b"\0" in head
    return False


def is_companion(path: Path) -> bool:
    """Is this a file that an agent keeps beside its transcripts, and that holds none?"""
    return any(one.ignores(path) for one in importers())
