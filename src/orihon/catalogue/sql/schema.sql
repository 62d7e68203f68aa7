-- tasks.db, version 4. New databases get this; old ones get the steps to_version_*.sql.

-- Times are ISO 8601 texts in UTC, all of one width. The lease_* times are seconds on the boot-time clock.
CREATE TABLE tasks (
    uuid TEXT PRIMARY KEY,
    task_source TEXT NOT NULL,
    owner TEXT NOT NULL DEFAULT '',
    repo TEXT NOT NULL DEFAULT '',
    task_type TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_identifier TEXT NOT NULL,
    repository TEXT NOT NULL DEFAULT '',
    user TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    started_at TEXT,
    completed_at TEXT,
    process_id INTEGER,
    hostname TEXT,
    llm_provider TEXT,
    model TEXT,
    context_length INTEGER,
    backend TEXT,
    correction REAL NOT NULL DEFAULT 1.0,
    llm_call_count INTEGER NOT NULL DEFAULT 0,
    tool_call_count INTEGER NOT NULL DEFAULT 0,
    total_tokens INTEGER NOT NULL DEFAULT 0,
    compression_count INTEGER NOT NULL DEFAULT 0,
    total_messages INTEGER NOT NULL DEFAULT 0,
    total_summaries INTEGER NOT NULL DEFAULT 0,
    total_tool_calls INTEGER NOT NULL DEFAULT 0,
    final_token_count INTEGER,
    final_message_count INTEGER,
    view_tokens INTEGER,
    error_message TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    lease_owner TEXT,
    lease_host TEXT,
    lease_pid INTEGER,
    lease_pid_start INTEGER,
    lease_pid_space TEXT,
    lease_boot TEXT,
    lease_heartbeat REAL,
    lease_until REAL,
    epoch INTEGER NOT NULL DEFAULT 0,
    retry_count INTEGER NOT NULL DEFAULT 0,
    max_retries INTEGER,
    priority INTEGER NOT NULL DEFAULT 0,
    available_at TEXT,
    parent_uuid TEXT,
    inherits_from TEXT,
    keep INTEGER NOT NULL DEFAULT 0,
    -- A worker took it out of the line: when that worker dies, another one goes on.
    claimed INTEGER NOT NULL DEFAULT 0,
    -- Claims since the task was queued or last given back in good order.
    attempts INTEGER NOT NULL DEFAULT 0,
    -- What somebody wants of it: pause, cancel, resume; tell, when its source has not heard of its end.
    requested TEXT,
    -- When a retry is due, on the boot-time clock of that boot; available_at says the same to people.
    retry_due REAL,
    retry_boot TEXT,
    source TEXT NOT NULL DEFAULT '',
    prompt TEXT NOT NULL DEFAULT '',
    -- A clock that was set back must not give a negative time.
    run_milliseconds INTEGER GENERATED ALWAYS AS (
        max(0, CAST(round((julianday(completed_at) - julianday(started_at)) * 86400000.0) AS INTEGER))
    ) VIRTUAL,
    -- What the task takes up where it lies, as of its last end or pause; packed when it is archived.
    size_bytes INTEGER
) STRICT;

CREATE INDEX tasks_by_created ON tasks (created_at, uuid);
CREATE INDEX tasks_by_status ON tasks (status, created_at, uuid);
CREATE INDEX tasks_by_user ON tasks (user, created_at, uuid);
CREATE INDEX tasks_by_repository ON tasks (repository, created_at, uuid);
CREATE INDEX tasks_by_key ON tasks (task_source, owner, repo, task_type, task_id, user, status, completed_at);
CREATE INDEX tasks_by_number ON tasks (task_id, created_at, uuid);
CREATE INDEX tasks_by_completed ON tasks (completed_at) WHERE completed_at IS NOT NULL;
-- A row changes rarely once its task has ended; those that are worked on would move their entries all the time.
CREATE INDEX tasks_by_change ON tasks (updated_at) WHERE completed_at IS NOT NULL;
CREATE INDEX tasks_by_parent ON tasks (parent_uuid) WHERE parent_uuid IS NOT NULL;
CREATE INDEX tasks_in_line ON tasks (priority DESC, created_at, uuid, user)
    WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL;
