"""``MessageStore``: the log of a task and its current context, for programs that name a folder.

The folder is a task of the base above it, where that is one or can become one: new, empty, or with nothing but such
folders in it. Elsewhere it is a base of its own with this one task, and nothing is written beside it. Either way the
task is masked with the base's key, and registered and owned like any other as soon as something is written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from orihon.compression.ladder import fullness_of, ladder_of
from orihon.errors import IllegalFold, InvalidSettings, OrihonError
from orihon.settings import Settings, load_settings
from orihon.store.factory import folder_of
from orihon.store.messages import TaskMessages
from orihon.store.task_store import TaskStore
from orihon.system.files import wrapping
from orihon.tasks.folder_task import task_store_in
from orihon.values.view import PlannedFold, foldable_runs

if TYPE_CHECKING:
    import apsw

logger = logging.getLogger("orihon.store")

Config = Mapping[str, Any] | Settings | None


_ALWAYS_MASKED = (
    (r"github_pat_[a-zA-Z0-9_]+", "[GITHUB_TOKEN]"),
    (r"ghp_[a-zA-Z0-9]+", "[GITHUB_TOKEN]"),
    (r"gho_[a-zA-Z0-9]+", "[GITHUB_OAUTH_TOKEN]"),
    (r"\bsk-[a-zA-Z0-9_-]+", "[OPENAI_KEY]"),
    (r"glpat-[a-zA-Z0-9_\-]+", "[GITLAB_TOKEN]"),
)


class MessageStore(TaskMessages):
    """Every message of a task, for ever, and the view of them that fits the model."""

    #: The first design's patterns. Many more are masked; what a program adds here, or in a class of its own, is masked
    #: like ``masking.patterns``. For e-mail and social security numbers set ``masking.email``, ``masking.ssn``.
    SENSITIVE_PATTERNS: ClassVar[list[tuple[str, str]]] = [*_ALWAYS_MASKED]

    def __init__(
        self,
        context_dir: Path | str,
        config: Config = None,
        *,
        max_memory_messages: int | None = None,
        context_length: int | None = None,
        compression_threshold: float | None = None,
        backend: str | None = None,
        task_store: TaskStore | None = None,
    ) -> None:
        flags = {
            "context_storage.max_memory_messages": max_memory_messages,
            "context_storage.backend": backend,
            "compression.threshold": compression_threshold,
        }
        settings = load_settings(config, flags={key: value for key, value in flags.items() if value is not None})
        if context_length is not None:  # what is kept about the task says it, too
            settings = settings.replace(**{f"llm.{settings.llm.provider}.context_length": context_length})
        settings = self._with_own_patterns(settings)
        store = task_store or task_store_in(folder_of(context_dir), settings)
        super().__init__(store, settings, context_length=context_length)

    def get_messages_for_llm(self) -> list[dict[str, Any]]:
        """The current context as a list of OpenAI chat messages. One that does not fit the window is folded first.

        Where that cannot be (protected text that is too large, a disk that is full), the log says so: who only looks is
        not refused.
        """
        messages = super().get_messages_for_llm()
        # A token has a character at least: short views, the usual ones, are not looked at twice.
        if sum(len(str(message.get("content") or "")) for message in messages) <= self.context_length:
            return messages
        tail = self.task_store.tail
        if tail.open_calls or self.gauge.usage(tail.view_tokens) <= 1:
            return messages
        from orihon.compression.compressor import ContextCompressor

        try:
            ContextCompressor(message_store=self).compress_if_needed()
        except OrihonError as error:
            logger.warning("%s: the view does not fit the window: %s", self.task_store.name, error)
        return super().get_messages_for_llm()

    def recreate_current_context(
        self,
        summary: str | None = None,
        unsummarized_file: Path | str | int | None = None,
        *,
        summary_text: str | None = None,
        summary_tokens: int | None = None,
    ) -> int:
        """Fold everything but the newest entries into one summary; returns the entries the view then has.

        ``unsummarized_file`` holds the newest lines of the current context, the ones to keep; it is removed
        afterwards. The system prompt, pins and tool pairs stay whole whatever it holds.
        """
        text = summary if summary is not None else summary_text or ""
        kept_lines = Path(unsummarized_file) if isinstance(unsummarized_file, str | Path) else None
        keep = _count_lines(kept_lines) if kept_lines is not None else 0
        view = self.view()
        runs = foldable_runs(view, len(view.entries) - keep)
        if not runs:
            raise IllegalFold("nothing", entries=len(view.entries), keep=keep)
        start, end = max(runs, key=lambda run: run[1] - run[0])
        self.folding.compress([PlannedFold(start, end, text)], trigger="recreate", strategy="summarize")
        if kept_lines is not None:
            kept_lines.unlink()
        return self.task_store.tail.view_entries

    # ---- names of the first design, kept for programs that use them --------------------------------------------

    @property
    def db_path(self) -> Path:
        """Where the ``sqlite`` back end keeps this task."""
        return self.context_dir / "context.db"

    @property
    def messages_file(self) -> Path:
        """Where the ``files`` back end keeps the log."""
        return self.context_dir / "messages.jsonl"

    @property
    def current_file(self) -> Path:
        """The current context."""
        return self.get_current_context_file()

    @property
    def memory_cache(self) -> list[dict[str, Any]]:
        """The newest messages as dicts. Read from the store: nothing is held in memory."""
        return [
            {"id": stored.seq, "token_count": stored.tokens, "timestamp": stored.timestamp, **stored.message.to_chat()}
            for stored in self.get_recent_messages()
        ]

    def _should_compress(self) -> bool:
        tail = self.task_store.tail
        rung = ladder_of(self.settings).rung(fullness_of(self.gauge, tail.view_tokens, tail.view_entries))
        return rung is not None and bool(rung.strategies)

    def _with_own_patterns(self, settings: Settings) -> Settings:
        """The settings with what a program has added to ``SENSITIVE_PATTERNS``."""
        patterns = dict(settings.masking.patterns)
        for pattern, placeholder in self.SENSITIVE_PATTERNS:
            if (pattern, placeholder) not in _ALWAYS_MASKED:
                name, own = placeholder.strip("[]"), f"(?i:{pattern})"
                patterns[name] = f"{patterns[name]}|{own}" if name in patterns else own
        if patterns == settings.masking.patterns:
            return settings
        return settings.replace(**{"masking.patterns": patterns})

    def _mask_sensitive_data(self, text: str) -> str:
        return self.task_store.redactor.mask(text)

    def _get_connection(self) -> apsw.Connection:
        from orihon.store.sqlite import SqliteRecords

        bare = self.task_store.records.bare
        if not isinstance(bare, SqliteRecords):
            raise InvalidSettings("not_sqlite", backend="files")
        return bare.reading_connection()


def _count_lines(path: Path) -> int:
    with wrapping(path), path.open("rb") as file:
        return sum(1 for line in file if line.strip())
