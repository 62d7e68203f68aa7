-- The statements of the catalogue, by name, for SQLite and PostgreSQL alike: what must differ is in sqlite.sql and
-- postgres.sql. "{conditions}" stands for the conditions below that the caller names.

-- name: insert_task
INSERT INTO tasks (
    uuid, task_source, owner, repo, task_type, task_id, task_identifier, repository, "user", status, created_at,
    updated_at, started_at, completed_at, process_id, hostname, llm_provider, model, context_length, backend,
    correction, llm_call_count, tool_call_count, total_tokens, compression_count, total_messages, total_summaries,
    total_tool_calls, final_token_count, final_message_count, view_tokens, error_message, metadata, epoch,
    retry_count, max_retries, priority, available_at, parent_uuid, inherits_from, keep, claimed, attempts, requested,
    retry_due, retry_boot, source, prompt, size_bytes
) VALUES (
    :uuid, :task_source, :owner, :repo, :task_type, :task_id, :task_identifier, :repository, :user, :status,
    :created_at, :updated_at, :started_at, :completed_at, :process_id, :hostname, :llm_provider, :model,
    :context_length, :backend, :correction, :llm_call_count, :tool_call_count, :total_tokens, :compression_count,
    :total_messages, :total_summaries, :total_tool_calls, :final_token_count, :final_message_count, :view_tokens,
    :error_message, :metadata, :epoch, :retry_count, :max_retries, :priority, :available_at, :parent_uuid,
    :inherits_from, :keep, :claimed, :attempts, :requested, :retry_due, :retry_boot, :source, :prompt, :size_bytes
)
ON CONFLICT (uuid) DO NOTHING;

-- name: remove_task
DELETE FROM tasks WHERE uuid = :uuid AND epoch = :epoch AND requested = :requested;

-- name: tasks_in_move
SELECT uuid FROM tasks WHERE requested LIKE 'migrate:%' ORDER BY uuid;

-- name: unfinished_in_move
SELECT uuid FROM tasks
WHERE status IN ('queued', 'running', 'paused', 'waiting') AND requested LIKE 'migrate:%';

-- name: task
SELECT * FROM tasks WHERE uuid = :uuid;

-- name: tasks_by_prefix
SELECT * FROM tasks WHERE uuid >= :first AND uuid < :beyond AND {conditions} ORDER BY uuid LIMIT :limit;

-- name: list_tasks
SELECT * FROM tasks WHERE {conditions} ORDER BY created_at DESC, uuid DESC LIMIT :limit;

-- name: having_status
status = :status

-- name: having_user
"user" = :user

-- name: having_repository
repository = :repository

-- name: having_source
task_source = :source

-- name: having_since
created_at >= :since

-- name: older_than
(created_at, uuid) < (SELECT last.created_at, last.uuid FROM tasks AS last WHERE last.uuid = :before)

-- name: tasks_about
SELECT * FROM tasks WHERE task_id = :task_id AND {conditions} ORDER BY created_at DESC, uuid DESC LIMIT :limit;

-- name: having_place
(repository = :place OR (repository = '' AND task_type = :place))

-- name: having_merge_request
task_type = 'merge_request'

-- name: having_no_merge_request
task_type <> 'merge_request'

-- name: previous_tasks
SELECT * FROM tasks
WHERE task_source = :task_source AND owner = :owner AND repo = :repo AND task_type = :task_type
    AND task_id = :task_id AND "user" = :user AND status IN ('completed', 'failed')
ORDER BY completed_at DESC, uuid
LIMIT :limit;

-- name: open_tasks
SELECT * FROM tasks
WHERE task_source = :task_source AND owner = :owner AND repo = :repo AND task_type = :task_type
    AND task_id = :task_id AND "user" = :user AND status IN ('queued', 'running', 'paused', 'waiting')
ORDER BY created_at DESC, uuid;