CREATE INDEX tasks_put_off ON tasks (available_at)
    WHERE status = 'queued' AND available_at IS NOT NULL AND retry_due IS NULL AND requested IS NULL;
CREATE INDEX tasks_to_retry ON tasks (retry_due)
    WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL;
CREATE INDEX tasks_to_resume ON tasks (priority DESC, created_at, uuid, user)
    WHERE status = 'paused' AND requested = 'resume';
CREATE INDEX tasks_to_cancel ON tasks (uuid) WHERE status = 'paused' AND requested = 'cancel';
CREATE INDEX tasks_to_tell ON tasks (uuid) WHERE requested = 'tell';
CREATE INDEX tasks_claimed ON tasks (user) WHERE status = 'running' AND claimed = 1;
-- On the uuid alone, so that a heartbeat does not have to move the entry.
CREATE INDEX tasks_leased ON tasks (uuid) WHERE lease_owner IS NOT NULL;

-- One row for each worker process there was; its counters are written with its next claim.
CREATE TABLE workers (
    name TEXT PRIMARY KEY,
    worker_id TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,
    pid_space TEXT NOT NULL,
    boot TEXT NOT NULL,
    state TEXT NOT NULL,
    task_uuid TEXT,
    processed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    started_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    heartbeat REAL NOT NULL
) STRICT;

-- Sums over the tasks of one user, repository and status, kept by the triggers below in the same transaction.
CREATE TABLE rollups (
    user TEXT NOT NULL,
    repository TEXT NOT NULL,
    status TEXT NOT NULL,
    tasks INTEGER NOT NULL,
    messages INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    llm_calls INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    compressions INTEGER NOT NULL,
    timed_tasks INTEGER NOT NULL,
    run_milliseconds INTEGER NOT NULL,
    PRIMARY KEY (user, repository, status)
) STRICT, WITHOUT ROWID;

-- What the rollups must be.
CREATE VIEW counted_rollups AS
SELECT
    user,
    repository,
    status,
    count(*) AS tasks,
    sum(total_messages) AS messages,
    sum(total_tokens) AS tokens,
    sum(llm_call_count) AS llm_calls,
    sum(tool_call_count) AS tool_calls,
    sum(compression_count) AS compressions,
    count(run_milliseconds) AS timed_tasks,
    ifnull(sum(run_milliseconds), 0) AS run_milliseconds
FROM tasks
GROUP BY user, repository, status;

CREATE TRIGGER rollup_inserted AFTER INSERT ON tasks
BEGIN
    INSERT INTO rollups VALUES (
        NEW.user, NEW.repository, NEW.status, 1, NEW.total_messages, NEW.total_tokens, NEW.llm_call_count,
        NEW.tool_call_count, NEW.compression_count, NEW.run_milliseconds IS NOT NULL,
        ifnull(NEW.run_milliseconds, 0)
    )
    ON CONFLICT (user, repository, status) DO UPDATE SET
        tasks = tasks + excluded.tasks,
        messages = messages + excluded.messages,
        tokens = tokens + excluded.tokens,
        llm_calls = llm_calls + excluded.llm_calls,
        tool_calls = tool_calls + excluded.tool_calls,
        compressions = compressions + excluded.compressions,
        timed_tasks = timed_tasks + excluded.timed_tasks,
        run_milliseconds = run_milliseconds + excluded.run_milliseconds;
END;

