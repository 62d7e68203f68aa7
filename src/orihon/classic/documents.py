"""Documents by the names of the first designs: levels, compression when a window gets full, thresholds, fewer tokens.

``TokenOptimizer`` never changes what code does: where a language cannot be read for certain, the block stays as it is.
Long names are shortened only where nobody else can know them: variables of Python functions. The optimizer remembers
which they were: what a model writes with them is put right by ``restore_names``.
"""

from __future__ import annotations

import ast
import io
import logging
import re
import symtable
import tokenize
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Protocol

from orihon.compression.compressor import ContextCompressor
from orihon.compression.contract import CompressionResult
from orihon.compression.documents.markdown import MarkdownBlock, MarkdownSection, parse
from orihon.compression.documents.sections import CompressionLevel, compress_document
from orihon.compression.ladder import COMPLEXITY_THRESHOLDS
from orihon.errors import InvalidInput
from orihon.texts import text
from orihon.values.task import check_id
from orihon.values.tokens.tokens import estimate

logger = logging.getLogger("orihon.compression")

_USUAL_THRESHOLD = 0.7
_PYTHON = ("python", "py", "python3")
_HASH_COMMENTS = ("sh", "bash", "shell", "zsh", "yaml", "yml", "toml", "dockerfile", "makefile", "make", "ini", "conf")
_DASH_COMMENTS = ("sql",)
_SLASH_COMMENTS = (
    *("c", "h", "cpp", "c++", "cc", "hpp", "csharp", "cs", "java", "kotlin", "kt", "swift", "go", "rust", "rs"),
    *("javascript", "js", "jsx", "typescript", "ts", "tsx", "scala", "dart"),
)
_LINE_COMMENTS = {
    **dict.fromkeys(_HASH_COMMENTS, "#"),
    **dict.fromkeys(_DASH_COMMENTS, "--"),
    **dict.fromkeys(_SLASH_COMMENTS, "//"),
}
# Where one of these stands, a line that looks like a comment may be part of a text.
_LONG_STRINGS = re.compile(r"<<|`|'''|\"\"\"|R\"|r#*\"|\$\$|[|>][+-]?\d?[ \t]*$|\\$|/\*", re.M)
_QUOTES = ("'", '"')
# Comments that mean something to a machine.
_DIRECTIVE = re.compile(
    r"#!|#.*coding[:=]|#\s*(?:type:|noqa|pragma|pylint|mypy|ruff|fmt:|isort|syntax=|escape=)"
    r"|//\s*(?:@ts-|eslint|go:|\+build|#|prettier|nolint|region|endregion|swift-tools)|///"
)
_SHORT = re.compile(r"\b_v[0-9]+\b")
_LONG_NAME = 6  # characters
# With one of these a program can ask for a variable by its name.
_LOOKING_AT_NAMES = frozenset(("eval", "exec", "globals", "locals", "vars", "dir"))
_LANGUAGE = re.compile(r"[^`~]*[`~]{3,}[ \t]*\{?\.?([\w+#-]*)")


class TokenOptimizer:
    """Rewrites texts so that they cost less; remembers where the last full text stands."""

    def __init__(self, last_full_content_id: int | None = None) -> None:
        self.last_full_content_id = last_full_content_id
        #: What was shortened: the long name by the short one.
        self.names: dict[str, str] = {}

    def compress_code_blocks(self, content: str, *, shorten_names: bool = True) -> str:
        """The text with its fenced code freed of comments and blank lines; everything else as it is.

        Variables of Python functions get short names, unless told otherwise; ``names`` says which.
        """
        shorter = _ShortNames(self.names, content) if shorten_names else None
        return "".join(_section_pieces(parse(content), shorter))

    def restore_names(self, content: str) -> str:
        """The text with the long names in the place of the short ones."""
        return _SHORT.sub(lambda found: self.names.get(found[0], found[0]), content)

    def use_reference_instead_of_full_content(
        self, content: str, max_length: int = 1000, *, message_id: int | None = None
    ) -> str:
        """A text of more than ``max_length`` characters as its beginning, its end and where the whole of it stands.

        ``message_id`` is the message that holds the text (else the last one given); the result is no longer than
        ``max_length``, unless that has no room even for the reference.
        """
        if message_id is not None:
            self.last_full_content_id = message_id
        if len(content) <= max_length:
            return content
        where = "?" if self.last_full_content_id is None else self.last_full_content_id
        reference = text("optimizer.reference", count=len(content), id=where)
        room = max_length - len(reference) - 2
        if room < 2:
            return reference
        tail = room // 3
        return f"{content[: room - tail]}\n{reference}\n{content[len(content) - tail :]}"


