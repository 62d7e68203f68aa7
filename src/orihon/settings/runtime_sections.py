"""The sections of the settings that the runtime goes by: workers, the agent's loop, tools, task sources.

A part of the table in ``sections``; what is said there holds here too.

The sections of the settings about what the monitor calls wrong, and what the history search may find.

The sections of the settings about what one user may take (tasks, tokens, bytes), and one connection of a server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orihon.settings.kinds import FLAG, NAME_LIST, PATH, TEXT, URL, FrozenMap, Reach, number, whole
from orihon.settings.rungs import QUOTAS, SPEAKERS
from orihon.settings.sections import section, spec

_SECONDS = number(above=0)
_TIMES = whole(1, 1000)
_LABEL = TEXT
_REPOSITORIES = "Repositories (`owner/name`) whose issues are looked at; none: this source is not used."


@dataclass(frozen=True, slots=True)
class MultiprocessSettings:
    """Worker processes and their queue."""

    enabled: bool = field(
        default=False, metadata=spec(FLAG, "Work in several processes.", env=("MULTIPROCESS_ENABLED",))
    )
    max_workers: int = field(
        default=4, metadata=spec(whole(1, 10_000), "Number of worker processes.", env=("MAX_WORKERS",))
    )
    process_timeout: float = field(default=3600.0, metadata=spec(_SECONDS, "Seconds that one task may take."))
    heartbeat_interval: float = field(
        default=30.0,
        metadata=spec(_SECONDS, "Seconds between heartbeats; below `context_storage.lease_seconds`."),
    )
    max_attempts: int = field(
        default=5, metadata=spec(whole(1, 10_000), "How often a task is tried before it is given up.")
    )
    retry_delay: float = field(
        default=1.0, metadata=spec(number(low=0), "Seconds before the second attempt; doubles with each.")
    )
    max_retry_delay: float = field(default=300.0, metadata=spec(number(low=0), "Most seconds between two attempts."))
    tasks_per_user: int | None = field(
        default=None, metadata=spec(whole(1), "Tasks of one user that run at a time; unset: any number.")
    )
    poll_interval: float = field(
        default=1.0, metadata=spec(_SECONDS, "Most seconds between two looks into an empty queue.")
    )
    drain_seconds: float = field(
        default=60.0, metadata=spec(_SECONDS, "Seconds from a signal until a worker that does not stop is ended.")
    )
    restart_delay: float = field(
        default=0.5,
        metadata=spec(number(low=0), "Seconds before a dead worker is started again; doubles with each quick death."),
    )
    max_restart_delay: float = field(
        default=30.0, metadata=spec(number(low=0), "Most seconds before a dead worker is started again.")
    )


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """The agent's loop. A task that reaches a limit has failed; what it has done is kept."""

    max_llm_process_num: int = field(
        default=1000,
        metadata=spec(whole(1), "Calls of the model that one task may make, its summaries counted.", reach=Reach.LIMIT),
    )
    max_consecutive_tool_errors: int = field(
        default=5, metadata=spec(whole(1), "Failures of one tool in a row that end the task.", reach=Reach.LIMIT)
    )
    max_seconds: float | None = field(
        default=None, metadata=spec(_SECONDS, "Seconds of work that one task may take, over all its attempts.")
    )
    max_tokens: int | None = field(
        default=None, metadata=spec(whole(1), "Tokens that the requests of one task may have in all.")
    )
    max_cost: float | None = field(
        default=None, metadata=spec(_SECONDS, "What one task may cost, in the currency of `prices`.")
    )
    parallel_tools: int = field(
        default=4, metadata=spec(whole(1, 100), "Tool calls of one answer that are run at a time.")
    )
    system_prompt: str | None = field(
        default=None, metadata=spec(TEXT, "The system prompt of new tasks; unset: the built-in one.", reach=Reach.WORDS)
    )
    system_prompt_file: Path | None = field(
        default=None,
        metadata=spec(PATH, "File with the system prompt; `runtime.system_prompt` wins.", reach=Reach.WORDS),
    )


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """The tools that an agent may call."""

    timeout: float = field(default=120.0, metadata=spec(_SECONDS, "Seconds that one call of a tool may take."))
    max_output_bytes: int = field(
        default=256 << 10,
        metadata=spec(whole(1), "Longer output is cut in the middle and kept whole in the task's folder."),
    )
    workspace: Path | None = field(
        default=None, metadata=spec(PATH, "Folder that the file tools work in; unset: there are none.")
    )
    shell: bool = field(
        default=False, metadata=spec(FLAG, "Let the model run commands in the workspace.", reach=Reach.PROGRAM)
    )
    allow_writes: tuple[str, ...] = field(
        default=(),
        metadata=spec(
            NAME_LIST,
            "Names that the file tools may write to, though they are protected (`runtime.md`): `.github/workflows` ….",
            reach=Reach.GUARD,
        ),
    )
    start_timeout: float = field(
        default=30.0, metadata=spec(_SECONDS, "Seconds until an MCP server must have named its tools.")
    )
    max_restarts: int = field(
        default=5, metadata=spec(whole(0, 1000), "Restarts of an MCP server without a call that went well.")
    )


