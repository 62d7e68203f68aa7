-- The statements of the catalogue, by name. "{conditions}" stands for the conditions below that the caller names.

-- name: insert_task
INSERT INTO tasks (
    uuid, task_source, owner, repo, task_type, task_id, task_identifier, repository, user, status, created_at,
    updated_at, started_at, completed_at, process_id, hostname, llm_provider, model, context_length, backend,
    correction, llm_call_count, tool_call_count, total_tokens, compression_count, total_messages, total_summaries,
    total_tool_calls, final_token_count, final_message_count, view_tokens, error_message, metadata, epoch,
    retry_count, max_retries, priority, available_at, parent_uuid, inherits_from, keep, claimed, attempts, requested,
    retry_due, retry_boot, source, prompt
) VALUES (
    :uuid, :task_source, :owner, :repo, :task_type, :task_id, :task_identifier, :repository, :user, :status,
    :created_at, :updated_at, :started_at, :completed_at, :process_id, :hostname, :llm_provider, :model,
    :context_length, :backend, :correction, :llm_call_count, :tool_call_count, :total_tokens, :compression_count,
    :total_messages, :total_summaries, :total_tool_calls, :final_token_count, :final_message_count, :view_tokens,
    :error_message, :metadata, :epoch, :retry_count, :max_retries, :priority, :available_at, :parent_uuid,
    :inherits_from, :keep, :claimed, :attempts, :requested, :retry_due, :retry_boot, :source, :prompt
);

-- name: task
SELECT * FROM tasks WHERE uuid = :uuid;

-- name: tasks_by_prefix
SELECT * FROM tasks WHERE uuid >= :first AND uuid < :beyond ORDER BY uuid LIMIT :limit;

-- name: list_tasks
SELECT * FROM tasks WHERE {conditions} ORDER BY created_at DESC, uuid DESC LIMIT :limit;

-- name: having_status
status = :status

-- name: having_user
user = :user

-- name: having_repository
repository = :repository

-- name: older_than
(created_at, uuid) < (SELECT last.created_at, last.uuid FROM tasks AS last WHERE last.uuid = :before)

-- name: previous_tasks
SELECT * FROM tasks
WHERE task_source = :task_source AND owner = :owner AND repo = :repo AND task_type = :task_type
    AND task_id = :task_id AND user = :user AND status IN ('completed', 'failed')
ORDER BY completed_at DESC, uuid
LIMIT :limit;

-- name: open_tasks
SELECT * FROM tasks
WHERE task_source = :task_source AND owner = :owner AND repo = :repo AND task_type = :task_type
    AND task_id = :task_id AND user = :user AND status IN ('queued', 'running', 'paused', 'waiting')
ORDER BY created_at DESC, uuid;

-- name: running_tasks
SELECT * FROM tasks WHERE status = 'running' ORDER BY started_at DESC, uuid;

-- name: failed_tasks
SELECT * FROM tasks WHERE status = 'failed' ORDER BY created_at DESC, uuid DESC LIMIT :limit;

-- name: change_status
UPDATE tasks SET
    status = :status,
    updated_at = :now,
    started_at = CASE :status
        WHEN 'queued' THEN NULL
        WHEN 'running' THEN ifnull(started_at, :now)
        ELSE started_at
    END,
    completed_at = CASE WHEN :finishing THEN ifnull(completed_at, :now) WHEN :status = 'queued' THEN NULL
        ELSE completed_at END,
    retry_count = retry_count + (:status = 'queued'),
    available_at = :available_at,
    retry_due = NULL,
    retry_boot = NULL,
    -- A task that pauses keeps what is wanted of it: its worker may die before it can act on that.
    requested = iif(:status = 'paused', requested, NULL),
    error_message = CASE WHEN :error_message IS NOT NULL THEN :error_message WHEN :status = 'completed' THEN NULL
        ELSE error_message END
WHERE uuid = :uuid;

-- name: add_statistics
UPDATE tasks SET
    llm_call_count = llm_call_count + :llm_calls,
    tool_call_count = tool_call_count + :tool_calls,
    total_tokens = total_tokens + :tokens,
    compression_count = compression_count + :compressions,
    total_messages = total_messages + :messages,
    updated_at = :now
WHERE uuid = :uuid;

