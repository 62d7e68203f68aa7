"""The sections of the settings: each field is one setting, with its default, its kind and its other names.

This file is the table. Parsing, the environment and the reference (``docs/settings.md``, by ``make docs``) follow from
it, so a new setting is one new field here and its meaning in ``texts/ja/meanings.toml``. Nothing is read or checked in
this file.

A spelling is another name that configuration files use for the setting: a full dotted name, or a bare name
beside the field. ``{SECTION}`` in the name of an environment variable is the section's own name in capitals.
A setting whose default is ``None`` may be ``None``; one that is kept out of ``repr`` is a secret. ``reach`` says
what the setting could do for somebody who is not to be trusted; where the kind does not tell, the field must.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orihon.settings.kinds import (
    FLAG,
    PATH,
    PATTERN_LIST,
    PATTERN_MAP,
    SECRET,
    TEXT,
    URL,
    FrozenMap,
    Reach,
    SettingKind,
    choice,
    number,
    whole,
)
from orihon.settings.rungs import LADDER, ROLES, Rung

_DAYS = whole(0)
_SECONDS = number(above=0)
_SHARE = number(above=0, high=1)
_TOKENS = whole(1)


@dataclass(frozen=True, slots=True)
class Spec:
    """What the table says of one field, besides its default."""

    kind: SettingKind
    doc: str
    spellings: tuple[str, ...]
    env: tuple[str, ...]
    reach: Reach


def spec(
    kind: SettingKind,
    doc: str,
    *,
    reach: Reach | None = None,
    spellings: tuple[str, ...] = (),
    env: tuple[str, ...] = (),
) -> dict[str, Spec]:
    """The metadata of a field that holds one setting."""
    decided = reach or kind.reach
    if decided is None:
        raise TypeError(f"the kind does not tell what this setting can reach, so it must say: {doc}")
    return {"spec": Spec(kind, doc, spellings, env, decided)}


def section(*spellings: str) -> dict[str, tuple[str, ...]]:
    """The metadata of a field that holds a section; ``spellings`` are other names of the whole section."""
    return {"section": spellings}


@dataclass(frozen=True, slots=True)
class ContextStorageSettings:
    """Where and how histories are kept."""

    enabled: bool = field(
        default=True,
        metadata=spec(FLAG, "For model clients; the stores always write to disk.", env=("CONTEXT_STORAGE_ENABLED",)),
    )
    backend: str = field(
        default="files",
        metadata=spec(
            choice("files", "sqlite", "postgres", aliases={"jsonlines": "files", "jsonl": "files"}),
            "What keeps the messages. `jsonlines` and `jsonl` mean `files`.",
            env=("CONTEXT_STORAGE_BACKEND",),
        ),
    )
    base_dir: Path = field(
        default=Path("contexts"),
        metadata=spec(
            PATH,
            "The base folder, relative to the working folder. Unset, for commands and `Base()`: a `contexts` that is a "
            "base already, here or above, else `orihon` in the user's folder for data (`$XDG_DATA_HOME`).",
            env=("ORIHON_BASE_DIR", "CONTEXT_STORAGE_BASE_DIR"),
        ),
    )
    durability: str = field(
        default="full",
        metadata=spec(
            choice("full", "os"),
            "`full`: an acknowledged message is synced to the disk; `os`: the operating system decides when.",
            reach=Reach.GUARD,
        ),
    )
    max_memory_messages: int = field(
        default=20,
        metadata=spec(
            whole(0),
            "Newest messages that `get_recent_messages` and `memory_cache` give when no number is asked for.",
            spellings=("llm.max_memory_messages",),
            env=("MAX_MEMORY_MESSAGES",),
        ),
    )
    db_timeout: float = field(
        default=30.0, metadata=spec(_SECONDS, "Seconds to wait for a locked database, each time.")
    )
    max_retries: int = field(
        default=3, metadata=spec(whole(0, 1000), "Further attempts when the database stays locked.")
    )
    retry_delay: float = field(
        default=0.5,
        metadata=spec(number(low=0), "Seconds before the first further attempt; grows with each."),
    )
    max_message_bytes: int = field(default=64 * 1024 * 1024, metadata=spec(whole(1), "A larger message is refused."))
    blob_bytes: int = field(
        default=1024 * 1024,
        metadata=spec(whole(1), "Texts longer than this are stored as blobs; images and files always are."),
    )
    lease_seconds: float = field(
        default=90.0, metadata=spec(_SECONDS, "A task whose owner was silent for so long can be taken over.")
    )


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider of models."""

    model: str = field(metadata=spec(TEXT, "Name of the model.", reach=Reach.NONE))
    base_url: str = field(
        metadata=spec(URL, "Address of the provider.", spellings=("endpoint",), env=("{SECTION}_BASE_URL",)),
    )
    context_length: int = field(
        metadata=spec(_TOKENS, "The model's window in tokens.", env=("{SECTION}_CONTEXT_LENGTH",)),
    )
    max_token: int | None = field(default=None, metadata=spec(_TOKENS, "Most tokens of one answer."))
    reserve_output: int | None = field(
        default=None,
        metadata=spec(
            whole(0),
            "Tokens of the window kept free for the answer; "
            "unset: `max_token` or 4096, at most a quarter of the window.",
        ),
    )
    tokenizer: str | None = field(
        default=None, metadata=spec(TEXT, "Name of the tokenizer; unset: guessed from the model.", reach=Reach.PROGRAM)
    )
    api_key: str | None = field(
        default=None,
        repr=False,
        metadata=spec(TEXT, "The provider's key; never shown.", reach=Reach.KEY, env=("{SECTION}_API_KEY",)),
    )

    def output_reserve(self, window: int) -> int:
        """``reserve_output``, or what stands for it in a window of this size when it is not set."""
        if self.reserve_output is not None:
            return self.reserve_output
        return min(self.max_token or 4096, window // 4)


@dataclass(frozen=True, slots=True)
class LLMSettings:
    """The model that works on the task."""

    provider: str = field(
        default="openai",
        metadata=spec(choice("openai", "ollama", "lmstudio", "anthropic"), "The provider in use.", reach=Reach.ADDRESS),
    )
    function_calling: bool = field(
        default=True, metadata=spec(FLAG, "Hand tools to the model; false: ask for calls in text.")
    )
    connect_timeout: float = field(default=10.0, metadata=spec(_SECONDS, "Seconds to reach the provider."))
    timeout: float = field(
        default=300.0, metadata=spec(_SECONDS, "Seconds without a piece of the answer, the first one too.")
    )
    total_timeout: float = field(default=1800.0, metadata=spec(_SECONDS, "Seconds that one answer may take in all."))
    retries: int = field(default=5, metadata=spec(whole(0, 100), "Further attempts when a call fails and may pass."))
    retry_delay: float = field(
        default=1.0, metadata=spec(_SECONDS, "Seconds before the first further attempt; doubles with each.")
    )
    stream: bool = field(default=True, metadata=spec(FLAG, "Take answers in pieces."))
    cache: bool = field(default=False, metadata=spec(FLAG, "Keep answers, and use them when a request comes again."))
    cache_ttl: float = field(default=3600.0, metadata=spec(_SECONDS, "Seconds for which an answer is kept."))
    cache_url: str | None = field(
        default=None,
        repr=False,
        metadata=spec(
            TEXT,
            "A Redis (`redis://…`) that keeps the answers for many machines; unset: the base folder; never shown.",
            reach=Reach.ADDRESS,
        ),
    )
    requests_per_minute: float | None = field(
        default=None, metadata=spec(_SECONDS, "Requests to one provider by all workers together; unset: any number.")
    )
    allow_metadata: bool = field(
        default=False, metadata=spec(FLAG, "Models may be where clouds give out credentials.", reach=Reach.GUARD)
    )
    openai: ProviderSettings = field(
        default=ProviderSettings("gpt-4o", "https://api.openai.com/v1", 128_000), metadata=section()
    )
    ollama: ProviderSettings = field(
        default=ProviderSettings("qwen3:30b", "http://localhost:11434", 32_768), metadata=section()
    )
    lmstudio: ProviderSettings = field(
        default=ProviderSettings("qwen3-30b-a3b-mlx", "http://127.0.0.1:1234", 32_768), metadata=section()
    )
    anthropic: ProviderSettings = field(
        default=ProviderSettings("claude-sonnet-4-5", "https://api.anthropic.com", 200_000),
        metadata=section(),
    )

    @property
    def active(self) -> ProviderSettings:
        """The section of the provider in use."""
        active: ProviderSettings = getattr(self, self.provider)
        return active


@dataclass(frozen=True, slots=True)
class CompressionSettings:
    """When a view is folded, and how. What is set explicitly wins over the preset."""

    preset: str = field(
        default="default",
        metadata=spec(choice("default", "coding-agent", "companion", "phases"), "The ladder in use."),
    )
    ladder: tuple[Rung, ...] | None = field(
        default=None,
        metadata=spec(LADDER, "Rungs of your own in place of the preset's; see `compression.md`."),
    )
    threshold: float = field(
        default=0.7,
        metadata=spec(
            _SHARE,
            "Share of the window at which folding begins.",
            spellings=("context_storage.compression_threshold", "llm.compression_threshold"),
            env=("COMPRESSION_THRESHOLD",),
        ),
    )
    token_threshold: int | None = field(
        default=None, metadata=spec(_TOKENS, "Number of tokens at which folding begins.")
    )
    task_complexity: str | None = field(
        default=None,
        metadata=spec(
            choice("simple", "medium", "complex"),
            "Folding begins at 0.5, 0.7 or 0.85 of the window, unless `compression.threshold` is set.",
        ),
    )
    target: float | None = field(
        default=None, metadata=spec(_SHARE, "Share of the window to come down to; unset: the preset's.")
    )
    keep_recent: int = field(default=10, metadata=spec(whole(0), "Newest messages that are not folded."))
    min_to_compress: int = field(
        default=5,
        metadata=spec(
            whole(1),
            "Fewest messages worth a fold.",
            spellings=(
                "min_messages_to_summarize",
                "context_storage.min_messages_to_summarize",
                "llm.min_messages_to_summarize",
            ),
        ),
    )
    summary_prompt: str | None = field(
        default=None,
        metadata=spec(
            TEXT,
            "Prompt for summaries, `{messages}` standing for the messages; unset: the built-in one.",
            reach=Reach.WORDS,
            spellings=("context_storage.summary_prompt",),
        ),
    )
    summary_share: float = field(
        default=0.35, metadata=spec(_SHARE, "Share of the folded messages that preset `coding-agent`'s summaries have.")
    )
    summary_window: int | None = field(
        default=None, metadata=spec(_TOKENS, "Window of the model that writes summaries; unset: the task's.")
    )
    summary_timeout: float = field(
        default=120.0, metadata=spec(_SECONDS, "Seconds that the model may take for a summary, all attempts together.")
    )
    final_summary_timeout: float = field(
        default=15.0,
        metadata=spec(_SECONDS, "Seconds that `complete()` waits for the model's last summary; then rules draw it."),
    )
    summary_retries: int = field(
        default=2, metadata=spec(whole(0, 10), "Further attempts when the model fails to write a summary.")
    )
    prune_selection: str = field(
        default="importance",
        metadata=spec(
            choice("importance", "window", "session", "topic"), "What strategy `prune` goes by when it chooses."
        ),
    )
    prune_window: int | None = field(
        default=None,
        metadata=spec(whole(1), "Newest messages that selection `window` keeps; unset: as many as fit."),
    )
    pin_patterns: tuple[str, ...] | None = field(
        default=None,
        metadata=spec(
            PATTERN_LIST,
            "Lines that match stay word for word, headings with their sections; unset: the preset's.",
            reach=Reach.NONE,
        ),
    )
    pin_roles: tuple[str, ...] = field(default=(), metadata=spec(ROLES, "Messages of these roles are never folded."))
    auto_compress_on_approval: bool = field(
        default=True, metadata=spec(FLAG, "Fold the exploration of a phase when it is approved.")
    )
    confirm_before_compress: bool = field(default=False, metadata=spec(FLAG, "Ask a person before each compression."))
    preserve_exploration_days: int = field(
        default=7, metadata=spec(_DAYS, "Days for which the archives of phases are kept.")
    )
    archive_format: str = field(
        default="markdown", metadata=spec(choice("markdown", "json"), "Format of the archives of phases.")
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """The limits of ``MemoryManager``."""

    max_tokens: int = field(default=8000, metadata=spec(_TOKENS, "Tokens that the history may have."))
    pruning_threshold: float = field(
        default=0.8, metadata=spec(_SHARE, "Share of `memory.max_tokens` at which pruning begins.")
    )
    target_usage: float = field(
        default=0.7, metadata=spec(_SHARE, "Share to prune down to; at most `memory.pruning_threshold`.")
    )
    enable_summarization: bool = field(
        default=True, metadata=spec(FLAG, "Summarize what is pruned; false: leave only a short notice.")
    )
    min_gap_for_summary: int = field(
        default=5, metadata=spec(whole(1), "Fewest pruned messages in a row that get a summary.")
    )


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Who is told about compressions, questions and failures, and when."""

    webhook: str | None = field(
        default=None, repr=False, metadata=spec(URL, "Address that notifications are posted to as JSON.")
    )
    webhook_secret: str | None = field(
        default=None,
        repr=False,
        metadata=spec(SECRET, "Secret that notifications to the webhook are signed with; unset: they are not."),
    )
    allow_metadata: bool = field(
        default=False,
        metadata=spec(
            FLAG, "Let the webhook be where clouds hand out credentials (169.254.0.0/16 …).", reach=Reach.GUARD
        ),
    )
    keep_days: int = field(default=30, metadata=spec(_DAYS, "Days after which `maintain` takes a notification out."))
    warn_at: float = field(default=0.8, metadata=spec(_SHARE, "Share of the budget at which a notice is sent."))
    full_at: float = field(
        default=0.9, metadata=spec(_SHARE, "Share of the budget from which a view is still too full when folded.")
    )


@dataclass(frozen=True, slots=True)
class InheritanceSettings:
    """What a new task takes over from the last one on the same key."""

    enabled: bool = field(
        default=True, metadata=spec(FLAG, "A new task inherits from the last finished one on its key.")
    )
    max_summary_tokens: int = field(
        default=4000, metadata=spec(_TOKENS, "Most tokens that it inherits; never more than a tenth of the window.")
    )
    from_imports: bool = field(
        default=False,
        metadata=spec(
            FLAG,
            "A new task inherits from imported tasks on its key, too, as quotations; unset: only where it is pointed "
            "at one (`--inherit-from`).",
            reach=Reach.GUARD,
        ),
    )


@dataclass(frozen=True, slots=True)
class ImportingSettings:
    """What reading the files of others may take."""

    file_seconds: float = field(
        default=600.0,
        metadata=spec(
            _SECONDS,
            "Seconds that reading one file of an import may take, and one more for each of its megabytes; then it is "
            "reported, and the next one read.",
            reach=Reach.GUARD,
        ),
    )
    memory_mb: int = field(
        default=2048,
        metadata=spec(whole(1), "Megabytes of memory that reading one file of an import may take.", reach=Reach.GUARD),
    )


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """Removal of finished tasks."""

    days: int = field(
        default=30,
        metadata=spec(
            _DAYS,
            "Days from the end of a task until cleanup removes it.",
            reach=Reach.GUARD,
            spellings=("context_storage.retention_days", "context_storage.cleanup_days"),
            env=("CLEANUP_DAYS",),
        ),
    )


@dataclass(frozen=True, slots=True)
class MaskingSettings:
    """Secrets that are replaced before anything is written."""

    enabled: bool = field(default=True, metadata=spec(FLAG, "Mask secrets before they are written.", reach=Reach.GUARD))
    email: bool = field(default=False, metadata=spec(FLAG, "Mask e-mail addresses too."))
    ssn: bool = field(default=False, metadata=spec(FLAG, "Mask US social security numbers too."))
    patterns: Mapping[str, str] = field(
        default=FrozenMap(),
        metadata=spec(
            PATTERN_MAP,
            "Further secrets: a name, which the placeholder shows, and a regular expression for each.",
            reach=Reach.GUARD,
        ),
    )
    allow: tuple[str, ...] = field(
        default=(),
        metadata=spec(
            PATTERN_LIST, "Regular expressions; what matches one of them is never masked.", reach=Reach.GUARD
        ),
    )
    vault: bool = field(
        default=False,
        metadata=spec(
            FLAG,
            "Give masked values back to the model and to tools, when they are sent; they are kept in memory only.",
            reach=Reach.GUARD,
        ),
    )


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """What is logged, and where to."""

    level: str = field(
        default="INFO",
        metadata=spec(choice("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "Least level that is logged."),
    )
    file: Path | None = field(default=None, metadata=spec(PATH, "Log file, such as `agent.log`; unset: none."))