@dataclass(frozen=True, slots=True)
class LabelSettings:
    """The labels that say on GitHub and GitLab how a task stands."""

    todo: str = field(
        default="coding agent", metadata=spec(_LABEL, "Label of what waits for the agent.", reach=Reach.GUARD)
    )
    processing: str = field(
        default="coding agent processing", metadata=spec(_LABEL, "Label while the agent works.", reach=Reach.NONE)
    )
    completed: str = field(
        default="coding agent done", metadata=spec(_LABEL, "Label of what is done.", reach=Reach.NONE)
    )
    failed: str = field(
        default="coding agent failed", metadata=spec(_LABEL, "Label of what has failed.", reach=Reach.NONE)
    )
    cancelled: str = field(
        default="coding agent cancelled", metadata=spec(_LABEL, "Label of what was given up.", reach=Reach.NONE)
    )
    paused: str = field(default="coding agent paused", metadata=spec(_LABEL, "Label of what rests.", reach=Reach.NONE))


@dataclass(frozen=True, slots=True)
class GitHubSettings:
    """Issues and pull requests."""

    repositories: tuple[str, ...] = field(default=(), metadata=spec(NAME_LIST, _REPOSITORIES, reach=Reach.ADDRESS))
    token: str | None = field(
        default=None,
        repr=False,
        metadata=spec(TEXT, "The service's token; never shown.", reach=Reach.KEY, env=("GITHUB_TOKEN",)),
    )
    base_url: str = field(default="https://api.github.com", metadata=spec(URL, "Address of the service."))
    types: tuple[str, ...] = field(
        default=("issue", "pull_request"),
        metadata=spec(NAME_LIST, "What is looked at: `issue`, `pull_request`.", reach=Reach.NONE),
    )