-- name: set_totals
UPDATE tasks SET
    total_messages = ifnull(:total_messages, total_messages),
    total_summaries = ifnull(:total_summaries, total_summaries),
    total_tool_calls = ifnull(:total_tool_calls, total_tool_calls),
    final_token_count = ifnull(:final_token_count, final_token_count),
    final_message_count = ifnull(:final_message_count, final_message_count),
    view_tokens = ifnull(:view_tokens, view_tokens),
    updated_at = :now
WHERE uuid = :uuid;

-- name: update_task
UPDATE tasks SET
    llm_provider = iif(:set_llm_provider, :llm_provider, llm_provider),
    model = iif(:set_model, :model, model),
    context_length = iif(:set_context_length, :context_length, context_length),
    backend = iif(:set_backend, :backend, backend),
    correction = iif(:set_correction, :correction, correction),
    view_tokens = iif(:set_view_tokens, :view_tokens, view_tokens),
    error_message = iif(:set_error_message, :error_message, error_message),
    metadata = iif(:set_metadata, :metadata, metadata),
    max_retries = iif(:set_max_retries, :max_retries, max_retries),
    priority = iif(:set_priority, :priority, priority),
    available_at = iif(:set_available_at, :available_at, available_at),
    parent_uuid = iif(:set_parent_uuid, :parent_uuid, parent_uuid),
    inherits_from = iif(:set_inherits_from, :inherits_from, inherits_from),
    keep = iif(:set_keep, :keep, keep),
    updated_at = :now
WHERE uuid = :uuid;

-- name: take_lease
UPDATE tasks SET
    epoch = epoch + 1,
    lease_owner = :owner,
    lease_host = :host,
    lease_pid = :pid,
    lease_pid_start = :start,
    lease_pid_space = :space,
    lease_boot = :boot,
    lease_heartbeat = :heartbeat,
    lease_until = :until,
    process_id = :pid,
    hostname = :host,
    updated_at = :now
WHERE uuid = :uuid
RETURNING *;

-- name: renew_lease
UPDATE tasks SET lease_heartbeat = :heartbeat, lease_until = :until
WHERE uuid = :uuid AND epoch = :epoch AND lease_owner IS NOT NULL;

-- name: raise_epoch
UPDATE tasks SET epoch = :raised
WHERE uuid = :uuid AND epoch = :epoch AND lease_owner IS NOT NULL;

-- name: drop_lease
UPDATE tasks SET
    lease_owner = NULL,
    lease_host = NULL,
    lease_pid = NULL,
    lease_pid_start = NULL,
    lease_pid_space = NULL,
    lease_boot = NULL,
    lease_heartbeat = NULL,
    lease_until = NULL
WHERE uuid = :uuid AND epoch = :epoch;

-- name: owned_tasks
SELECT * FROM tasks
WHERE uuid IN (
    SELECT uuid FROM tasks INDEXED BY tasks_leased WHERE lease_owner IS NOT NULL
    UNION
    SELECT uuid FROM tasks INDEXED BY tasks_by_status WHERE status = 'running'
)
ORDER BY +created_at, uuid;

-- The indexes of the line are named: left to itself, SQLite prefers tasks_by_status and reads the whole line.

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

-- name: put_due_in_line
UPDATE tasks INDEXED BY tasks_put_off SET available_at = NULL
WHERE status = 'queued' AND available_at <= :now AND retry_due IS NULL AND requested IS NULL;

-- name: put_retries_in_line
UPDATE tasks INDEXED BY tasks_to_retry SET available_at = NULL, retry_due = NULL, retry_boot = NULL
WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL
    AND (retry_due <= :moment OR retry_due > :horizon OR retry_boot <> :boot);

-- name: first_in_line
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

-- name: claimed_tasks
SELECT * FROM tasks INDEXED BY tasks_claimed WHERE status = 'running' AND claimed = 1;

-- name: cancelled_pauses
SELECT * FROM tasks INDEXED BY tasks_to_cancel WHERE status = 'paused' AND requested = 'cancel';

-- name: untold_ends
SELECT * FROM tasks WHERE requested = 'tell' AND status IN ('failed', 'cancelled', 'dead') ORDER BY uuid;

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