CREATE TRIGGER rollup_deleted AFTER DELETE ON tasks
BEGIN
    UPDATE rollups SET
        tasks = tasks - 1,
        messages = messages - OLD.total_messages,
        tokens = tokens - OLD.total_tokens,
        llm_calls = llm_calls - OLD.llm_call_count,
        tool_calls = tool_calls - OLD.tool_call_count,
        compressions = compressions - OLD.compression_count,
        timed_tasks = timed_tasks - (OLD.run_milliseconds IS NOT NULL),
        run_milliseconds = run_milliseconds - ifnull(OLD.run_milliseconds, 0)
    WHERE user = OLD.user AND repository = OLD.repository AND status = OLD.status;
    DELETE FROM rollups
    WHERE user = OLD.user AND repository = OLD.repository AND status = OLD.status AND tasks = 0;
END;

-- The common case, figures growing within one group, touches one row.
CREATE TRIGGER rollup_counted AFTER UPDATE OF
    total_messages, total_tokens, llm_call_count, tool_call_count, compression_count, started_at, completed_at
ON tasks
WHEN NEW.user = OLD.user AND NEW.repository = OLD.repository AND NEW.status = OLD.status
BEGIN
    UPDATE rollups SET
        messages = messages + NEW.total_messages - OLD.total_messages,
        tokens = tokens + NEW.total_tokens - OLD.total_tokens,
        llm_calls = llm_calls + NEW.llm_call_count - OLD.llm_call_count,
        tool_calls = tool_calls + NEW.tool_call_count - OLD.tool_call_count,
        compressions = compressions + NEW.compression_count - OLD.compression_count,
        timed_tasks = timed_tasks + (NEW.run_milliseconds IS NOT NULL) - (OLD.run_milliseconds IS NOT NULL),
        run_milliseconds = run_milliseconds
            + ifnull(NEW.run_milliseconds, 0) - ifnull(OLD.run_milliseconds, 0)
    WHERE user = NEW.user AND repository = NEW.repository AND status = NEW.status;
END;

CREATE TRIGGER rollup_moved AFTER UPDATE OF user, repository, status ON tasks
WHEN NEW.user <> OLD.user OR NEW.repository <> OLD.repository OR NEW.status <> OLD.status
BEGIN
    UPDATE rollups SET
        tasks = tasks - 1,
        messages = messages - OLD.total_messages,
        tokens = tokens - OLD.total_tokens,
        llm_calls = llm_calls - OLD.llm_call_count,
        tool_calls = tool_calls - OLD.tool_call_count,
        compressions = compressions - OLD.compression_count,
        timed_tasks = timed_tasks - (OLD.run_milliseconds IS NOT NULL),
        run_milliseconds = run_milliseconds - ifnull(OLD.run_milliseconds, 0)
    WHERE user = OLD.user AND repository = OLD.repository AND status = OLD.status;
    DELETE FROM rollups
    WHERE user = OLD.user AND repository = OLD.repository AND status = OLD.status AND tasks = 0;
    INSERT INTO rollups VALUES (
        NEW.user, NEW.repository, NEW.status, 1, NEW.total_messages, NEW.total_tokens, NEW.llm_call_count,
        NEW.tool_call_count, NEW.compression_count, NEW.run_milliseconds IS NOT NULL,
        ifnull(NEW.run_milliseconds, 0)
    )
    ON CONFLICT (user, repository, status) DO UPDATE SET
        tasks = tasks + excluded.tasks,
        messages = messages + excluded.messages,
        tokens = tokens + excluded.tokens,
        llm_calls = llm_calls + excluded.llm_calls,
        tool_calls = tool_calls + excluded.tool_calls,
        compressions = compressions + excluded.compressions,
        timed_tasks = timed_tasks + excluded.timed_tasks,
        run_milliseconds = run_milliseconds + excluded.run_milliseconds;
END;

-- Permissions to ask a provider, as of a moment on the boot-time clock; below zero where some are reserved.
CREATE TABLE permissions (
    provider TEXT PRIMARY KEY,
    level REAL NOT NULL,
    counted_at REAL NOT NULL,
    boot TEXT NOT NULL
) STRICT;

