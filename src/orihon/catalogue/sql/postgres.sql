-- Statements that only PostgreSQL understands or needs: row locks, the server's clock, sums that are merged.

-- name: moment
SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision) AS seconds;

-- name: task_to_change
SELECT * FROM tasks WHERE uuid = :uuid FOR UPDATE;

-- name: task_to_take
SELECT * FROM tasks WHERE uuid = :uuid FOR UPDATE SKIP LOCKED;

-- name: hold_claims
SELECT pg_advisory_xact_lock(hashtextextended('orihon.claims ' || current_schema(), 0));

-- name: hold_user
SELECT pg_advisory_xact_lock(hashtextextended('orihon.user ' || current_schema() || ' ' || :user, 0));

-- Of the tasks with an owner only those are read whose owner may be gone: it was on this machine, or the lease ran out.
-- Every lease has to be looked at for the latter, so that is asked for less often (far). Without the prompts, which
-- are long and of no use here.

-- name: owned_tasks
SELECT
    uuid, task_source, owner, repo, task_type, task_id, task_identifier, repository, "user", status, created_at,
    updated_at, started_at, completed_at, process_id, hostname, llm_provider, model, context_length, backend,
    correction, llm_call_count, tool_call_count, total_tokens, compression_count, total_messages, total_summaries,
    total_tool_calls, final_token_count, final_message_count, view_tokens, error_message, metadata, lease_owner,
    lease_host, lease_pid, lease_pid_start, lease_pid_space, lease_boot, lease_heartbeat, lease_until, epoch,
    retry_count, max_retries, priority, available_at, parent_uuid, inherits_from, keep, claimed, attempts, requested,
    retry_due, retry_boot, source, '' AS prompt, size_bytes
FROM tasks
WHERE uuid IN (
    SELECT uuid FROM tasks
    WHERE lease_owner IS NOT NULL AND lease_host = :my_host AND lease_pid_space = :my_space AND lease_boot = :my_boot
    UNION ALL
    SELECT uuid FROM tasks WHERE status = 'running' AND lease_owner IS NULL
    UNION ALL
    SELECT uuid FROM tasks
    WHERE :far = 1 AND lease_owner IS NOT NULL
        AND (lease_until IS NULL OR lease_until <= :moment OR lease_heartbeat > :moment)
)
ORDER BY created_at, uuid;

-- name: cancelled_pauses
SELECT * FROM tasks WHERE status = 'paused' AND requested = 'cancel';

-- name: any_claimable
SELECT 1 AS found
WHERE EXISTS (SELECT 1 FROM tasks WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL)
    OR EXISTS (SELECT 1 FROM tasks WHERE status = 'paused' AND requested = 'resume')
    OR EXISTS (
        SELECT 1 FROM tasks
        WHERE status = 'queued' AND available_at <= :now AND retry_due IS NULL AND requested IS NULL
    )
    OR EXISTS (
        SELECT 1 FROM tasks
        WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL
            AND (retry_due <= :moment OR retry_due > :horizon OR retry_boot <> :boot)
    );

-- Rows that somebody else is changing are passed over: who changes them puts them in the queue, or the next claim does.

-- name: put_due_in_queue
UPDATE tasks SET available_at = NULL
WHERE uuid IN (
    SELECT uuid FROM tasks
    WHERE status = 'queued' AND available_at <= :now AND retry_due IS NULL AND requested IS NULL
    FOR UPDATE SKIP LOCKED
);

-- name: put_retries_in_queue
UPDATE tasks SET available_at = NULL, retry_due = NULL, retry_boot = NULL
WHERE uuid IN (
    SELECT uuid FROM tasks
    WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL
        AND (retry_due <= :moment OR retry_due > :horizon OR retry_boot <> :boot)
    FOR UPDATE SKIP LOCKED
);

-- name: first_in_queue
SELECT uuid FROM tasks
WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL
    AND (:is_limited = 0 OR "user" = '' OR "user" NOT IN (
        SELECT claimed."user" FROM tasks AS claimed WHERE claimed.status = 'running' AND claimed.claimed = 1
        GROUP BY claimed."user" HAVING count(*) >= :per_user
    ))
ORDER BY priority DESC, created_at, uuid LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: first_to_resume
SELECT uuid FROM tasks
WHERE status = 'paused' AND requested = 'resume'
    AND (:is_limited = 0 OR "user" = '' OR "user" NOT IN (
        SELECT claimed."user" FROM tasks AS claimed WHERE claimed.status = 'running' AND claimed.claimed = 1
        GROUP BY claimed."user" HAVING count(*) >= :per_user
    ))
ORDER BY priority DESC, created_at, uuid LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: task_in_queue
SELECT uuid FROM tasks
WHERE uuid = :uuid
    AND (
        (status = 'paused' AND requested = 'resume')
        OR (status = 'queued' AND requested IS NULL AND (
            available_at IS NULL
            OR (retry_due IS NULL AND available_at <= :now)
            OR retry_due <= :moment OR retry_due > :horizon OR retry_boot <> :boot
        ))
    )
    AND (:is_limited = 0 OR "user" = '' OR :per_user > (
        SELECT count(*) FROM tasks AS other
        WHERE other.status = 'running' AND other.claimed = 1 AND other."user" = tasks."user"
    ));

-- name: count_waiting
SELECT
    (SELECT count(*) FROM tasks WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL)
    + (
        SELECT count(*) FROM tasks
        WHERE status = 'queued' AND available_at IS NOT NULL AND retry_due IS NULL AND requested IS NULL
    )
    + (SELECT count(*) FROM tasks WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL)
    + (SELECT count(*) FROM tasks WHERE status = 'paused' AND requested = 'resume') AS waiting,
    (SELECT count(*) FROM tasks WHERE status = 'running' AND claimed = 1) AS running;

