"""Words to write JSON Schemas with, and the shapes that several commands print."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}
OBJECT: Schema = {"type": "object"}  # whatever its fields are


def shape(_optional: str = "", **fields: Schema) -> Schema:
    """An object with these fields and no others; ``_optional`` names those that may be missing."""
    may_miss = _optional.split()
    return {
        "type": "object",
        "properties": {name.rstrip("_"): field for name, field in fields.items()},
        "required": [name.rstrip("_") for name in fields if name.rstrip("_") not in may_miss],
        "additionalProperties": False,
    }


def many(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def table(values: Schema) -> Schema:
    """An object whose keys are names."""
    return {"type": "object", "additionalProperties": values}


def maybe(schema: Schema) -> Schema:
    """The same, or null."""
    if set(schema) == {"type"} and isinstance(schema["type"], str):
        return {"type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*values: str) -> Schema:
    """One of these words."""
    return {"enum": list(values)}


def ref(name: str) -> Schema:
    """A shape of ``DEFINITIONS``."""
    return {"$ref": f"#/$defs/{name}"}


def plus(schema: Schema, **fields: Schema) -> Schema:
    """An object with more fields."""
    more = shape("", **fields)
    return {
        **schema,
        "properties": {**schema["properties"], **more["properties"]},
        "required": [*schema["required"], *more["required"]],
    }


STATUS = one_of("queued", "running", "paused", "waiting", "completed", "failed", "cancelled", "dead", "archived")
_FOLD_RECORD = shape(
    "form replaces report trust",
    id=WHOLE,
    start_seq=WHOLE,
    end_seq=WHOLE,
    summary=TEXT,
    original_tokens=WHOLE,
    summary_tokens=WHOLE,
    ratio=NUMBER,
    compressed_message_count=WHOLE,
    tokens_saved=WHOLE,
    created_at=TEXT,
    made_by=TEXT,
    reason=TEXT,
    form=one_of("summary", "preview"),
    replaces=many(WHOLE),
    report=shape(found=WHOLE, kept=WHOLE, lost=many(TEXT)),
    trust=one_of("system", "user", "assistant", "tool"),
)
_CALL = shape("usage cost", model=TEXT, usage=maybe(table(WHOLE)), cost=maybe(NUMBER))
_COMPRESSION = shape(
    "calls",
    id=WHOLE,
    kind=one_of("compress", "undo", "redo", "unfold", "pin", "edit"),
    trigger=TEXT,
    strategy=TEXT,
    level=TEXT,
    folds=many(WHOLE),
    removed=many(WHOLE),
    before_tokens=WHOLE,
    after_tokens=WHOLE,
    after_entries=maybe(WHOLE),
    parent=maybe(WHOLE),
    made_by=TEXT,
    created_at=TEXT,
    visible=many(WHOLE),
    pins=many(ref("pin")),
    calls=many(_CALL),
)

#: Shapes that stand in the output of several commands.
DEFINITIONS: dict[str, Schema] = {
    "row": shape(
        uuid=TEXT,
        task_source=TEXT,
        owner=TEXT,
        repo=TEXT,
        task_type=TEXT,
        task_id=TEXT,
        task_identifier=TEXT,
        repository=TEXT,
        user=TEXT,
        status=STATUS,
        created_at=TEXT,
        updated_at=TEXT,
        started_at=maybe(TEXT),
        completed_at=maybe(TEXT),
        process_id=maybe(WHOLE),
        hostname=maybe(TEXT),
        llm_provider=maybe(TEXT),
        model=maybe(TEXT),
        context_length=maybe(WHOLE),
        backend=maybe(TEXT),
        correction=NUMBER,
        llm_call_count=WHOLE,
        tool_call_count=WHOLE,
        total_tokens=WHOLE,
        compression_count=WHOLE,
        total_messages=WHOLE,
        total_summaries=WHOLE,
        total_tool_calls=WHOLE,
        final_token_count=maybe(WHOLE),
        final_message_count=maybe(WHOLE),
        view_tokens=maybe(WHOLE),
        error_message=maybe(TEXT),
        metadata=OBJECT,
        lease_owner=maybe(TEXT),
        epoch=WHOLE,
        retry_count=WHOLE,
        max_retries=maybe(WHOLE),
        priority=WHOLE,
        available_at=maybe(TEXT),
        parent_uuid=maybe(TEXT),
        inherits_from=maybe(TEXT),
        keep=FLAG,
        claimed=FLAG,
        attempts=WHOLE,
        requested=maybe(TEXT),
        retry_due=maybe(NUMBER),
        retry_boot=maybe(TEXT),
        source=TEXT,
        prompt=TEXT,
        size_bytes=maybe(WHOLE),
    ),
    "message": shape(
        seq=WHOLE,
        tokens=WHOLE,
        timestamp=TEXT,
        call=maybe(_CALL),
        message=OBJECT,
    ),
    "fold": _FOLD_RECORD,
    "pin": shape("line", seq=WHOLE, line=TEXT),
    "compression": _COMPRESSION,
    "undoable_compression": plus(_COMPRESSION, undone=FLAG),
    "entry": shape(
        start_seq=WHOLE,
        end_seq=WHOLE,
        role=TEXT,
        tokens=WHOLE,
        pins=many(ref("pin")),
        fold=maybe(
            shape(
                id=WHOLE,
                form=one_of("summary", "preview"),
                messages=WHOLE,
                original_tokens=WHOLE,
                reason=TEXT,
                made_by=TEXT,
                compression=maybe(WHOLE),
                strategy=TEXT,
                level=TEXT,
            )
        ),
        message=OBJECT,
    ),
    "view_figures": shape(entries=WHOLE, tokens=WHOLE, budget=WHOLE, usage=NUMBER),
    "record_figures": shape(
        messages=WHOLE,
        summaries=WHOLE,
        tools=WHOLE,
        tool_errors=maybe(WHOLE),
        plans=WHOLE,
        compressions=WHOLE,
        bytes=WHOLE,
        view=ref("view_figures"),
    ),
    "left": shape(uuid=TEXT, reason=TEXT, error=TEXT),
    "retention_run": shape(
        dry_run=FLAG,
        tasks=many(shape(uuid=TEXT, bytes=WHOLE)),
        left=many(ref("left")),
        bytes_before=WHOLE,
        bytes_after=maybe(WHOLE),
        counts_before=table(WHOLE),
        counts_after=table(WHOLE),
    ),
    "vacuum_run": shape(dry_run=FLAG, databases=WHOLE, bytes_before=WHOLE, bytes_after=maybe(WHOLE), left=many(OBJECT)),
    "finding": shape(
        task=maybe(TEXT),
        check=TEXT,
        detail=TEXT,
        where=TEXT,
        severity=one_of("error", "warning"),
        cause=TEXT,
        remedy=TEXT,
        repair=one_of("none", "possible", "done", "failed"),
        note=maybe(TEXT),
        fields=OBJECT,
    ),
    "checkpoint": shape(
        id=WHOLE,
        name=TEXT,
        question=TEXT,
        context=TEXT,
        phase=TEXT,
        created_at=TEXT,
        expires_at=maybe(TEXT),
        reminders=WHOLE,
        answer=maybe(
            shape(
                decision=one_of("approve", "reject", "revise"),
                by=TEXT,
                at=TEXT,
                comment=TEXT,
                seq=maybe(WHOLE),
                sections=many(TEXT),
            )
        ),
    ),
    "host": shape(host=TEXT, workers=WHOLE, working=WHOLE, processed=WHOLE, failed=WHOLE, leases=WHOLE),
    "queued": shape(uuid=TEXT, status=STATUS, requested=maybe(TEXT), owner=maybe(TEXT)),
    "answered": shape(
        uuid=TEXT,
        status=STATUS,
        requested=maybe(TEXT),
        checkpoint=ref("checkpoint"),
        before_tokens=WHOLE,
        after_tokens=WHOLE,
        waits_for=maybe(WHOLE),
    ),
}

PLAN = shape(
    strategy=TEXT,
    before_tokens=WHOLE,
    after_tokens=WHOLE,
    goal=ANY,
    folds=many(
        shape(
            start_seq=WHOLE,
            end_seq=WHOLE,
            form=one_of("summary", "preview"),
            reason=TEXT,
            text=TEXT,
            report=maybe(shape(found=WHOLE, kept=WHOLE, lost=many(TEXT))),
        )
    ),
)
INHERITED = shape(
    uuid=TEXT,
    status=STATUS,
    final_summary=TEXT,
    plans=many(OBJECT),
    open_problems=many(TEXT),
    earlier=many(shape(uuid=TEXT, final_summary=TEXT)),
)
GROUP = shape(tasks=WHOLE, bytes=WHOLE)
SUMS = table(shape(tasks=WHOLE, messages=WHOLE, tokens=WHOLE))
COSTS = shape(
    name=TEXT,
    label=TEXT,
    calls=WHOLE,
    input_tokens=WHOLE,
    cached_tokens=WHOLE,
    output_tokens=WHOLE,
    cost=maybe(NUMBER),
    reported_cost=NUMBER,
    summary_calls=WHOLE,
    summary_cost=NUMBER,
    unpriced_calls=WHOLE,
    unpriced_models=many(TEXT),
    saved_tokens=WHOLE,
    saved_cost=maybe(NUMBER),
    net_saved_cost=maybe(NUMBER),
)
NOTIFICATION: Schema = {
    "type": "object",  # and what its kind has to say
    "properties": {
        "number": WHOLE,
        "id": TEXT,
        "created_at": TEXT,
        "task": maybe(TEXT),
        "kind": TEXT,
        "type": TEXT,
        "message": TEXT,
        "webhook": shape(state=TEXT, attempts=WHOLE, last_error=maybe(TEXT)),
    },
    "required": ["number", "id", "created_at", "task", "kind", "type", "message", "webhook"],
}
ARCHIVED = shape(
    uuid=TEXT,
    key=TEXT,
    place=TEXT,
    format=TEXT,
    bytes=WHOLE,
    sha256=TEXT,
    members=WHOLE,
    content_bytes=WHOLE,
    content_sha256=TEXT,
    status=STATUS,
    created_at=TEXT,
)
IMPORTED = shape(
    uuid=maybe(TEXT),
    format=TEXT,
    path=TEXT,
    title=TEXT,
    is_new=FLAG,
    parent=maybe(TEXT),
    messages=WHOLE,
    folds=WHOLE,
    tool_calls=WHOLE,
    plans=WHOLE,
)
LOOK = shape(
    at=TEXT,
    checks=many(shape(name=TEXT, value=maybe(NUMBER), limit=NUMBER, is_wrong=FLAG)),
    raised=many(TEXT),
    ended=many(TEXT),
)
WORKER = shape(
    name=TEXT,
    worker_id=TEXT,
    host=TEXT,
    pid=WHOLE,
    state=TEXT,
    task_uuid=maybe(TEXT),
    processed=WHOLE,
    failed=WHOLE,
    started_at=TEXT,
    updated_at=TEXT,
    heartbeat_age=maybe(NUMBER),
)
LEASE = shape(uuid=TEXT, status=TEXT, owner=TEXT, host=TEXT, pid=WHOLE, epoch=WHOLE, seconds_left=NUMBER, is_stale=FLAG)
