-- The catalogue, version 2: one row for each task, as in tasks.db.
-- Times are ISO 8601 texts in UTC, all of one width. The lease_* times, retry_due, counted_at and heartbeat are seconds
-- on the server's clock. Texts are compared by their bytes, wherever the server stands.

-- From start to end. The texts name their time zone, so that nothing else has a say in it; what is no time gives none.
CREATE FUNCTION run_milliseconds(started text, completed text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    -- A clock that was set back must not give a negative time.
    RETURN greatest(0, round(extract(epoch FROM completed::timestamptz - started::timestamptz) * 1000));
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

CREATE TABLE tasks (
    uuid text COLLATE "C" PRIMARY KEY,
    task_source text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL DEFAULT '',
    repo text COLLATE "C" NOT NULL DEFAULT '',
    task_type text COLLATE "C" NOT NULL,
    task_id text COLLATE "C" NOT NULL,
    task_identifier text NOT NULL,
    repository text COLLATE "C" NOT NULL DEFAULT '',
    "user" text COLLATE "C" NOT NULL DEFAULT '',
    status text COLLATE "C" NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    started_at text COLLATE "C",
    completed_at text COLLATE "C",
    process_id bigint,
    hostname text,
    llm_provider text,
    model text,
    context_length bigint,
    backend text,
    correction double precision NOT NULL DEFAULT 1.0,
    llm_call_count bigint NOT NULL DEFAULT 0,
    tool_call_count bigint NOT NULL DEFAULT 0,
    total_tokens bigint NOT NULL DEFAULT 0,
    compression_count bigint NOT NULL DEFAULT 0,
    total_messages bigint NOT NULL DEFAULT 0,
    total_summaries bigint NOT NULL DEFAULT 0,
    total_tool_calls bigint NOT NULL DEFAULT 0,
    final_token_count bigint,
    final_message_count bigint,
    view_tokens bigint,
    error_message text,
    metadata text NOT NULL DEFAULT '{}',
    lease_owner text,
    lease_host text,
    lease_pid bigint,
    lease_pid_start bigint,
    lease_pid_space text,
    lease_boot text,
    lease_heartbeat double precision,
    lease_until double precision,
    epoch bigint NOT NULL DEFAULT 0,
    retry_count bigint NOT NULL DEFAULT 0,
    max_retries bigint,
    priority bigint NOT NULL DEFAULT 0,
    available_at text COLLATE "C",
    parent_uuid text COLLATE "C",
    inherits_from text COLLATE "C",
    keep bigint NOT NULL DEFAULT 0,
    -- A worker took it out of the line: when that worker dies, another one goes on.
    claimed bigint NOT NULL DEFAULT 0,
    -- Claims since the task was queued or last given back in good order.
    attempts bigint NOT NULL DEFAULT 0,
    -- What somebody wants of it: pause, cancel, resume; tell, when its source has not heard of its end.
    requested text COLLATE "C",
    -- When a retry is due; available_at says the same to people.
    retry_due double precision,
    retry_boot text,
    source text NOT NULL DEFAULT '',
    prompt text NOT NULL DEFAULT '',
    run_milliseconds bigint GENERATED ALWAYS AS (run_milliseconds(started_at, completed_at)) STORED,
    size_bytes bigint
) WITH (
    fillfactor = 80, -- a heartbeat finds room beside the old version of its row, and touches no index
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);

CREATE INDEX tasks_by_created ON tasks (created_at, uuid);
CREATE INDEX tasks_by_status ON tasks (status, created_at, uuid);
CREATE INDEX tasks_by_user ON tasks ("user", created_at, uuid);
CREATE INDEX tasks_by_repository ON tasks (repository, created_at, uuid);
CREATE INDEX tasks_by_key ON tasks (task_source, owner, repo, task_type, task_id, "user", status, completed_at);
CREATE INDEX tasks_by_number ON tasks (task_id, created_at, uuid);
CREATE INDEX tasks_by_completed ON tasks (completed_at) WHERE completed_at IS NOT NULL;
-- A row changes rarely once its task has ended; those that are worked on would move their entries all the time.
CREATE INDEX tasks_by_change ON tasks (updated_at) WHERE completed_at IS NOT NULL;
CREATE INDEX tasks_by_parent ON tasks (parent_uuid) WHERE parent_uuid IS NOT NULL;
CREATE INDEX tasks_in_line ON tasks (priority DESC, created_at, uuid, "user")
    WHERE status = 'queued' AND available_at IS NULL AND requested IS NULL;
CREATE INDEX tasks_put_off ON tasks (available_at)
    WHERE status = 'queued' AND available_at IS NOT NULL AND retry_due IS NULL AND requested IS NULL;
CREATE INDEX tasks_to_retry ON tasks (retry_due)
    WHERE status = 'queued' AND retry_due IS NOT NULL AND requested IS NULL;
CREATE INDEX tasks_to_resume ON tasks (priority DESC, created_at, uuid, "user")
    WHERE status = 'paused' AND requested = 'resume';
CREATE INDEX tasks_to_cancel ON tasks (uuid) WHERE status = 'paused' AND requested = 'cancel';
CREATE INDEX tasks_to_tell ON tasks (uuid) WHERE requested = 'tell';
CREATE INDEX tasks_claimed ON tasks ("user") WHERE status = 'running' AND claimed = 1;
-- Not on the time that a lease ends: a heartbeat would have to move the entry.
CREATE INDEX tasks_leased ON tasks (lease_host, uuid) WHERE lease_owner IS NOT NULL;
CREATE INDEX tasks_unowned ON tasks (uuid) WHERE status = 'running' AND lease_owner IS NULL;

-- One row for each worker process there was; its counters are written with its next claim.
CREATE TABLE workers (
    name text COLLATE "C" PRIMARY KEY,
    worker_id text NOT NULL,
    host text NOT NULL,
    pid bigint NOT NULL,
    pid_start bigint NOT NULL,
    pid_space text NOT NULL,
    boot text NOT NULL,
    state text NOT NULL,
    task_uuid text,
    processed bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    started_at text COLLATE "C" NOT NULL,
    updated_at text COLLATE "C" NOT NULL,
    heartbeat double precision NOT NULL
) WITH (fillfactor = 70);

-- Permissions to ask a provider, as of a moment on the server's clock; below zero where some are reserved.
CREATE TABLE permissions (
    provider text COLLATE "C" PRIMARY KEY,
    level double precision NOT NULL,
    counted_at double precision NOT NULL,
    boot text NOT NULL
) WITH (fillfactor = 70);

-- Sums over the tasks of one user, repository and status. The triggers append differences (rollup_parts), so that no
-- writer waits for another's row; now and then the parts are merged into rollup_sums. The view is the truth of both.
CREATE TABLE rollup_sums (
    "user" text COLLATE "C" NOT NULL,
    repository text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    tasks bigint NOT NULL,
    messages bigint NOT NULL,
    tokens bigint NOT NULL,
    llm_calls bigint NOT NULL,
    tool_calls bigint NOT NULL,
    compressions bigint NOT NULL,
    timed_tasks bigint NOT NULL,
    run_milliseconds bigint NOT NULL,
    PRIMARY KEY ("user", repository, status)
) WITH (fillfactor = 70);

-- The key is only there so that a subscriber can follow the table.
CREATE TABLE rollup_parts (
    LIKE rollup_sums,
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

CREATE VIEW rollups AS
SELECT *
FROM (
    SELECT
        "user",
        repository,
        status,
        coalesce(stored.tasks, 0) + coalesce(added.tasks, 0) AS tasks,
        coalesce(stored.messages, 0) + coalesce(added.messages, 0) AS messages,
        coalesce(stored.tokens, 0) + coalesce(added.tokens, 0) AS tokens,
        coalesce(stored.llm_calls, 0) + coalesce(added.llm_calls, 0) AS llm_calls,
        coalesce(stored.tool_calls, 0) + coalesce(added.tool_calls, 0) AS tool_calls,
        coalesce(stored.compressions, 0) + coalesce(added.compressions, 0) AS compressions,
        coalesce(stored.timed_tasks, 0) + coalesce(added.timed_tasks, 0) AS timed_tasks,
        coalesce(stored.run_milliseconds, 0) + coalesce(added.run_milliseconds, 0) AS run_milliseconds
    FROM rollup_sums AS stored
    FULL JOIN (
        SELECT
            "user",
            repository,
            status,
            sum(tasks)::bigint AS tasks,
            sum(messages)::bigint AS messages,
            sum(tokens)::bigint AS tokens,
            sum(llm_calls)::bigint AS llm_calls,
            sum(tool_calls)::bigint AS tool_calls,
            sum(compressions)::bigint AS compressions,
            sum(timed_tasks)::bigint AS timed_tasks,
            sum(run_milliseconds)::bigint AS run_milliseconds
        FROM rollup_parts
        GROUP BY "user", repository, status
    ) AS added USING ("user", repository, status)
) AS total
WHERE (tasks, messages, tokens, llm_calls, tool_calls, compressions, timed_tasks, run_milliseconds)
    <> (0, 0, 0, 0, 0, 0, 0, 0);

-- What the rollups must be.
CREATE VIEW counted_rollups AS
SELECT
    "user",
    repository,
    status,
    count(*) AS tasks,
    sum(total_messages)::bigint AS messages,
    sum(total_tokens)::bigint AS tokens,
    sum(llm_call_count)::bigint AS llm_calls,
    sum(tool_call_count)::bigint AS tool_calls,
    sum(compression_count)::bigint AS compressions,
    count(run_milliseconds) AS timed_tasks,
    coalesce(sum(run_milliseconds), 0)::bigint AS run_milliseconds
FROM tasks
GROUP BY "user", repository, status;

-- The functions that write find their tables whatever the session of the writer looks at: also one that is not ours.
CREATE FUNCTION append_rollup_parts() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    -- The common case, figures growing within one group, is one row.
    IF TG_OP = 'UPDATE' AND (NEW."user", NEW.repository, NEW.status) = (OLD."user", OLD.repository, OLD.status) THEN
        INSERT INTO rollup_parts VALUES (
            NEW."user", NEW.repository, NEW.status, 0,
            NEW.total_messages - OLD.total_messages,
            NEW.total_tokens - OLD.total_tokens,
            NEW.llm_call_count - OLD.llm_call_count,
            NEW.tool_call_count - OLD.tool_call_count,
            NEW.compression_count - OLD.compression_count,
            (NEW.run_milliseconds IS NOT NULL)::int - (OLD.run_milliseconds IS NOT NULL)::int,
            coalesce(NEW.run_milliseconds, 0) - coalesce(OLD.run_milliseconds, 0)
        );
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO rollup_parts VALUES (
            OLD."user", OLD.repository, OLD.status, -1, -OLD.total_messages, -OLD.total_tokens, -OLD.llm_call_count,
            -OLD.tool_call_count, -OLD.compression_count, -(OLD.run_milliseconds IS NOT NULL)::int,
            -coalesce(OLD.run_milliseconds, 0)
        );
    END IF;
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO rollup_parts VALUES (
            NEW."user", NEW.repository, NEW.status, 1, NEW.total_messages, NEW.total_tokens, NEW.llm_call_count,
            NEW.tool_call_count, NEW.compression_count, (NEW.run_milliseconds IS NOT NULL)::int,
            coalesce(NEW.run_milliseconds, 0)
        );
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER rollup_inserted_or_deleted AFTER INSERT OR DELETE ON tasks
FOR EACH ROW EXECUTE FUNCTION append_rollup_parts();

CREATE TRIGGER rollup_updated AFTER UPDATE ON tasks
FOR EACH ROW WHEN (
    (
        OLD."user", OLD.repository, OLD.status, OLD.total_messages, OLD.total_tokens, OLD.llm_call_count,
        OLD.tool_call_count, OLD.compression_count, OLD.run_milliseconds
    ) IS DISTINCT FROM (
        NEW."user", NEW.repository, NEW.status, NEW.total_messages, NEW.total_tokens, NEW.llm_call_count,
        NEW.tool_call_count, NEW.compression_count, NEW.run_milliseconds
    )
) EXECUTE FUNCTION append_rollup_parts();

-- Whatever puts a task in line tells the workers that wait, on a channel with the name of the schema.
CREATE FUNCTION tell_workers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify(TG_TABLE_SCHEMA, '');
    RETURN NULL;
END $$;

CREATE TRIGGER put_in_line AFTER INSERT ON tasks
FOR EACH ROW WHEN (NEW.status = 'queued' AND NEW.available_at IS NULL AND NEW.requested IS NULL)
EXECUTE FUNCTION tell_workers();

CREATE TRIGGER put_back_in_line AFTER UPDATE OF status, available_at, requested ON tasks
FOR EACH ROW WHEN (
    (
        NEW.status = 'queued' AND NEW.available_at IS NULL AND NEW.requested IS NULL
        AND NOT (OLD.status = 'queued' AND OLD.available_at IS NULL AND OLD.requested IS NULL)
    ) OR (
        NEW.status = 'paused' AND NEW.requested = 'resume'
        AND NOT (OLD.status = 'paused' AND OLD.requested IS NOT DISTINCT FROM 'resume')
    )
) EXECUTE FUNCTION tell_workers();

-- What happened to tasks, counted since there is this schema.
CREATE TABLE counters (name text COLLATE "C" PRIMARY KEY, value bigint NOT NULL) WITH (fillfactor = 70);

-- A claim of a running task is a take-over, and the only change that raises retry_count without a change of status. It
-- is rare: workers do not meet at the one row that it changes.
CREATE FUNCTION count_take_over() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO counters VALUES ('take_overs', 1) ON CONFLICT (name) DO UPDATE SET value = counters.value + 1;
    RETURN NULL;
END $$;

CREATE TRIGGER count_take_over AFTER UPDATE OF retry_count ON tasks
FOR EACH ROW WHEN (OLD.status = 'running' AND NEW.status = 'running' AND NEW.retry_count > OLD.retry_count)
EXECUTE FUNCTION count_take_over();

-- Calls of models, by task, day (UTC), model and what for (answer, summary). The cost is what somebody else has reported;
-- calls that came without one have rows of their own, because their tokens have to be priced.
CREATE TABLE usage (
    uuid text COLLATE "C" NOT NULL,
    day text COLLATE "C" NOT NULL,
    model text COLLATE "C" NOT NULL,
    purpose text COLLATE "C" NOT NULL DEFAULT 'answer',
    is_reported bigint NOT NULL DEFAULT 0,
    provider text COLLATE "C" NOT NULL DEFAULT '',
    calls bigint NOT NULL DEFAULT 0,
    input_tokens bigint NOT NULL DEFAULT 0,
    cached_tokens bigint NOT NULL DEFAULT 0,
    output_tokens bigint NOT NULL DEFAULT 0,
    saved_tokens bigint NOT NULL DEFAULT 0,
    cost double precision,
    PRIMARY KEY (uuid, model, purpose, is_reported, day)
) WITH (fillfactor = 70);

CREATE INDEX usage_by_day ON usage (day);

-- What people are told: the feed, by its numbers, and the outbox of the webhook. The event is the name that a receiver
-- knows it by, however often it comes. An attempt is due on the server's clock; at once where it is not said when.
CREATE TABLE notifications (
    id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    event text COLLATE "C" NOT NULL UNIQUE,
    created_at text COLLATE "C" NOT NULL,
    task text COLLATE "C",
    kind text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    body text NOT NULL DEFAULT '{}',
    webhook text COLLATE "C" NOT NULL DEFAULT 'pending',
    attempts bigint NOT NULL DEFAULT 0,
    due double precision,
    era text COLLATE "C",
    last_error text,
    settled_at text COLLATE "C"
) WITH (fillfactor = 70);

CREATE INDEX notifications_pending ON notifications (id) WHERE webhook IN ('pending', 'sending');
CREATE INDEX notifications_by_task ON notifications (task, id) WHERE task IS NOT NULL;
CREATE INDEX notifications_by_created ON notifications (created_at);

-- With the change itself, so that no crash comes between the two. Whoever reads on from a number must not miss one that
-- is committed later: numbers are given out under a lock. It is taken when all else is done, at the end of the
-- transaction, so that nobody who holds it waits for another lock.
CREATE FUNCTION tell_of_task() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('orihon.notifications ' || TG_TABLE_SCHEMA, 0));
    INSERT INTO notifications (event, created_at, task, kind, type, body) VALUES (
        replace(gen_random_uuid()::text, '-', ''), NEW.updated_at, NEW.uuid,
        CASE NEW.status WHEN 'running' THEN 'taken_over' ELSE NEW.status END,
        CASE NEW.status WHEN 'running' THEN 'warning' ELSE 'error' END,
        json_build_object('attempts', NEW.attempts, 'retries', NEW.retry_count)::text
    );
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER tell_of_end AFTER UPDATE OF status ON tasks DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.status IN ('failed', 'dead') AND OLD.status NOT IN ('archived', NEW.status))
EXECUTE FUNCTION tell_of_task();

CREATE CONSTRAINT TRIGGER tell_of_take_over AFTER UPDATE OF retry_count ON tasks DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (OLD.status = 'running' AND NEW.status = 'running' AND NEW.retry_count > OLD.retry_count)
EXECUTE FUNCTION tell_of_task();

-- What the monitor has found wrong and not yet found right again.
CREATE TABLE alerts (
    name text COLLATE "C" PRIMARY KEY,
    since text COLLATE "C" NOT NULL,
    body text NOT NULL
);

-- A token is kept as its digest alone: whoever reads this table cannot come in with it.
CREATE TABLE grants (
    id text COLLATE "C" PRIMARY KEY,
    digest text COLLATE "C" NOT NULL UNIQUE,
    "user" text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL DEFAULT '',
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C",
    revoked_at text COLLATE "C"
);

-- Tasks whose records were erased for a person's sake: their names are never used again.
CREATE TABLE erased (
    uuid text COLLATE "C" PRIMARY KEY,
    erased_at text COLLATE "C" NOT NULL,
    erased_by text COLLATE "C" NOT NULL
);