-- name: permissions
SELECT * FROM permissions WHERE provider = :provider FOR UPDATE;

-- name: forget_workers
DELETE FROM workers
WHERE name IN (SELECT name FROM workers WHERE updated_at < :before FOR UPDATE SKIP LOCKED);

-- name: hold_merging
SELECT pg_try_advisory_xact_lock(hashtextextended('orihon.rollups ' || current_schema(), 0)) AS is_mine;

-- name: merge_rollups
WITH taken AS (
    DELETE FROM rollup_parts
    WHERE number IN (SELECT number FROM rollup_parts ORDER BY number LIMIT 50000 FOR UPDATE SKIP LOCKED)
    RETURNING *
)
INSERT INTO rollup_sums AS stored
SELECT
    "user", repository, status, sum(tasks), sum(messages), sum(tokens), sum(llm_calls), sum(tool_calls),
    sum(compressions), sum(timed_tasks), sum(run_milliseconds)
FROM taken
GROUP BY "user", repository, status
ON CONFLICT ("user", repository, status) DO UPDATE SET
    tasks = stored.tasks + excluded.tasks,
    messages = stored.messages + excluded.messages,
    tokens = stored.tokens + excluded.tokens,
    llm_calls = stored.llm_calls + excluded.llm_calls,
    tool_calls = stored.tool_calls + excluded.tool_calls,
    compressions = stored.compressions + excluded.compressions,
    timed_tasks = stored.timed_tasks + excluded.timed_tasks,
    run_milliseconds = stored.run_milliseconds + excluded.run_milliseconds;

-- name: drop_empty_sums
DELETE FROM rollup_sums
WHERE (tasks, messages, tokens, llm_calls, tool_calls, compressions, timed_tasks, run_milliseconds)
    = (0, 0, 0, 0, 0, 0, 0, 0);

-- The difference is appended, and read in one snapshot: whoever writes meanwhile adds to it and is not counted twice.

-- name: rebuild_rollups
INSERT INTO rollup_parts
SELECT
    "user", repository, status, sum(tasks), sum(messages), sum(tokens), sum(llm_calls), sum(tool_calls),
    sum(compressions), sum(timed_tasks), sum(run_milliseconds)
FROM (
    SELECT * FROM counted_rollups
    UNION ALL
    SELECT
        "user", repository, status, -tasks, -messages, -tokens, -llm_calls, -tool_calls, -compressions, -timed_tasks,
        -run_milliseconds
    FROM rollups
) AS each
GROUP BY "user", repository, status
HAVING (sum(tasks), sum(messages), sum(tokens), sum(llm_calls), sum(tool_calls), sum(compressions), sum(timed_tasks),
    sum(run_milliseconds)) <> (0, 0, 0, 0, 0, 0, 0, 0);

-- name: leased_tasks
SELECT
    uuid, status, epoch, lease_owner, lease_host, lease_pid, lease_pid_start, lease_pid_space, lease_boot,
    lease_heartbeat, lease_until
FROM tasks
WHERE lease_owner IS NOT NULL
ORDER BY lease_host, lease_owner, uuid;

-- name: queue_depth
SELECT
    (
        SELECT count(*) FROM tasks
        WHERE status = 'queued' AND available_at > :now AND retry_due IS NULL AND requested IS NULL
    ) + (
        SELECT count(*) FROM tasks WHERE status = 'queued' AND retry_due > :moment AND requested IS NULL
    ) AS put_off,
    (SELECT count(*) FROM tasks WHERE status = 'paused' AND requested = 'resume') AS to_resume;

-- name: having_words
NOT EXISTS (
    SELECT 1 FROM jsonb_array_elements_text(CAST(:words AS jsonb)) AS word (sought)
    WHERE position(
        word.sought IN lower(
            task_source || ':' || CASE WHEN repository = '' THEN task_type ELSE repository END
            || CASE WHEN task_type = 'merge_request' THEN '!' ELSE '#' END || task_id
            || ' ' || task_type || ' ' || "user" || ' ' || prompt || ' ' || coalesce(CAST(metadata AS jsonb) ->> 'title', '')
        )
    ) = 0
)

-- name: tasks_of
SELECT * FROM tasks WHERE uuid IN (SELECT jsonb_array_elements_text(CAST(:uuids AS jsonb)))
ORDER BY created_at DESC, uuid DESC;

-- name: usage_of_tasks
SELECT
    uuid AS name, model, provider, purpose, calls, input_tokens, cached_tokens, output_tokens, saved_tokens, cost
FROM usage WHERE uuid IN (SELECT jsonb_array_elements_text(CAST(:uuids AS jsonb)));

-- name: version
SELECT CAST(txid_current_snapshot() AS text) AS version; -- another one while and after anybody changes anything

-- Whoever holds this gives out the next numbers of the feed; see the function tell_of_task.

-- name: hold_notifications
SELECT pg_advisory_xact_lock(hashtextextended('orihon.notifications ' || current_schema(), 0));

-- name: take_notification
UPDATE notifications SET webhook = 'sending', attempts = attempts + 1, due = :until, era = :era
WHERE id = (
    SELECT id FROM notifications
    WHERE webhook IN ('pending', 'sending')
        AND ((:early = 1 AND webhook = 'pending') OR due IS NULL OR due <= :moment OR due > :horizon OR era <> :era)
        AND id = :id
    FOR UPDATE SKIP LOCKED
)
RETURNING *;

-- Every table of the schema, with its indexes: the records of tasks, too, where they are in the database.

-- name: database_bytes
SELECT CAST(coalesce(sum(pg_total_relation_size(pg_class.oid)), 0) AS bigint) AS bytes
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
WHERE pg_namespace.nspname = current_schema() AND pg_class.relkind IN ('r', 'm');
