"""What a task's history is made of besides messages: folds, compressions, pins, and the calls that answers came from.

Values only. Each knows how to become a line of its file (``as_dict``) and to come back (``from_record``), with the
field names of the file formats. Reading ignores fields it does not know: an older Orihon can read a newer line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orihon.system.json_shapes import AsJson

FoldForm = Literal["summary", "preview"]
CompressionKind = Literal["compress", "undo", "redo", "unfold", "pin", "edit"]

#: The strategy of a compression that goes back to an earlier step.
REWIND = "rewind"
#: Whose word something is, from the highest to the lowest.
Trust = Literal["system", "user", "assistant", "tool"]
#: How a fold is introduced to the model.
SUMMARY_PREFIX = "[Previous conversation summary]\n"
#: The file beside a task's records with what it ended with.
FINAL_SUMMARY = "final_summary.txt"
#: In the metadata of a fork: which task it comes from, and up to where.
FORKED_FROM = "forked_from"

_MOST_TOKENS = 10**9  # no call has so many: a larger figure is a fault of the server


@dataclass(frozen=True, slots=True)
class Usage(AsJson):
    """Tokens of one call, each counted once; ``cached`` are among ``input``."""

    input: int = 0
    cached: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """What went out and what came back."""
        return self.input + self.output

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Usage:
        return cls(*(_count(record, name) for name in ("input", "cached", "output")))

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Usage:
        """From the usage of any provider."""
        beside = (_count(reported, "cache_read_input_tokens"), _count(reported, "cache_creation_input_tokens"))
        details = reported.get("prompt_tokens_details") or reported.get("input_tokens_details")
        cached = _count(details, "cached_tokens") if details is not None and isinstance(details, Mapping) else beside[0]
        prompt = _first_count(reported, ("prompt_tokens", "prompt_eval_count"))
        if prompt is None:
            prompt = _count(reported, "input_tokens") + sum(beside)
        return cls(prompt, cached, _first_count(reported, ("completion_tokens", "output_tokens", "eval_count")) or 0)


@dataclass(frozen=True, slots=True)
class ModelCall(AsJson):
    """The call that an answer came from. The field ``call`` of a line of ``messages.jsonl``; never sent to a model."""

    json_fields = "model usage? cost? direct?"

    model: str
    usage: Usage | None = None  # where the provider has reported it
    cost: float | None = None  # in US dollars, where somebody else has counted it
    direct: int | None = None  # tokens that the client's own request had, through the proxy: nothing folded

    @classmethod
    def of(cls, model: str, reported: Mapping[str, Any]) -> ModelCall:
        """From the usage that a provider has reported; some say what the call cost."""
        cost = reported.get("cost")
        is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < _MOST_TOKENS
        usage = Usage.of(reported)
        return cls(model, usage if usage != Usage() else None, float(cost) if is_cost and cost is not None else None)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ModelCall:
        usage = None if record.get("usage") is None else Usage.from_record(record["usage"])
        return cls(record["model"], usage, record.get("cost"), record.get("direct"))


@dataclass(frozen=True, slots=True)
class FoldReport(AsJson):
    """What a fold's text has kept of the facts of its run: names, paths, numbers, errors, decisions, constraints."""

    found: int
    kept: int
    lost: tuple[str, ...] = ()  # the weightiest that are missing, first

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> FoldReport:
        return cls(record["found"], record["kept"], tuple(record["lost"]))


@dataclass(frozen=True, slots=True)
class Fold(AsJson):
    """One replacement of a run of the log by a shorter text. One line of ``summaries.jsonl``.

    A ``summary`` stands as a message of its own. A ``preview`` keeps the envelope of the one message it replaces
    (role, tool call id, name) and shortens only its content, so that a tool result stays the answer to its call.
    """

    json_name = "fold"
    json_fields = (
        "id start_seq end_seq summary=text original_tokens summary_tokens=tokens ratio "
        "compressed_message_count=message_count tokens_saved created_at made_by reason form? replaces? report? "
        "trust?"
    )

    id: int
    start_seq: int
    end_seq: int
    text: str
    tokens: int
    original_tokens: int
    form: FoldForm = "summary"
    replaces: tuple[int, ...] = ()  # the folds that stood in this run before and come back when it is opened
    made_by: str = ""
    reason: str = ""
    created_at: str = ""
    report: FoldReport | None = None
    trust: Trust | None = None  # the lowest of what it was made of; unknown for folds of earlier versions

    @property
    def message_count(self) -> int:
        return self.end_seq - self.start_seq + 1

    @property
    def ratio(self) -> float:
        return round(self.tokens / self.original_tokens, 4) if self.original_tokens else 1.0

    @property
    def tokens_saved(self) -> int:
        return self.original_tokens - self.tokens

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Fold:
        report = record.get("report")
        return cls(
            id=record["id"],
            start_seq=record["start_seq"],
            end_seq=record["end_seq"],
            text=record["summary"],
            tokens=record["summary_tokens"],
            original_tokens=record["original_tokens"],
            form=record.get("form", "summary"),
            replaces=tuple(record.get("replaces", ())),
            made_by=record.get("made_by", ""),
            reason=record.get("reason", ""),
            created_at=record.get("created_at", ""),
            report=None if report is None else FoldReport.from_record(report),
            trust=record.get("trust"),
        )


@dataclass(frozen=True, slots=True, order=True)
class Pin(AsJson):
    """A message, or one line of it, that must survive every compression word for word."""

    json_name = "pinned"
    json_fields = "seq line?"

    seq: int
    line: str = ""  # empty: the whole message

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Pin:
        return cls(seq=record["seq"], line=record.get("line", ""))


@dataclass(frozen=True, slots=True)
class Compression(AsJson):
    """One recorded change of the view: a compression, its undoing, a pin. One line of ``compressions.jsonl``.

    ``folds`` came into the view and ``removed`` went out of it. ``visible`` and ``pins`` are the whole state after the
    change, so that a resume reads the last line only.
    """

    json_name = "compression"
    json_fields = (
        "id kind trigger strategy level folds removed before_tokens after_tokens after_entries parent made_by "
        "created_at visible pins calls?"
    )

    id: int
    kind: CompressionKind
    folds: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()
    visible: tuple[int, ...] = ()
    pins: tuple[Pin, ...] = ()
    trigger: str = "manual"
    strategy: str = ""
    level: str = ""
    before_tokens: int = 0
    after_tokens: int = 0
    after_entries: int | None = None  # of the view; not known of records made before this was counted
    parent: int | None = None  # the compression that an undo or redo is about
    made_by: str = ""
    created_at: str = ""
    calls: tuple[ModelCall, ...] = ()  # of models, beside the conversation, since the change before

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Compression:
        return cls(
            id=record["id"],
            kind=record["kind"],
            folds=tuple(record["folds"]),
            removed=tuple(record["removed"]),
            visible=tuple(record["visible"]),
            pins=tuple(Pin.from_record(pin) for pin in record["pins"]),
            trigger=record.get("trigger", ""),
            strategy=record.get("strategy", ""),
            level=record.get("level", ""),
            before_tokens=record.get("before_tokens", 0),
            after_tokens=record.get("after_tokens", 0),
            after_entries=record.get("after_entries"),
            parent=record.get("parent"),
            made_by=record.get("made_by", ""),
            created_at=record.get("created_at", ""),
            calls=tuple(map(ModelCall.from_record, record.get("calls", ()))),
        )


def _first_count(reported: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    for key in keys:
        if key in reported:
            return _count(reported, key)
    return None


def _count(reported: Mapping[str, Any], key: str) -> int:
    value = reported.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _MOST_TOKENS else 0
