-- The statements of the catalogue, by name. "{conditions}" stands for the conditions below that the caller names.

-- name: insert_task
INSERT INTO tasks (
    uuid, task_source, owner, repo, task_type, task_id, task_identifier, repository, user, status, created_at,
    updated_at, started_at, completed_at, process_id, hostname, llm_provider, model, context_length, backend,
    correction, llm_call_count, tool_call_count, total_tokens, compression_count, total_messages, total_summaries,
    total_tool_calls, final_token_count, final_message_count, view_tokens, error_message, metadata, epoch,
    retry_count, max_retries, priority, available_at, parent_uuid, inherits_from, keep
) VALUES (
    :uuid, :task_source, :owner, :repo, :task_type, :task_id, :task_identifier, :repository, :user, :status,
    :created_at, :updated_at, :started_at, :completed_at, :process_id, :hostname, :llm_provider, :model,
    :context_length, :backend, :correction, :llm_call_count, :tool_call_count, :total_tokens, :compression_count,
    :total_messages, :total_summaries, :total_tool_calls, :final_token_count, :final_message_count, :view_tokens,
    :error_message, :metadata, :epoch, :retry_count, :max_retries, :priority, :available_at, :parent_uuid,
    :inherits_from, :keep
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
WHERE EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_in_line WHERE status = 'queued' AND available_at IS NULL)
    OR EXISTS (SELECT 1 FROM tasks INDEXED BY tasks_put_off WHERE status = 'queued' AND available_at <= :now);

-- name: put_due_in_line
UPDATE tasks INDEXED BY tasks_put_off SET available_at = NULL WHERE status = 'queued' AND available_at <= :now;

-- name: first_in_line
SELECT uuid FROM tasks INDEXED BY tasks_in_line
WHERE status = 'queued' AND available_at IS NULL
ORDER BY priority DESC, created_at, uuid LIMIT 1;

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

-- name: rollup_differences
SELECT 1 AS is_stored, * FROM (SELECT * FROM rollups EXCEPT SELECT * FROM counted_rollups)
UNION ALL
SELECT 0 AS is_stored, * FROM (SELECT * FROM counted_rollups EXCEPT SELECT * FROM rollups);

-- name: clear_rollups
DELETE FROM rollups;

-- name: fill_rollups
INSERT INTO rollups SELECT * FROM counted_rollups;