-- name: tasks_of_key
SELECT * FROM tasks
WHERE task_source = :task_source AND owner = :owner AND repo = :repo AND task_type = :task_type
    AND task_id = :task_id AND "user" = :user
ORDER BY created_at DESC, uuid DESC
LIMIT :limit;

-- name: running_tasks
SELECT * FROM tasks WHERE status = 'running' ORDER BY started_at DESC, uuid;

-- name: failed_tasks
SELECT * FROM tasks WHERE status = 'failed' ORDER BY created_at DESC, uuid DESC LIMIT :limit;

-- name: states_of_tasks
SELECT uuid, status, updated_at, backend, lease_owner IS NOT NULL, metadata LIKE '%"cleaned"%', created_at
FROM tasks;

-- name: tasks_at_work
-- Only of tasks that have ended is there an index on updated_at, see the schema. A task may come twice.
SELECT uuid, status, updated_at, backend, lease_owner IS NOT NULL, metadata LIKE '%"cleaned"%', created_at
FROM tasks WHERE status = 'running'
UNION ALL
SELECT uuid, status, updated_at, backend, lease_owner IS NOT NULL, metadata LIKE '%"cleaned"%', created_at
FROM tasks WHERE lease_owner IS NOT NULL
UNION ALL
SELECT uuid, status, updated_at, backend, lease_owner IS NOT NULL, metadata LIKE '%"cleaned"%', created_at
FROM tasks WHERE status IN ('queued', 'paused', 'waiting') AND updated_at >= :since
UNION ALL
SELECT uuid, status, updated_at, backend, lease_owner IS NOT NULL, metadata LIKE '%"cleaned"%', created_at
FROM tasks WHERE completed_at IS NOT NULL AND updated_at >= :since;

-- name: change_status
UPDATE tasks SET
    status = :status,
    updated_at = :now,
    started_at = CASE :status
        WHEN 'queued' THEN NULL
        WHEN 'running' THEN coalesce(started_at, :now)
        ELSE started_at
    END,
    completed_at = CASE WHEN :finishing = 1 THEN coalesce(completed_at, :now) WHEN :status = 'queued' THEN NULL
        ELSE completed_at END,
    retry_count = retry_count + CASE WHEN :status = 'queued' THEN 1 ELSE 0 END,
    available_at = :available_at,
    retry_due = NULL,
    retry_boot = NULL,
    -- A task that pauses or waits keeps what is wanted of it: its worker may die before it can act on that.
    requested = CASE WHEN :status IN ('paused', 'waiting') THEN requested END,
    error_message = CASE WHEN :status = 'completed' THEN CAST(:error_message AS text)
        ELSE coalesce(:error_message, error_message) END
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
    total_messages = coalesce(:total_messages, total_messages),
    total_summaries = coalesce(:total_summaries, total_summaries),
    total_tool_calls = coalesce(:total_tool_calls, total_tool_calls),
    final_token_count = coalesce(:final_token_count, final_token_count),
    final_message_count = coalesce(:final_message_count, final_message_count),
    view_tokens = coalesce(:view_tokens, view_tokens),
    size_bytes = coalesce(:size_bytes, size_bytes),
    updated_at = :now
WHERE uuid = :uuid;