@dataclass(frozen=True, slots=True)
class GitLabSettings:
    """Issues and merge requests."""

    repositories: tuple[str, ...] = field(default=(), metadata=spec(NAME_LIST, _REPOSITORIES, reach=Reach.ADDRESS))
    token: str | None = field(
        default=None,
        repr=False,
        metadata=spec(TEXT, "The service's token; never shown.", reach=Reach.KEY, env=("GITLAB_TOKEN",)),
    )
    base_url: str = field(default="https://gitlab.com", metadata=spec(URL, "Address of the service."))
    types: tuple[str, ...] = field(
        default=("issue", "merge_request"),
        metadata=spec(NAME_LIST, "What is looked at: `issue`, `merge_request`.", reach=Reach.NONE),
    )


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Where tasks come from."""

    folder: Path | None = field(
        default=None, metadata=spec(PATH, "Folder of markdown files, each a task; unset: none.", reach=Reach.WORDS)
    )
    poll_interval: float = field(default=60.0, metadata=spec(_SECONDS, "Seconds between two looks for new tasks."))
    take_up_claimed: bool = field(
        default=False,
        metadata=spec(
            FLAG,
            "At the start, take up what GitHub or GitLab shows as claimed and nobody here works on; "
            "only where no other machine looks there.",
        ),
    )
    timeout: float = field(default=30.0, metadata=spec(_SECONDS, "Seconds that a service may take for one answer."))
    tries: int = field(default=4, metadata=spec(_TIMES, "How often a request to a service is tried."))
    longest_wait: float = field(
        default=90.0, metadata=spec(number(low=0), "Most seconds to wait before a request is tried again.")
    )
    trusted: tuple[str, ...] = field(
        default=("body", "owner", "member", "collaborator"),
        metadata=spec(
            SPEAKERS,
            "Whose words in an issue or request are the user's: `body` (its own text), comments by those whom the "
            "service calls `owner`, `member`, `collaborator` or `contributor`, by its `author` or an `assignee`, what "
            "stands in a `folder`'s comments, or `anyone`. All others are quoted and have the trust of tool output.",
            reach=Reach.GUARD,
        ),
    )
    trusted_users: tuple[str, ...] = field(
        default=(),
        metadata=spec(NAME_LIST, "Names at the service whose comments are the user's words, too.", reach=Reach.GUARD),
    )
    github: GitHubSettings = field(default=GitHubSettings(), metadata=section())
    gitlab: GitLabSettings = field(default=GitLabSettings(), metadata=section())
    labels: LabelSettings = field(default=LabelSettings(), metadata=section())


_COUNT = whole(0)
_AMOUNT = number(low=0)


@dataclass(frozen=True, slots=True)
class MonitorSettings:
    """From when on something is wrong with a base folder or a catalogue."""

    interval: float = field(
        default=60.0,
        metadata=spec(number(above=0), "Seconds between two looks of a `ContextMonitor` that is told none."),
    )
    min_free_gb: float = field(
        default=1.0, metadata=spec(_AMOUNT, "Fewest gigabytes that have to be free on the disk of the base folder.")
    )
    max_size_gb: float = field(default=10.0, metadata=spec(_AMOUNT, "Most gigabytes that the base folder may take."))
    old_days: int = field(default=30, metadata=spec(_COUNT, "Days after its end from which a task counts as old."))
    max_old: int = field(
        default=100, metadata=spec(_COUNT, "Most old tasks that may be there and neither archived nor removed.")
    )
    max_stale_leases: int = field(
        default=0, metadata=spec(_COUNT, "Most running tasks that may be without a live process.")
    )
    max_compression_failures: float = field(
        default=0.05,
        metadata=spec(number(low=0, high=1), "Largest share of compressions of a day that may fail."),
    )
    max_write_age: float = field(
        default=1800.0,
        metadata=spec(number(above=0), "Most seconds since the last durable write, while tasks are running."),
    )
    max_lock_errors: int = field(
        default=10, metadata=spec(_COUNT, "Most times in an hour that a database may be found locked.")
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """When the index of the history search is kept up to date, beside every search."""

    idle: bool = field(
        default=True, metadata=spec(FLAG, "Workers that have nothing to do read what is new into the search index.")
    )
    archived: bool = field(
        default=True,
        metadata=spec(FLAG, "Read a task into the search index before it is archived, so that it is found later."),
    )


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """What one user may take; unset: as much as there is."""

    tasks: int | None = field(
        default=None, metadata=spec(whole(1), "Most tasks of one user that are not finished, at a time.")
    )
    tokens_per_day: int | None = field(
        default=None,
        metadata=spec(whole(1), "Most tokens of models for the tasks of one user on one day (UTC); then they pause."),
    )
    bytes: int | None = field(
        default=None, metadata=spec(whole(1), "Most bytes that the tasks of one user may take, as of their last stop.")
    )
    users: Mapping[str, Mapping[str, int]] = field(
        default=FrozenMap(),
        metadata=spec(
            QUOTAS, "Other limits for single users, by name: `tasks`, `tokens_per_day`, `bytes`.", reach=Reach.GUARD
        ),
    )


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How long a connection may keep the page or the metrics waiting, and how many there may be."""

    header_seconds: float = field(
        default=10.0,
        metadata=spec(
            _SECONDS, "Seconds until the head of a request, or a TLS handshake, is there.", reach=Reach.LIMIT
        ),
    )
    body_seconds: float = field(
        default=60.0, metadata=spec(_SECONDS, "Seconds until its body is there.", reach=Reach.LIMIT)
    )
    idle_seconds: float = field(
        default=5.0,
        metadata=spec(_SECONDS, "Seconds that a connection may rest between two requests.", reach=Reach.LIMIT),
    )
    write_seconds: float = field(
        default=30.0,
        metadata=spec(
            _SECONDS, "Seconds in which a reader has to take the next 48 KiB of an answer.", reach=Reach.LIMIT
        ),
    )
    max_connections: int = field(
        default=300,
        metadata=spec(
            whole(8, 100_000),
            "Most connections at a time, and no more than a third of the free file descriptors; then those that keep "
            "the server waiting are closed, the oldest first. At most half of them may be streams of events.",
            reach=Reach.LIMIT,
        ),
    )
    max_connections_per_peer: int = field(
        default=100,
        metadata=spec(
            whole(4, 100_000), "Of these for one address (IPv6: one /64); this machine may have all.", reach=Reach.LIMIT
        ),
    )
    max_streams_per_user: int = field(
        default=40,
        metadata=spec(
            whole(1, 100_000),
            "Most streams of events for one user at a time; then the oldest one ends.",
            reach=Reach.LIMIT,
        ),
    )


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """The proxy between agents and their models."""

    openai_upstream: str = field(
        default="https://api.openai.com",
        metadata=spec(URL, "Where requests of the OpenAI wires go on to.", spellings=("upstream",)),
    )
    anthropic_upstream: str = field(
        default="https://api.anthropic.com", metadata=spec(URL, "Where requests of the Anthropic wire go on to.")
    )
    window: int | None = field(
        default=None,
        metadata=spec(
            whole(1), "The window of every model, in tokens; unset: by the model's name, and what its provider says."
        ),
    )
    fold_at: float = field(
        default=0.8,
        metadata=spec(
            number(above=0, high=1), "Share of the window at which a conversation is folded, unless `compression` says."
        ),
    )
    fold_to: float = field(
        default=0.25,
        metadata=spec(number(above=0, high=1), "Share that is left then; few deep folds cost less than many."),
    )
    strict: bool = field(
        default=False, metadata=spec(FLAG, "Refuse requests while nothing can be stored, instead of passing them on.")
    )
    max_open: int = field(
        default=256,
        metadata=spec(
            whole(1, 100_000), "Most conversations that are open at a time; the oldest pauses.", reach=Reach.LIMIT
        ),
    )
    idle_seconds: float = field(
        default=300.0, metadata=spec(_SECONDS, "A conversation that nobody has used for so long pauses.")
    )
    linger_seconds: float = field(
        default=10.0,
        metadata=spec(_SECONDS, "So long the proxy of `orihon wrap` waits for another wrap when the last has ended."),
    )
    session_headers: tuple[str, ...] = field(
        default=(),
        metadata=spec(NAME_LIST, "Further headers in which clients name their conversation.", reach=Reach.NONE),
    )
