"""``sections``: documents compressed by level, with the sections that will be needed kept word for word.

LIGHT leaves out what is redundant, STANDARD turns explorations into what they found and makes the rest brief,
AGGRESSIVE keeps decisions. A document's *facts* are its protected sections, word for word, and what its sentences say
was decided. Promises, for any text and level:

- every protected section is in the result word for word, with its subsections;
- the facts stay the same; LIGHT is made first, STANDARD from it, AGGRESSIVE from that, so none has facts or words
  that the one before it lacks;
- the result is never longer than the text, and never nothing where that is something;
- compressing a result again changes nothing;
- nothing is invented: but for labels, counts and pointers every word stands in the text.

How: a step is taken only if the text gets shorter and its facts stay the same, and steps are taken until none is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from orihon.compression.contract import CompressionResult
from orihon.compression.documents.findings import section_decisions
from orihon.compression.documents.levels import Manner, aggressive, light, standard
from orihon.compression.documents.markdown import MarkdownSection, line_end, parse
from orihon.guard.masking.patterns import TimedPatterns
from orihon.system.files import make_private_folder, replace_file, wrapping
from orihon.values.tokens.tokens import estimate

PRESERVED_PATTERNS: tuple[str, ...] = (
    r"^#+ [\W\d_]*(?:重要な|主な)?決定事項",
    r"^#+ [\W\d_]*最終決定",
    r"^#+ [\W\d_]*(?:Human|人間の?)?承認(?:済み|内容|事項)",
    r"^#+ [\W\d_]*エラー",
    r"^#+ [\W\d_]*依存関係",
    r"^#+ [\W\d_]*(?:重要な)?制約",
    r"(?i)^#+ [\W\d_]*(?:final |key )?decisions?\b",
    r"(?i)^#+ [\W\d_]*(?:human )?(?:approved|approvals?)\b",
    r"(?i)^#+ [\W\d_]*errors?\b",
    r"(?i)^#+ [\W\d_]*dependenc(?:y|ies)\b",
    r"(?i)^#+ [\W\d_]*(?:important )?constraints?\b",
)
"""Headings, written as ``## Title``, whose sections are protected; a number or sign before the title does no harm."""


class CompressionLevel(Enum):
    """How much is left out."""

    LIGHT = 1
    STANDARD = 2
    AGGRESSIVE = 3


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """What no level may lose or change."""

    protected: tuple[str, ...]
    decisions: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Document:
    text: str
    root: MarkdownSection
    facts: DocumentFacts


_Pass = Callable[[MarkdownSection, Manner], str]
_PASSES: tuple[_Pass, ...] = (light, standard, aggressive)


def document_facts(text: str, preserved_patterns: Sequence[str] = PRESERVED_PATTERNS) -> DocumentFacts:
    """The facts of a document."""
    return _read(text, _matcher(preserved_patterns)).facts


def compress_document(
    text: str,
    level: CompressionLevel,
    archive_path: Path | str | None = None,
    *,
    preserved_patterns: Sequence[str] = PRESERVED_PATTERNS,
    details: str = "",
) -> CompressionResult:
    """Compress a document; with ``archive_path`` the whole text is kept there first.

    The archive is a file, or a folder (it exists, ends in ``/`` or has no suffix) in which the file is named after
    its content. An archive that holds another text is never overwritten: the new one gets a name of its own beside
    it. ``details`` is where the whole text lies already.
    """
    archive = None if archive_path is None else _archive_file(archive_path, text)
    manner = Manner(archive=details if archive is None else archive.as_posix())
    reduction = _Reduction(text, preserved_patterns)
    preserved = tuple(section.title for section in reduction.document.root.protected_sections())
    for number in range(1, level.value + 1):
        reduction.reduce(_PASSES[:number], manner)
    compressed = reduction.document.text
    if archive is not None:
        _write_archive(archive, text)
    before, after = estimate(text), estimate(compressed)
    return CompressionResult(
        original_tokens=before,
        compressed_tokens=after,
        compression_ratio=after / before if before else 1.0,
        preserved_items=preserved,
        archived_path=archive,
        text=compressed,
    )


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    if not patterns:
        return lambda heading: False
    return TimedPatterns(patterns).search


def _read(text: str, is_protected: Callable[[str], bool]) -> _Document:
    root = parse(text, is_protected)
    protected = tuple(section.text for section in root.protected_sections())
    decisions = frozenset(decision for section in root.walk() for decision in section_decisions(section))
    return _Document(text, root, DocumentFacts(protected, decisions))


class _Reduction:
    """A document that gets shorter, step by step, without its facts being touched."""

    def __init__(self, text: str, preserved_patterns: Sequence[str]) -> None:
        self._is_protected = _matcher(preserved_patterns)
        self.document = _read(text, self._is_protected)
        self._in_vain: set[_Pass] = set()  # what does not make the present document any shorter

    def reduce(self, passes: Sequence[_Pass], manner: Manner) -> None:
        """Apply the passes until none of them does anything more."""
        while waiting := [rewrite for rewrite in passes if rewrite not in self._in_vain]:
            for rewrite in waiting:
                self._apply(rewrite, manner)

    def _apply(self, rewrite: _Pass, manner: Manner) -> None:
        text = rewrite(self.document.root, replace(manner, line_end=line_end(self.document.text)))
        if len(text) < len(self.document.text) and self._is_left(text):
            rewritten = _read(text, self._is_protected)
            if rewritten.facts == self.document.facts:
                self.document = rewritten
                self._in_vain.clear()
                return
        self._in_vain.add(rewrite)

    def _is_left(self, text: str) -> bool:
        """Is there something where there was something, and a word where there were words?"""
        return text != "" and (not text.isspace() or self.document.text.isspace())


def _archive_file(archive_path: Path | str, text: str) -> Path:
    path = Path(archive_path)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    if str(archive_path).endswith("/") or path.is_dir() or not path.suffix:
        return path / f"context-{digest}.md"
    if path.exists() and not _holds(path, text):
        return path.with_name(f"{path.stem}-{digest}{path.suffix}")
    return path


def _holds(path: Path, text: str) -> bool:
    with wrapping(path):
        return path.read_bytes() == text.encode("utf-8", "surrogatepass")


def _write_archive(path: Path, text: str) -> None:
    make_private_folder(path.parent)
    replace_file(path, [text.encode("utf-8", "surrogatepass")])