-- name: update_task
UPDATE tasks SET
    llm_provider = CASE WHEN :set_llm_provider = 1 THEN :llm_provider ELSE llm_provider END,
    model = CASE WHEN :set_model = 1 THEN :model ELSE model END,
    completed_at = CASE WHEN :set_completed_at = 1 THEN :completed_at ELSE completed_at END,
    context_length = CASE WHEN :set_context_length = 1 THEN :context_length ELSE context_length END,
    backend = CASE WHEN :set_backend = 1 THEN :backend ELSE backend END,
    correction = CASE WHEN :set_correction = 1 THEN :correction ELSE correction END,
    view_tokens = CASE WHEN :set_view_tokens = 1 THEN :view_tokens ELSE view_tokens END,
    error_message = CASE WHEN :set_error_message = 1 THEN :error_message ELSE error_message END,
    prompt = CASE WHEN :set_prompt = 1 THEN :prompt ELSE prompt END,
    metadata = CASE WHEN :set_metadata = 1 THEN :metadata ELSE metadata END,
    max_retries = CASE WHEN :set_max_retries = 1 THEN :max_retries ELSE max_retries END,
    priority = CASE WHEN :set_priority = 1 THEN :priority ELSE priority END,
    available_at = CASE WHEN :set_available_at = 1 THEN :available_at ELSE available_at END,
    parent_uuid = CASE WHEN :set_parent_uuid = 1 THEN :parent_uuid ELSE parent_uuid END,
    inherits_from = CASE WHEN :set_inherits_from = 1 THEN :inherits_from ELSE inherits_from END,
    keep = CASE WHEN :set_keep = 1 THEN :keep ELSE keep END,
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

-- name: seal_task
UPDATE tasks SET prompt = :prompt, error_message = :error_message, metadata = :metadata WHERE uuid = :uuid;

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

-- name: claimed_task
SELECT * FROM tasks WHERE uuid = :uuid AND status = 'running' AND claimed = 1;

-- name: untold_ends
SELECT * FROM tasks WHERE requested = 'tell' AND status IN ('failed', 'cancelled', 'dead') ORDER BY uuid;

-- name: claim_task
UPDATE tasks SET
    status = 'running',
    started_at = coalesce(started_at, :now),
    updated_at = :now,
    available_at = NULL,
    retry_due = NULL,
    retry_boot = NULL,
    requested = NULL,
    claimed = 1,
    -- The claim before this one ended in a drain: it was the worker that had to end, not the task that failed.
    attempts = attempts + CASE WHEN status <> 'running' OR requested IS DISTINCT FROM 'resume' THEN 1 ELSE 0 END,
    retry_count = retry_count + CASE WHEN status = 'running' THEN 1 ELSE 0 END,
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
UPDATE tasks SET attempts = CASE WHEN :keep = 1 AND attempts + :change > 0 THEN attempts + :change ELSE 0 END
WHERE uuid = :uuid;

-- name: set_request
UPDATE tasks SET requested = :requested, updated_at = :now
WHERE uuid = :uuid AND status = :status AND (:over = 1 OR requested IS NOT DISTINCT FROM :instead_of);

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

-- name: counter
SELECT value FROM counters WHERE name = :name;

-- name: counters
SELECT name, value FROM counters WHERE name < '@' OR name >= 'A'; -- those between are counted by time

-- name: timed_counters
SELECT name, value FROM counters WHERE name >= :first AND name < :beyond ORDER BY name;

-- name: forget_timed_counters
DELETE FROM counters WHERE name >= '@' AND name < :before;

-- name: created_between
SELECT count(*) AS tasks FROM tasks WHERE created_at >= :first AND created_at < :beyond;

-- name: ended_between
SELECT status, count(*) AS tasks FROM tasks WHERE completed_at >= :first AND completed_at < :beyond
GROUP BY status ORDER BY status;

-- name: ended_by_day
SELECT substr(completed_at, 1, 10) AS day, status, count(*) AS tasks FROM tasks
WHERE completed_at >= :first AND completed_at < :beyond
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: ended_by_day_of_user
SELECT substr(completed_at, 1, 10) AS day, status, count(*) AS tasks FROM tasks
WHERE completed_at >= :first AND completed_at < :beyond AND "user" = :user
GROUP BY 1, 2 ORDER BY 1, 2;

-- name: largest_between
SELECT * FROM tasks WHERE completed_at >= :first AND completed_at < :beyond
ORDER BY total_tokens DESC, total_messages DESC, uuid LIMIT :limit;

-- What was brought here long after its end is as old as its stay; see the function here_since.

