-- From version 2 to 3: take-overs are counted.
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