-- name: claim_task
UPDATE tasks SET
    status = 'running',
    started_at = ifnull(started_at, :now),
    updated_at = :now,
    available_at = NULL,
    retry_due = NULL,
    retry_boot = NULL,
    requested = NULL,
    claimed = 1,
    -- The claim before this one ended in a drain: it was the worker that had to end, not the task that failed.
    attempts = attempts + (status <> 'running' OR requested IS NOT 'resume'),
    retry_count = retry_count + (status = 'running'),
    epoch = epoch + 1,
    lease_owner = :owner,
    lease_host = :host,
    lease_pid = :pid,
    lease_pid_start = :start,
    lease_pid_space = :space,
    lease_boot = :boot,
    lease_heartbeat = :heartbeat,
    lease_until = :until,
    process_id = :pid,
    hostname = :host
WHERE uuid = :uuid
RETURNING *;

-- name: put_off
UPDATE tasks SET available_at = :available_at, retry_due = :due, retry_boot = :boot WHERE uuid = :uuid;

-- name: set_attempts
UPDATE tasks SET attempts = max(0, attempts + :change) * :keep WHERE uuid = :uuid;

-- name: set_request
UPDATE tasks SET requested = :requested, updated_at = :now
WHERE uuid = :uuid AND status = :status AND (:over OR requested IS :instead_of);

-- name: request
SELECT status, requested, epoch, lease_owner FROM tasks WHERE uuid = :uuid;

-- name: add_worker
INSERT INTO workers VALUES (
    :name, :worker_id, :host, :pid, :pid_start, :pid_space, :boot, 'idle', NULL, 0, 0, :now, :now, :heartbeat
)
ON CONFLICT (name) DO UPDATE SET state = 'idle', task_uuid = NULL, pid_start = excluded.pid_start,
    boot = excluded.boot, started_at = excluded.started_at, updated_at = excluded.updated_at,
    heartbeat = excluded.heartbeat;

-- name: note_worker
UPDATE workers SET state = :state, task_uuid = :task_uuid, processed = :processed, failed = :failed,
    updated_at = :now, heartbeat = :heartbeat
WHERE name = :name;

-- name: workers
SELECT * FROM workers ORDER BY started_at, name;

-- name: forget_workers
DELETE FROM workers WHERE updated_at < :before;

-- name: rollups
SELECT * FROM rollups ORDER BY user, repository, status;

-- name: count_by_status
SELECT status, sum(tasks) AS tasks FROM rollups GROUP BY status ORDER BY status;

-- name: count_by_user_and_status
SELECT user, status, sum(tasks) AS tasks FROM rollups GROUP BY user, status ORDER BY user, status;

-- name: run_time
SELECT sum(run_milliseconds) AS run_milliseconds, sum(timed_tasks) AS timed_tasks
FROM rollups WHERE status = 'completed';

-- name: token_usage
SELECT sum(tokens) AS tokens, sum(tasks) AS tasks FROM rollups WHERE status = 'completed';

-- name: family_figures
WITH RECURSIVE family (member) AS (
    SELECT :uuid
    UNION
    SELECT tasks.uuid FROM family JOIN tasks ON tasks.parent_uuid = family.member WHERE tasks.task_type = 'subtask'
)
SELECT sum(llm_call_count) AS llm_calls, sum(total_tokens) AS tokens
FROM tasks WHERE uuid IN (SELECT member FROM family);

-- name: children
SELECT * FROM tasks WHERE parent_uuid = :uuid AND task_type = 'subtask' ORDER BY created_at, uuid;

-- name: rollup_differences
SELECT 1 AS is_stored, * FROM (SELECT * FROM rollups EXCEPT SELECT * FROM counted_rollups)
UNION ALL
SELECT 0 AS is_stored, * FROM (SELECT * FROM counted_rollups EXCEPT SELECT * FROM rollups);

-- name: clear_rollups
DELETE FROM rollups;

-- name: fill_rollups
INSERT INTO rollups SELECT * FROM counted_rollups;

-- name: permissions
SELECT * FROM permissions WHERE provider = :provider;

-- name: set_permissions
INSERT INTO permissions VALUES (:provider, :level, :counted_at, :boot)
ON CONFLICT (provider) DO UPDATE SET level = excluded.level, counted_at = excluded.counted_at, boot = excluded.boot;