-- name: count_old_tasks
SELECT count(*) AS tasks FROM tasks
WHERE completed_at < :before AND (updated_at < :before OR metadata NOT LIKE '%"import":%')
    AND status IN ('completed', 'failed', 'cancelled', 'dead') AND keep = 0;

-- name: notifications_between
SELECT kind, count(*) AS notifications FROM notifications WHERE created_at >= :first AND created_at < :beyond
GROUP BY kind ORDER BY kind;

-- name: add_to_counter
INSERT INTO counters AS stored VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = stored.value + excluded.value;

-- name: note_chain
INSERT INTO counters VALUES (:name, 1) ON CONFLICT (name) DO NOTHING;

-- name: rollups
SELECT
    "user", repository, status, tasks, messages, tokens, llm_calls, tool_calls, compressions, timed_tasks,
    run_milliseconds
FROM rollups ORDER BY "user", repository, status;

-- name: count_by_status
SELECT status, CAST(sum(tasks) AS bigint) AS tasks FROM rollups WHERE {conditions} GROUP BY status ORDER BY status;

-- name: count_by_user_and_status
SELECT "user", status, CAST(sum(tasks) AS bigint) AS tasks FROM rollups GROUP BY "user", status ORDER BY "user", status;

-- name: run_time
SELECT CAST(sum(run_milliseconds) AS bigint) AS run_milliseconds, CAST(sum(timed_tasks) AS bigint) AS timed_tasks
FROM rollups WHERE status = 'completed';

-- name: token_usage
SELECT CAST(sum(tokens) AS bigint) AS tokens, CAST(sum(tasks) AS bigint) AS tasks FROM rollups WHERE status = 'completed';

-- name: family_figures
WITH RECURSIVE family (member) AS (
    SELECT uuid FROM tasks WHERE uuid = :uuid
    UNION
    SELECT tasks.uuid FROM family JOIN tasks ON tasks.parent_uuid = family.member WHERE tasks.task_type = 'subtask'
)
SELECT CAST(sum(llm_call_count) AS bigint) AS llm_calls, CAST(sum(total_tokens) AS bigint) AS tokens
FROM tasks WHERE uuid IN (SELECT member FROM family);

-- name: children
SELECT * FROM tasks WHERE parent_uuid = :uuid AND task_type = 'subtask' ORDER BY created_at, uuid;

-- name: rollup_differences
SELECT 1 AS is_stored, * FROM (SELECT * FROM rollups EXCEPT SELECT * FROM counted_rollups) AS stored
UNION ALL
SELECT 0 AS is_stored, * FROM (SELECT * FROM counted_rollups EXCEPT SELECT * FROM rollups) AS counted;

-- name: add_permissions
INSERT INTO permissions VALUES (:provider, :level, :counted_at, :boot) ON CONFLICT (provider) DO NOTHING;

-- name: set_permissions
INSERT INTO permissions VALUES (:provider, :level, :counted_at, :boot)
ON CONFLICT (provider) DO UPDATE SET level = excluded.level, counted_at = excluded.counted_at, boot = excluded.boot;

-- name: add_usage
INSERT INTO usage AS stored (
    uuid, day, model, purpose, is_reported, provider, calls, input_tokens, cached_tokens, output_tokens, saved_tokens,
    cost
)
SELECT
    uuid, :day, :model, :purpose, :is_reported, lower(coalesce(llm_provider, '')), :calls, :input_tokens,
    :cached_tokens, :output_tokens, :saved_tokens, CAST(:cost AS double precision)
FROM tasks WHERE uuid = :uuid
ON CONFLICT (uuid, model, purpose, is_reported, day) DO UPDATE SET
    calls = stored.calls + excluded.calls,
    input_tokens = stored.input_tokens + excluded.input_tokens,
    cached_tokens = stored.cached_tokens + excluded.cached_tokens,
    output_tokens = stored.output_tokens + excluded.output_tokens,
    saved_tokens = stored.saved_tokens + excluded.saved_tokens,
    cost = stored.cost + excluded.cost;

