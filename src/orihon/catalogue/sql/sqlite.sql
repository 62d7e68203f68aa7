-- Statements that only SQLite understands, or that need its hints: left to itself, it prefers tasks_by_status and reads
-- the whole line.

-- name: task_to_change
SELECT * FROM tasks WHERE uuid = :uuid; -- nobody else writes while this transaction lasts

-- name: task_to_take
SELECT * FROM tasks WHERE uuid = :uuid;

-- name: hold_claims
SELECT 1; -- nobody else claims while this transaction lasts

-- name: hold_user
SELECT 1; -- nobody else takes in a task while this transaction lasts

-- name: owned_tasks
SELECT * FROM tasks
WHERE uuid IN (
    SELECT uuid FROM tasks INDEXED BY tasks_leased WHERE lease_owner IS NOT NULL
    UNION
    SELECT uuid FROM tasks INDEXED BY tasks_by_status WHERE status = 'running'
)
ORDER BY +created_at, uuid;

-- name: any_claimable
SELECT 1
WHERE EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_in_line
        WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL
    )
    OR EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_to_resume WHERE status = 'paused' AND requested = 'resume')
    OR EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_put_off
        WHERE status = 'queued' AND available_at <= :now AND retry_due IS NULL AND requested IS NULL
    )
    OR EXISTS (
        SELECT 1 FROM tasks INDEXED BY tasks_to_retry
        WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL
            AND (retry_due <= :moment OR retry_due > :horizon OR retry_boot <> :boot)
    );

-- name: put_due_in_queue
UPDATE tasks INDEXED BY tasks_put_off SET available_at = NULL
WHERE status = 'queued' AND available_at <= :now AND retry_due IS NULL AND requested IS NULL;

-- name: put_retries_in_queue
UPDATE tasks INDEXED BY tasks_to_retry SET available_at = NULL, retry_due = NULL, retry_boot = NULL
WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL
    AND (retry_due <= :moment OR retry_due > :horizon OR retry_boot <> :boot);

-- name: first_in_queue
SELECT uuid FROM tasks INDEXED BY tasks_in_line
WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL
    AND (user = '' OR user NOT IN (
        SELECT user FROM tasks INDEXED BY tasks_claimed WHERE status = 'running' AND claimed = 1
        GROUP BY user HAVING count(*) >= :per_user
    ))
ORDER BY priority DESC, created_at, uuid LIMIT 1;

-- name: first_to_resume
SELECT uuid FROM tasks INDEXED BY tasks_to_resume
WHERE status = 'paused' AND requested = 'resume'
    AND (user = '' OR user NOT IN (
        SELECT user FROM tasks INDEXED BY tasks_claimed WHERE status = 'running' AND claimed = 1
        GROUP BY user HAVING count(*) >= :per_user
    ))
ORDER BY priority DESC, created_at, uuid LIMIT 1;

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
    AND (user = '' OR :per_user > (
        SELECT count(*) FROM tasks AS other INDEXED BY tasks_claimed
        WHERE other.status = 'running' AND other.claimed = 1 AND other.user = tasks.user
    ));

-- name: cancelled_pauses
SELECT * FROM tasks INDEXED BY tasks_to_cancel WHERE status = 'paused' AND requested = 'cancel';

-- name: count_waiting
SELECT
    (
        SELECT count(*) FROM tasks INDEXED BY tasks_in_line
        WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL
    ) + (
        SELECT count(*) FROM tasks INDEXED BY tasks_put_off
        WHERE status = 'queued' AND available_at IS NOT NULL AND retry_due IS NULL AND requested IS NULL
    ) + (
        SELECT count(*) FROM tasks INDEXED BY tasks_to_retry
        WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL
    ) + (
        SELECT count(*) FROM tasks INDEXED BY tasks_to_resume WHERE status = 'paused' AND requested = 'resume'
    ) AS waiting,
    (
        SELECT count(*) FROM tasks INDEXED BY tasks_claimed WHERE status = 'running' AND claimed = 1
    ) AS running;

-- name: permissions
SELECT * FROM permissions WHERE provider = :provider;

-- name: forget_workers
DELETE FROM workers WHERE updated_at < :before;

-- name: rebuild_rollups
DELETE FROM rollups;
INSERT INTO rollups SELECT * FROM counted_rollups;

-- name: leased_tasks
SELECT
    uuid, status, epoch, lease_owner, lease_host, lease_pid, lease_pid_start, lease_pid_space, lease_boot,
    lease_heartbeat, lease_until
FROM tasks INDEXED BY tasks_leased
WHERE lease_owner IS NOT NULL
ORDER BY lease_host, lease_owner, uuid;

-- name: queue_depth
SELECT
    (
        SELECT count(*) FROM tasks INDEXED BY tasks_put_off
        WHERE status = 'queued' AND available_at > :now AND retry_due IS NULL AND requested IS NULL
    ) + (
        SELECT count(*) FROM tasks INDEXED BY tasks_to_retry
        WHERE status = 'queued' AND retry_due > :moment AND requested IS NULL
    ) AS put_off,
    (
        SELECT count(*) FROM tasks INDEXED BY tasks_to_resume WHERE status = 'paused' AND requested = 'resume'
    ) AS to_resume;

-- name: having_words
NOT EXISTS (
    SELECT 1 FROM json_each(:words) AS word
    WHERE instr(
        lower(
            task_source || ':' || CASE WHEN repository = '' THEN task_type ELSE repository END
            || CASE WHEN task_type = 'merge_request' THEN '!' ELSE '#' END || task_id
            || ' ' || task_type || ' ' || "user" || ' ' || prompt || ' ' || ifnull(json_extract(metadata, '$.title'), '')
        ),
        word.value
    ) = 0
)

-- name: tasks_of
SELECT * FROM tasks WHERE uuid IN (SELECT value FROM json_each(:uuids)) ORDER BY created_at DESC, uuid DESC;

-- name: usage_of_tasks
SELECT
    uuid AS name, model, provider, purpose, calls, input_tokens, cached_tokens, output_tokens, saved_tokens, cost
FROM usage WHERE uuid IN (SELECT value FROM json_each(:uuids));

-- name: version
SELECT data_version AS version FROM pragma_data_version; -- another one after every change by another connection

-- name: hold_notifications
SELECT 1; -- nobody else writes while this transaction lasts

-- name: take_notification
UPDATE notifications SET webhook = 'sending', attempts = attempts + 1, due = :until, era = :era
WHERE id = (
    SELECT id FROM notifications
    WHERE webhook IN ('pending', 'sending')
        AND ((:early = 1 AND webhook = 'pending') OR due IS NULL OR due <= :moment OR due > :horizon OR era <> :era)
        AND id = :id
)
RETURNING *;

-- name: database_bytes
SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size;
