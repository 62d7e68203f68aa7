"""The schemas by command and form, in the order of the help page."""

from __future__ import annotations

from orihon.reports.shapes.shapes import (
    ANY,
    ARCHIVED,
    COSTS,
    DEFINITIONS,
    FLAG,
    GROUP,
    IMPORTED,
    INHERITED,
    LEASE,
    LOOK,
    NOTIFICATION,
    NUMBER,
    OBJECT,
    PLAN,
    STATUS,
    SUMS,
    TEXT,
    WHOLE,
    WORKER,
    Schema,
    many,
    maybe,
    one_of,
    plus,
    ref,
    shape,
    table,
)

_CHANGE = {"": ref("compression")}
_QUEUED = {"": ref("queued")}
_ANSWERED = {"": ref("answered")}
_NOTHING = shape(folds=many(OBJECT), nothing=TEXT, strategy=TEXT)
_EXPORTED = shape(
    exported=many(shape(task=TEXT, format=TEXT, file=maybe(TEXT), bytes=WHOLE)),
    failed=many(shape(task=TEXT, reason=TEXT)),
)
_VIEW = shape(
    task=TEXT,
    status=TEXT,
    entries=WHOLE,
    tokens=WHOLE,
    budget=WHOLE,
    usage=NUMBER,
    view=many(ref("entry")),
)
_GRANT = shape(
    id=TEXT, user=TEXT, role=TEXT, name=TEXT, created_at=TEXT, expires_at=maybe(TEXT), revoked_at=maybe(TEXT)
)
_FOLD = plus(DEFINITIONS["fold"], compression=maybe(WHOLE), strategy=TEXT, level=TEXT, visible=FLAG)
SCHEMAS: dict[str, dict[str, Schema]] = {
    "list": {"": shape(tasks=many(ref("row")))},
    "show": {
        "": shape(
            task=TEXT,
            row=maybe(ref("row")),
            label=maybe(TEXT),
            records=one_of("here", "archived", "removed", "none"),
            figures=maybe(ref("record_figures")),
            inherited=maybe(shape(final_summary=FLAG, plans=WHOLE, open_problems=WHOLE, earlier=WHOLE)),
            children=many(shape(uuid=TEXT, status=STATUS, label=TEXT)),
            final_summary=TEXT,
            last_messages=many(ref("message")),
        ),
        "--messages --summaries --tools --plans --folds --inherited": shape(
            "inherited messages summaries tools plans folds",
            task=TEXT,
            inherited=maybe(INHERITED),
            messages=many(ref("message")),
            summaries=many(ref("fold")),
            tools=many(
                shape(
                    "call_id error duration_ms",
                    seq=WHOLE,
                    tool_name=TEXT,
                    arguments=ANY,
                    result=ANY,
                    status=TEXT,
                    error=maybe(TEXT),
                    duration_ms=maybe(NUMBER),
                    timestamp=TEXT,
                    call_id=TEXT,
                )
            ),
            plans=many(shape(id=WHOLE, plan_type=TEXT, plan_content=ANY, created_at=TEXT)),
            folds=many(ref("fold")),
        ),
        "--follow": ref("message"),
        "--export-html FILE": _EXPORTED,
    },
    "view": {
        "": _VIEW,
        "--at SEQ": plus(_VIEW, at=WHOLE, compression=WHOLE, answered_by=maybe(WHOLE)),
        "--folds": shape(task=TEXT, compressions=many(ref("undoable_compression"))),
        "--fold N": _FOLD,
        "--fold N --original": plus(_FOLD, originals=many(ref("message"))),
    },
    "diff": {
        "": shape(
            task=TEXT,
            compression=ref("compression"),
            last_seq=WHOLE,
            before=ref("view_figures"),
            after=ref("view_figures"),
            hunks=many(shape(start_seq=WHOLE, end_seq=WHOLE, gone=many(ref("entry")), come=many(ref("entry")))),
            pinned=many(ref("pin")),
            unpinned=many(ref("pin")),
        )
    },
    "chain": {
        "": shape(
            tasks=many(
                shape(
                    uuid=TEXT,
                    status=STATUS,
                    created_at=TEXT,
                    started_at=maybe(TEXT),
                    completed_at=maybe(TEXT),
                    heritage=one_of("off", "none", "undecided", "from"),
                    inherits_from=maybe(TEXT),
                    inherited=maybe(shape(final_summary=FLAG, plans=WHOLE, open_problems=WHOLE, earlier=WHOLE)),
                )
            )
        )
    },
    "search": {
        "": shape(
            "rebuilt",
            rebuilt=WHOLE,
            matches=WHOLE,
            has_more=FLAG,
            current=FLAG,
            problems=table(TEXT),
            hits=many(
                shape(
                    task=TEXT,
                    label=TEXT,
                    status=TEXT,
                    kind=one_of("message", "summary", "tool", "plan"),
                    seq=WHOLE,
                    time=maybe(TEXT),
                    role=maybe(TEXT),
                    tools=many(TEXT),
                    score=NUMBER,
                    folded=FLAG,
                    fold=maybe(WHOLE),
                    covers=maybe(many(WHOLE)),
                    text=maybe(TEXT),
                    highlights=many(many(WHOLE)),
                    cut=maybe(shape(before=FLAG, after=FLAG)),
                )
            ),
        )
    },
    "export": {"": _EXPORTED},
    "import": {
        "": shape(
            dry_run=FLAG,
            clean=FLAG,
            files=WHOLE,
            imported=WHOLE,
            unchanged=WHOLE,
            skipped=WHOLE,
            others=WHOLE,
            growing=WHOLE,
            size=WHOLE,
            new_tasks=WHOLE,
            grown_tasks=WHOLE,
            messages=WHOLE,
            folds=WHOLE,
            tool_calls=WHOLE,
            plans=WHOLE,
            mended=table(WHOLE),
            formats=table(WHOLE),
            problem_count=WHOLE,
            tasks=many(IMPORTED),
            problems=many(shape(path=TEXT, line=WHOLE, cause=TEXT, times=WHOLE, text=TEXT)),
            other_files=many(TEXT),
        )
    },
    "compress": {"": {"anyOf": [ref("compression"), _NOTHING]}, "--preview": {"anyOf": [PLAN, _NOTHING]}},
    "undo": _CHANGE,
    "redo": _CHANGE,
    "rewind": _CHANGE,
    "fork": {
        "": shape(
            uuid=TEXT,
            status=STATUS,
            forked_from=shape(uuid=TEXT, at=WHOLE),
            messages=WHOLE,
            entries=WHOLE,
            tokens=WHOLE,
        )
    },
    "unfold": _CHANGE,
    "edit": {"": maybe(ref("compression"))},
    "pin": _CHANGE,
    "unpin": _CHANGE,
    "enqueue": _QUEUED,
    "worker": {
        "": shape(
            workers=many(OBJECT),
            total_tasks_processed=WHOLE,
            total_tasks_failed=WHOLE,
            total_db_size_mb=NUMBER,
            waiting=WHOLE,
            running=WHOLE,
            tasks=table(WHOLE),
        )
    },
    "pause": _QUEUED,
    "resume": _QUEUED,
    "cancel": _QUEUED,
    "retry": _QUEUED,
    "approvals": {
        "": shape(
            pending=many(shape(uuid=TEXT, task=TEXT, checkpoint=ref("checkpoint"))),
            reminded=many(ANY),
            expired=many(ANY),
            settled=many(ANY),
        )
    },
    "approve": _ANSWERED,
    "reject": _ANSWERED,
    "revise": _ANSWERED,
    "notifications": {
        "": shape(notifications=many(NOTIFICATION)),
        "--follow": NOTIFICATION,
        "--deliver": shape(delivered=WHOLE, failed=WHOLE, given_up=WHOLE, waiting=WHOLE),
    },
    "restore": {"": shape(uuid=TEXT, folds=many(WHOLE), before_tokens=WHOLE, after_tokens=WHOLE)},
    "archive": {"": shape(archived=many(ARCHIVED), left=many(ref("left"))), "--dry-run": ref("retention_run")},
    "unarchive": {"": shape(uuid=TEXT, folder=maybe(TEXT))},
    "keep": {"": shape(uuid=TEXT, keep=FLAG)},
    "cleanup": {"": ref("retention_run")},
    "vacuum": {"": ref("vacuum_run")},
    "maintain": {
        "": shape(
            cleanup=ref("retention_run"),
            archive=ref("retention_run"),
            vacuum=ref("vacuum_run"),
            phase_archives=many(ANY),
            notifications=shape(removed=WHOLE, delivered=WHOLE, failed=WHOLE, given_up=WHOLE, waiting=WHOLE),
        )
    },
    "tools": {
        "": shape(
            tools=many(shape(name=TEXT, server=TEXT, repeatable=FLAG, description=TEXT)),
            changed=table(many(TEXT)),
            approved=many(TEXT),
        )
    },
    "verify": {
        "": shape(
            task=TEXT,
            clean=FLAG,
            findings=many(ref("finding")),
            records=maybe(one_of("read", "archived", "removed", "none")),
            archive=maybe(OBJECT),
            redacted=WHOLE,
            redacted_secrets=WHOLE,
            redacted_people=WHOLE,
        )
    },
    "scan": {
        "": shape(
            clean=FLAG,
            fixed=FLAG,
            tasks=many(
                shape(
                    task=TEXT,
                    found=many(shape(where=TEXT, number=WHOLE, kinds=many(TEXT))),
                    fixed=FLAG,
                    left_out=maybe(one_of("archived", "busy", "unreadable", "unpacked")),
                    reason=TEXT,
                )
            ),
        )
    },
    "doctor": {"": shape(base_dir=TEXT, clean=FLAG, repaired=WHOLE, findings=many(ref("finding")))},
    "backup": {
        "": shape(
            run=TEXT,
            place=TEXT,
            tasks=WHOLE,
            files=WHOLE,
            size=WHOLE,
            new_pieces=WHOLE,
            sent=WHOLE,
            removed_backups=WHOLE,
            removed_pieces=WHOLE,
        ),
        "--list": shape(
            backups=many(shape(run=TEXT, created_at=TEXT, tasks=WHOLE, files=WHOLE, size=WHOLE, manifest_sha256=TEXT))
        ),
        "--check": shape(backups=WHOLE, pieces=WHOLE, size=WHOLE, clean=FLAG, damage=many(OBJECT)),
        "--restore-to FOLDER": shape(run=TEXT, folder=TEXT, tasks=WHOLE, files=WHOLE, size=WHOLE),
    },
    "migrate": {
        "": shape(
            from_=TEXT,
            to=TEXT,
            dry_run=FLAG,
            moved=many(TEXT),
            rows=many(TEXT),
            finished=many(TEXT),
            skipped=many(shape(uuid=TEXT, why=TEXT)),
            failed=many(shape(uuid=TEXT, why=TEXT)),
        )
    },
    "keys show": {
        "": shape(
            enabled=FLAG,
            source=maybe(TEXT),
            master=maybe(TEXT),
            place=TEXT,
            data_keys=table(WHOLE),
            to_rotate=WHOLE,
            erased=WHOLE,
        )
    },
    "keys new": {"": shape(master=TEXT, file=TEXT)},
    "keys rotate": {"": shape(rotated=WHOLE, current=WHOLE)},
    "audit show": {
        "": shape(
            records=many(
                shape(
                    chain=TEXT,
                    number=WHOLE,
                    time=TEXT,
                    action=TEXT,
                    task=TEXT,
                    who=TEXT,
                    user=maybe(TEXT),
                    address=maybe(TEXT),
                    process={"type": ["integer", "string"]},
                    host=TEXT,
                    result=TEXT,
                    details=OBJECT,
                )
            )
        )
    },
    "audit verify": {
        "": shape(
            sound=FLAG,
            chains=WHOLE,
            records=WHOLE,
            anchors=WHOLE,
            forgotten=WHOLE,
            heads=many(shape(chain=TEXT, number=WHOLE, hash=TEXT)),
            findings=many(shape(kind=TEXT, chain=TEXT, number=WHOLE, message=TEXT)),
        )
    },
    "workers": {
        "": shape(
            hosts=many(ref("host")),
            workers=many(WORKER),
            leases=many(LEASE),
        )
    },
    "stats": {
        "": shape(
            tasks=table(WHOLE),
            queue=shape(waiting=WHOLE, put_off=WHOLE, to_resume=WHOLE, running=WHOLE),
            hosts=many(ref("host")),
            workers=table(WHOLE),
            leases=shape(held=WHOLE, stale=WHOLE),
            take_overs=WHOLE,
            average_minutes=maybe(NUMBER),
            messages=WHOLE,
            tokens=WHOLE,
            llm_calls=WHOLE,
            tool_calls=WHOLE,
            compressions=WHOLE,
        ),
        "--summary": shape(
            tasks=WHOLE,
            bytes=WHOLE,
            unmeasured=WHOLE,
            active=GROUP,
            archived=GROUP,
            old=GROUP,
            cleaned=GROUP,
            archive_days=WHOLE,
            retention_days=WHOLE,
            messages=WHOLE,
            summaries=WHOLE,
            messages_per_task=NUMBER,
            compressions=WHOLE,
            biggest=many(shape(uuid=TEXT, label=TEXT, status=STATUS, bytes=WHOLE)),
            by_status=table(WHOLE),
            by_user=SUMS,
            by_repository=SUMS,
        ),
        "TASK": shape(
            task=TEXT,
            label=maybe(TEXT),
            status=maybe(STATUS),
            minutes=maybe(NUMBER),
            llm_call_count=maybe(WHOLE),
            tool_call_count=maybe(WHOLE),
            total_tokens=maybe(WHOLE),
            compression_count=maybe(WHOLE),
            total_messages=maybe(WHOLE),
            records=TEXT,
            figures=maybe(ref("record_figures")),
        ),
    },
    "monitor": {
        "": LOOK,
        "--every": LOOK,
        "--report": shape(
            month=TEXT,
            created=WHOLE,
            ended=table(WHOLE),
            calls=WHOLE,
            input_tokens=WHOLE,
            output_tokens=WHOLE,
            saved_tokens=WHOLE,
            cost=maybe(NUMBER),
            compressions=WHOLE,
            compression_failures=WHOLE,
            lock_errors=WHOLE,
            notifications=table(WHOLE),
            biggest=many(shape(uuid=TEXT, label=TEXT, status=STATUS, tokens=WHOLE, messages=WHOLE)),
        ),
    },
    "costs": {"": shape(by=TEXT, since=maybe(TEXT), until=maybe(TEXT), lines=many(COSTS), total=COSTS, left_out=WHOLE)},
    "metrics": {"": shape(metrics=table(NUMBER))},
    "serve": {
        "": shape(address=TEXT, token=maybe(TEXT), read_only=FLAG),
        "--show-token": shape(token=TEXT),
    },
    "privacy export": {"": shape(user=TEXT, folder=TEXT, tasks=many(TEXT), left=many(TEXT))},
    "privacy erase": {
        "": shape(
            user=TEXT,
            tasks=many(TEXT),
            failed=many(shape(task=TEXT, reason=TEXT)),
            left=many(shape(place=TEXT, reason=TEXT)),
            grants=WHOLE,
            audit_names=WHOLE,
            unread=many(shape(task=TEXT, reason=TEXT)),
        ),
    },
    "privacy anonymize": {"": shape(task=TEXT, records=WHOLE, replaced=WHOLE)},
    "grants new": {"": plus(_GRANT, token=TEXT)},
    "grants list": {"": shape(grants=many(_GRANT))},
    "grants revoke": {"": _GRANT},
    "squeeze": {
        "": shape(
            budget=WHOLE,
            before_tokens=WHOLE,
            after_tokens=WHOLE,
            kept=many(WHOLE),
            shortened=many(WHOLE),
            folded=many(shape(start_seq=WHOLE, end_seq=WHOLE)),
            facts=shape(found=WHOLE, kept=WHOLE, lost=many(TEXT)),
            messages=many(OBJECT),
        )
    },
    "completion": {"": shape(shell=one_of("bash", "zsh", "fish"), script=TEXT)},
    "demo": {"": OBJECT, "--phases": OBJECT},
    "config show": {
        "": shape(
            file=maybe(TEXT),
            settings=many(shape(key=TEXT, value=ANY, origin=TEXT, default=ANY, meaning=TEXT)),
        )
    },
    "init": {"": shape(config=TEXT, base_dir=TEXT)},
}