-- name: usage_of_task
SELECT uuid, day, model, purpose, calls, input_tokens, cached_tokens, output_tokens, saved_tokens, cost
FROM usage WHERE uuid = :uuid ORDER BY day, model, purpose, is_reported;

-- name: remove_usage
DELETE FROM usage WHERE uuid = :uuid;

-- name: usage_by_day
SELECT
    usage.day AS name, usage.model, usage.provider, usage.purpose,
    CAST(sum(usage.calls) AS bigint) AS calls,
    CAST(sum(usage.input_tokens) AS bigint) AS input_tokens,
    CAST(sum(usage.cached_tokens) AS bigint) AS cached_tokens,
    CAST(sum(usage.output_tokens) AS bigint) AS output_tokens,
    CAST(sum(usage.saved_tokens) AS bigint) AS saved_tokens,
    sum(usage.cost) AS cost
FROM usage
WHERE usage.day >= :first_day AND usage.day <= :last_day
GROUP BY usage.day, usage.model, usage.provider, usage.purpose, usage.is_reported;

-- name: usage_by_task
SELECT
    usage.uuid AS name, usage.model, usage.provider, usage.purpose,
    CAST(sum(usage.calls) AS bigint) AS calls,
    CAST(sum(usage.input_tokens) AS bigint) AS input_tokens,
    CAST(sum(usage.cached_tokens) AS bigint) AS cached_tokens,
    CAST(sum(usage.output_tokens) AS bigint) AS output_tokens,
    CAST(sum(usage.saved_tokens) AS bigint) AS saved_tokens,
    sum(usage.cost) AS cost
FROM usage
WHERE usage.day >= :first_day AND usage.day <= :last_day
GROUP BY usage.uuid, usage.model, usage.purpose, usage.is_reported, usage.provider;

-- name: usage_by_user
SELECT
    tasks."user" AS name, usage.model, usage.provider, usage.purpose,
    CAST(sum(usage.calls) AS bigint) AS calls,
    CAST(sum(usage.input_tokens) AS bigint) AS input_tokens,
    CAST(sum(usage.cached_tokens) AS bigint) AS cached_tokens,
    CAST(sum(usage.output_tokens) AS bigint) AS output_tokens,
    CAST(sum(usage.saved_tokens) AS bigint) AS saved_tokens,
    sum(usage.cost) AS cost
FROM usage JOIN tasks ON tasks.uuid = usage.uuid
WHERE usage.day >= :first_day AND usage.day <= :last_day
GROUP BY tasks."user", usage.model, usage.provider, usage.purpose, usage.is_reported;

-- name: usage_by_repository
SELECT
    tasks.repository AS name, usage.model, usage.provider, usage.purpose,
    CAST(sum(usage.calls) AS bigint) AS calls,
    CAST(sum(usage.input_tokens) AS bigint) AS input_tokens,
    CAST(sum(usage.cached_tokens) AS bigint) AS cached_tokens,
    CAST(sum(usage.output_tokens) AS bigint) AS output_tokens,
    CAST(sum(usage.saved_tokens) AS bigint) AS saved_tokens,
    sum(usage.cost) AS cost
FROM usage JOIN tasks ON tasks.uuid = usage.uuid
WHERE usage.day >= :first_day AND usage.day <= :last_day
GROUP BY tasks.repository, usage.model, usage.provider, usage.purpose, usage.is_reported;

-- name: usage_of_user
SELECT
    usage.uuid AS task, tasks."user", tasks.repository, usage.model AS used, usage.day,
    usage.model, usage.provider, usage.purpose, usage.calls, usage.input_tokens, usage.cached_tokens,
    usage.output_tokens, usage.saved_tokens, usage.cost
