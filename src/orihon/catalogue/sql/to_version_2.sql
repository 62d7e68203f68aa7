-- From version 1 to 2: what the queue and its workers need.
ALTER TABLE tasks ADD COLUMN claimed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN requested TEXT;
ALTER TABLE tasks ADD COLUMN retry_due REAL;
ALTER TABLE tasks ADD COLUMN retry_boot TEXT;
ALTER TABLE tasks ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE tasks ADD COLUMN prompt TEXT NOT NULL DEFAULT '';

DROP INDEX tasks_in_line;
DROP INDEX tasks_put_off;
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

-- Permissions to ask a provider, as of a moment on the boot-time clock; below zero where some are reserved.
CREATE TABLE permissions (
    provider TEXT PRIMARY KEY,
    level REAL NOT NULL,
    counted_at REAL NOT NULL,
    boot TEXT NOT NULL
) STRICT;