-- What happened to tasks, counted since there is this database.
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT;

-- A claim of a running task is a take-over, and the only change that raises retry_count without a change of status.
CREATE TRIGGER count_take_over AFTER UPDATE OF retry_count ON tasks
WHEN OLD.status = 'running' AND NEW.status = 'running' AND NEW.retry_count > OLD.retry_count
BEGIN
    INSERT INTO counters VALUES ('take_overs', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1;
END;

-- Calls of models, by task, day (UTC), model and what for (answer, summary). The cost is what somebody else has reported;
-- calls that came without one have rows of their own, because their tokens have to be priced.
CREATE TABLE usage (
    uuid TEXT NOT NULL,
    day TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL DEFAULT 'answer',
    is_reported INTEGER NOT NULL DEFAULT 0,
    provider TEXT NOT NULL DEFAULT '',
    calls INTEGER NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    saved_tokens INTEGER NOT NULL DEFAULT 0,
    cost REAL,
    PRIMARY KEY (uuid, model, purpose, is_reported, day)
) STRICT, WITHOUT ROWID;

-- All that sums over days and models need, in their order.
CREATE INDEX usage_by_day ON usage (
    day, model, provider, purpose, is_reported, calls, input_tokens, cached_tokens, output_tokens, saved_tokens, cost
);

-- What people are told: the feed, by its numbers, and the outbox of the webhook. The event is the name that a receiver
-- knows it by, however often it comes. An attempt is due on the clock of the leases, in its era; at once where it is
-- not said when.
CREATE TABLE notifications (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    event TEXT NOT NULL UNIQUE,
    created_at TEXT NOT NULL,
    task TEXT,
    kind TEXT NOT NULL,
    type TEXT NOT NULL,
    body TEXT NOT NULL DEFAULT '{}',
    webhook TEXT NOT NULL DEFAULT 'pending',
    attempts INTEGER NOT NULL DEFAULT 0,
    due REAL,
    era TEXT,
    last_error TEXT,
    settled_at TEXT
) STRICT;

CREATE INDEX notifications_pending ON notifications (id) WHERE webhook IN ('pending', 'sending');
CREATE INDEX notifications_by_task ON notifications (task, id) WHERE task IS NOT NULL;
CREATE INDEX notifications_by_created ON notifications (created_at);

-- With the change itself, so that no crash comes between the two.
CREATE TRIGGER tell_of_end AFTER UPDATE OF status ON tasks
WHEN NEW.status IN ('failed', 'dead') AND OLD.status NOT IN ('archived', NEW.status)
BEGIN
    INSERT INTO notifications (event, created_at, task, kind, type, body) VALUES (
        lower(hex(randomblob(16))), NEW.updated_at, NEW.uuid, NEW.status, 'error',
        json_object('attempts', NEW.attempts, 'retries', NEW.retry_count)
    );
END;

CREATE TRIGGER tell_of_take_over AFTER UPDATE OF retry_count ON tasks
WHEN OLD.status = 'running' AND NEW.status = 'running' AND NEW.retry_count > OLD.retry_count
BEGIN
    INSERT INTO notifications (event, created_at, task, kind, type, body) VALUES (
        lower(hex(randomblob(16))), NEW.updated_at, NEW.uuid, 'taken_over', 'warning',
        json_object('attempts', NEW.attempts, 'retries', NEW.retry_count)
    );
END;

-- What the monitor has found wrong and not yet found right again.
CREATE TABLE alerts (
    name TEXT PRIMARY KEY,
    since TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- A token is kept as its digest alone: whoever reads this table cannot come in with it.
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    "user" TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
) STRICT;

-- Tasks whose records were erased for a person's sake: their names are never used again.
CREATE TABLE erased (
    uuid TEXT PRIMARY KEY,
    erased_at TEXT NOT NULL,
    erased_by TEXT NOT NULL
) STRICT;