FROM tasks JOIN usage ON usage.uuid = tasks.uuid
WHERE tasks."user" = :user AND usage.day >= :first_day AND usage.day <= :last_day;

-- name: add_notification
INSERT INTO notifications (event, created_at, task, kind, type, body)
VALUES (:event, :now, :task, :kind, :type, :body)
ON CONFLICT (event) DO NOTHING;

-- name: notifications
SELECT * FROM notifications WHERE id > :since ORDER BY id LIMIT :limit;

-- name: notifications_of_task
SELECT * FROM notifications WHERE task = :task AND id > :since ORDER BY id LIMIT :limit;

-- name: last_notifications
SELECT * FROM notifications ORDER BY id DESC LIMIT :limit;

-- name: last_notifications_before
SELECT * FROM notifications WHERE id < :below ORDER BY id DESC LIMIT :limit;

-- name: last_notifications_of_task
SELECT * FROM notifications WHERE task = :task ORDER BY id DESC LIMIT :limit;

-- name: last_notifications_of_task_before
SELECT * FROM notifications WHERE task = :task AND id < :below ORDER BY id DESC LIMIT :limit;

-- name: pending_notifications
SELECT count(*) AS pending FROM notifications WHERE webhook IN ('pending', 'sending');

-- name: due_notifications
SELECT id FROM notifications
WHERE webhook IN ('pending', 'sending')
    AND ((:early = 1 AND webhook = 'pending') OR due IS NULL OR due <= :moment OR due > :horizon OR era <> :era)
ORDER BY attempts, id;

-- name: movable_notifications_of_task
SELECT * FROM notifications
WHERE task = :task AND id > :after
    AND (webhook <> 'sending' OR due IS NULL OR due <= :moment OR due > :horizon OR era <> :era)
ORDER BY id LIMIT :limit;

-- name: movable_notifications
SELECT * FROM notifications
WHERE id > :after
    AND (webhook <> 'sending' OR due IS NULL OR due <= :moment OR due > :horizon OR era <> :era)
    AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.uuid = notifications.task)
    AND (task IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tasks))
ORDER BY id LIMIT :limit;

-- name: left_notifications
SELECT count(*) AS notifications FROM notifications
WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.uuid = notifications.task)
    AND (task IS NOT NULL OR NOT EXISTS (SELECT 1 FROM tasks));

-- name: adopt_notification
INSERT INTO notifications AS stored
    (event, created_at, task, kind, type, body, webhook, attempts, last_error, settled_at)
VALUES (:event, :created_at, :task, :kind, :type, :body, :webhook, :attempts, :last_error, :settled_at)
ON CONFLICT (event) DO UPDATE SET
    webhook = excluded.webhook, attempts = excluded.attempts, last_error = excluded.last_error,
    settled_at = excluded.settled_at
WHERE stored.webhook = 'held' OR (stored.webhook = 'pending' AND excluded.webhook <> 'held');

-- name: remove_notification
DELETE FROM notifications WHERE id = :id AND webhook = :webhook AND attempts = :attempts;

-- name: held_notifications
SELECT * FROM notifications WHERE webhook = 'held' AND id > :after ORDER BY id LIMIT :limit;

-- name: notification_of_event
SELECT id FROM notifications WHERE event = :event;

-- name: notification
SELECT * FROM notifications WHERE event = :event;

-- name: seal_notification
UPDATE notifications SET body = :body, last_error = :last_error WHERE event = :event;

-- name: seal_alert
UPDATE alerts SET body = :body WHERE name = :name;

-- name: release_notification
UPDATE notifications SET webhook = 'pending' WHERE event = :event AND webhook = 'held';

-- name: settle_notification
UPDATE notifications SET
    webhook = :webhook, due = :due, era = :era, last_error = :error,
    settled_at = CASE WHEN :webhook <> 'pending' THEN CAST(:now AS text) END
WHERE id = :id AND webhook = 'sending' AND attempts = :attempts;

