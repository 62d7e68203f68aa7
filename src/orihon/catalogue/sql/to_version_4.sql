-- From version 3 to 4: notifications, usage by day, and tasks found by the number of their issue.
ALTER TABLE tasks ADD COLUMN size_bytes INTEGER;
CREATE INDEX tasks_by_number ON tasks (task_id, created_at, uuid);
CREATE INDEX tasks_by_change ON tasks (updated_at) WHERE completed_at IS NOT NULL;

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