class _ShortNames:
    """Gives short names to variables that only their function knows; a name that the text has already is not given."""

    def __init__(self, names: dict[str, str], content: str) -> None:
        self._names = names
        self._taken = set(_SHORT.findall(content))

    def shortened(self, code: str) -> str:
        """The code with short names, proved by its syntax tree; as it was when that cannot be done."""
        wanted = {name: self._short(name) for name in sorted(_own_variables(code))}
        if not wanted:
            return code
        lines = code.splitlines(keepends=True)
        for token in reversed(list(tokenize.generate_tokens(io.StringIO(code).readline))):
            if token.type == tokenize.NAME and token.string in wanted:
                row, column = token.start
                line = lines[row - 1]
                lines[row - 1] = line[:column] + wanted[token.string] + line[column + len(token.string) :]
        shorter = "".join(lines)
        back = {short: name for name, short in wanted.items()}
        tree = ast.parse(shorter)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = back.get(node.id, node.id)
        return shorter if ast.dump(tree) == ast.dump(ast.parse(code)) else code

    def _short(self, name: str) -> str:
        known = next((short for short, long in self._names.items() if long == name), None)
        if known is not None and known not in self._taken:
            return known
        found = next(one for one in map("_v{}".format, count(1)) if one not in self._taken and one not in self._names)
        self._names[found] = name
        return found


def _own_variables(code: str) -> set[str]:
    """Long names of variables that are used inside of functions alone, as variables and as nothing else."""
    tree = ast.parse(code)
    seen = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    if seen & _LOOKING_AT_NAMES:
        return set()
    others = set(_other_names(tree))
    found = {name for name in seen - others if len(name) >= _LONG_NAME}
    scopes = [symtable.symtable(code, "code", "exec")]
    while scopes and found:
        scope = scopes.pop()
        scopes += scope.get_children()
        for symbol in scope.get_symbols():
            is_own = symbol.is_local() and scope.get_type() == "function" and not symbol.is_parameter()
            if not (is_own or symbol.is_free()):
                found.discard(symbol.get_name())
    return found