-- name: note_webhook
INSERT INTO counters VALUES ('webhook_used', 1) ON CONFLICT (name) DO NOTHING;

-- name: pass_over_notifications
UPDATE notifications SET webhook = 'none', settled_at = :now
WHERE webhook IN ('pending', 'sending') AND attempts = 0 AND created_at < :before;

-- name: forget_notifications
DELETE FROM notifications
WHERE created_at < :before AND (created_at < :unsent OR webhook NOT IN ('pending', 'sending'));

-- name: alerts
SELECT * FROM alerts ORDER BY since, name;

-- name: raise_alert
INSERT INTO alerts VALUES (:name, :now, :body) ON CONFLICT (name) DO NOTHING;

-- name: end_alert
DELETE FROM alerts WHERE name = :name;

-- name: sizes_by_position
SELECT
    CASE
        WHEN status = 'archived' AND size_bytes = 0 THEN 'cleaned'
        WHEN completed_at < :old AND (updated_at < :old OR metadata NOT LIKE '%"import":%') THEN 'old'
        WHEN status = 'archived' THEN 'archived'
        ELSE 'active'
    END AS position,
    count(*) AS tasks,
    coalesce(sum(size_bytes), 0) AS bytes,
    sum(CASE WHEN size_bytes IS NULL AND status <> 'queued' THEN 1 ELSE 0 END) AS unmeasured,
    sum(total_summaries) AS summaries
FROM tasks
GROUP BY 1;

-- name: largest_tasks
SELECT * FROM tasks WHERE size_bytes > 0 ORDER BY size_bytes DESC, uuid LIMIT :limit;

-- name: unmeasured_tasks
SELECT * FROM tasks WHERE size_bytes IS NULL AND status <> 'queued' ORDER BY created_at DESC, uuid LIMIT :limit;

-- name: add_grant
INSERT INTO grants (id, digest, "user", role, name, created_at, expires_at)
VALUES (:id, :digest, :user, :role, :name, :created_at, :expires_at);

-- name: grants
SELECT id, "user", role, name, created_at, expires_at, revoked_at FROM grants ORDER BY created_at, id;

-- name: grant_of
SELECT id, "user", role, name, created_at, expires_at, revoked_at FROM grants WHERE digest = :digest;

-- name: grant
SELECT id, "user", role, name, created_at, expires_at, revoked_at FROM grants WHERE id = :id;

-- name: revoke_grant
UPDATE grants SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL;

-- name: bury_name
INSERT INTO erased (uuid, erased_at, erased_by) VALUES (:uuid, :now, :erased_by) ON CONFLICT (uuid) DO NOTHING;

-- name: erased
SELECT * FROM erased WHERE uuid = :uuid;

-- name: all_erased
SELECT * FROM erased ORDER BY erased_at, uuid;

-- name: quota_usage
SELECT
    (
        SELECT count(*) FROM tasks
        WHERE "user" = :user AND completed_at IS NULL AND status <> 'archived'
    ) AS tasks,
    (SELECT CAST(coalesce(sum(size_bytes), 0) AS bigint) FROM tasks WHERE "user" = :user) AS bytes,
    (
        SELECT CAST(coalesce(sum(usage.input_tokens + usage.output_tokens), 0) AS bigint)
        FROM usage JOIN tasks ON tasks.uuid = usage.uuid
        WHERE tasks."user" = :user AND usage.day = :day
    ) AS tokens;

-- name: forget_grants
DELETE FROM grants WHERE "user" = :user;

-- name: erase_notices
DELETE FROM notifications WHERE task = :uuid;

-- name: rewrite_notice
UPDATE notifications SET body = :body WHERE event = :event;

-- name: erase_row
DELETE FROM tasks WHERE uuid = :uuid;

-- name: rename_user
UPDATE tasks SET "user" = :user WHERE uuid = :uuid;