def _other_names(tree: ast.Module) -> Iterator[str]:
    """Names that stand for something besides a variable: arguments, attributes, whatever is kept as a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):  # its names have no places of their own
            yield from (one.id for one in ast.walk(node) if isinstance(one, ast.Name))
        elif not isinstance(node, ast.Name | ast.Constant):
            for _, value in ast.iter_fields(node):
                yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))


def _section_pieces(root: MarkdownSection, shorter: _ShortNames | None) -> list[str]:
    pieces: list[str] = []
    for section in root.walk():
        pieces += section.heading
        pieces += (_compressed(block, shorter) if block.kind == "fence" else block.text for block in section.blocks)
    return pieces


def _compressed(block: MarkdownBlock, shorter: _ShortNames | None) -> str:
    opening, *body, closing = block.lines
    language = _language(opening)
    code = "".join(body)
    if language in _PYTHON:
        smaller = _smaller_python(code, shorter)
    elif language in _LINE_COMMENTS:
        smaller = _without_comment_lines(code, _LINE_COMMENTS[language])
    else:
        return block.text
    return opening + smaller + closing


def _language(opening: str) -> str:
    found = _LANGUAGE.match(opening)
    return found[1].lower() if found else ""


def _smaller_python(code: str, shorter: _ShortNames | None) -> str:
    """Python without comments and blank lines, proved by its syntax tree; as it was when it cannot be read."""
    try:
        before = ast.dump(ast.parse(code))
        comments, blank = _removable(code)
        smaller = _without(code, comments, blank)
        kept = smaller if ast.dump(ast.parse(smaller)) == before else code
        return kept if shorter is None else shorter.shortened(kept)
    # SystemError: Python 3.11 does not bear two threads that read syntax trees, and a traceback in a log reads one.
    except (SyntaxError, ValueError, RecursionError, SystemError, tokenize.TokenError):
        return code


def _removable(code: str) -> tuple[dict[int, int], set[int]]:
    """Columns where comments begin, by line, and the lines with nothing on them; never those inside a string."""
    comments: dict[int, int] = {}
    blank: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        row, column = token.start
        if token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string):
            comments[row] = column
        elif token.type == tokenize.NL and not token.line.strip():
            blank.add(row)
    return comments, blank


def _without(code: str, comments: dict[int, int], blank: set[int]) -> str:
    kept = []
    for row, line in enumerate(io.StringIO(code), 1):
        if row in blank:
            continue
        if row in comments:
            bare = line[: comments[row]].rstrip()
            if not bare:
                continue
            line = bare + "\n"
        kept.append(line)
    return "".join(kept)


def _without_comment_lines(code: str, mark: str) -> str:
    """Code without blank lines and whole-line comments; as it was when a text may run over several lines."""
    if _LONG_STRINGS.search(code) or any(line.count(quote) % 2 for line in code.splitlines() for quote in _QUOTES):
        return code
    kept = []
    for line in code.splitlines(keepends=True):
        bare = line.strip()
        is_comment = bare.startswith(mark) and not _DIRECTIVE.match(bare)
        if bare and not is_comment:
            kept.append(line)
    return "".join(kept)


def compress_level1(context: str) -> str:
    """Light: without repetitions, runs of blank lines and the middle of long quotations."""
    return compress_context(context, CompressionLevel.LIGHT)


def compress_level2(context: str) -> str:
    """Standard: explorations as what they found, other sections brief."""
    return compress_context(context, CompressionLevel.STANDARD)


def compress_level3(context: str) -> str:
    """Aggressive: decisions, one line of reasons, and what is protected."""
    return compress_context(context, CompressionLevel.AGGRESSIVE)


def compress_context(text: str, level: CompressionLevel | int) -> str:
    """The document at a level."""
    return compress_document(text, CompressionLevel(level)).text


class ContextState(Protocol):
    """What automatic compression needs to know: the text, whose it is, and (see below) how full the window is."""

    @property
    def context(self) -> str: ...

    @property
    def session_id(self) -> str: ...


class AutoCompressionManager:
    """Compresses a state's context when its window gets full; the state itself is not changed.

    The usage is the state's ``usage_percent``, or its tokens against its ``context_length`` (or the one given here).
    """

    def __init__(
        self,
        threshold_percent: float = 80,
        *,
        context_length: int | None = None,
        sessions_dir: Path | str = "sessions",
        on_compression: Callable[[CompressionResult], None] | None = None,
    ) -> None:
        self.threshold = threshold_percent
        self.compressor = ContextCompressor()
        self.context_length = context_length
        self.sessions_dir = Path(sessions_dir)
        self.on_compression = on_compression

    def check_and_compress(self, state: ContextState) -> CompressionResult | None:
        """Compress at the level that the usage asks for, the original archived; ``None`` below the threshold."""
        usage = self._usage(state)
        if usage < self.threshold:
            return None
        session = check_id(state.session_id, "session_id")
        level = level_for_usage(usage)
        result = self.compressor.compress(state.context, level, self.sessions_dir / session / "archives")
        logger.info("%s: %s, %d → %d tokens", session, level.name, result.original_tokens, result.compressed_tokens)
        if self.on_compression is not None:
            self.on_compression(result)
        return result

    def _usage(self, state: ContextState) -> float:
        usage = getattr(state, "usage_percent", None)
        if usage is not None:
            return float(usage)
        length = getattr(state, "context_length", None) or self.context_length
        if not length:
            raise InvalidInput("no_usage")
        return 100 * estimate(state.context) / length


def level_for_usage(percent: float) -> CompressionLevel:
    """AGGRESSIVE from 95 % on, STANDARD from 90 %, LIGHT below."""
    if percent >= 95:
        return CompressionLevel.AGGRESSIVE
    return CompressionLevel.STANDARD if percent >= 90 else CompressionLevel.LIGHT


class AdaptiveContextManager:
    """Thresholds that follow the complexity of a task."""

    def calculate_optimal_compression_threshold(
        self, task_complexity: str, available_context_length: int | None = None
    ) -> float:
        """Early for a simple task, as late as can be for a complex one; 0.7 for any other word.

        The window's length does not matter so far: the threshold is a share of it.
        """
        return COMPLEXITY_THRESHOLDS.get(task_complexity, _USUAL_THRESHOLD)
