-- What is done to a whole task's records when they are moved into the database or out of it.

-- name: all_tasks
SELECT uuid FROM task_logs ORDER BY uuid

-- name: remove
-- Everything of a task; with %(fenced)s, former writers are kept from beginning it anew.
WITH log AS (
    DELETE FROM task_logs WHERE uuid = %(uuid)s RETURNING number, uuid, epoch
),
messages AS (DELETE FROM message_records USING log WHERE task = log.number),
summaries AS (DELETE FROM summary_records USING log WHERE task = log.number),
tools AS (DELETE FROM tool_records USING log WHERE task = log.number),
plans AS (DELETE FROM plan_records USING log WHERE task = log.number),
compressions AS (DELETE FROM compression_records USING log WHERE task = log.number),
checkpoints AS (DELETE FROM checkpoint_records USING log WHERE task = log.number),
contents AS (DELETE FROM blobs USING log WHERE task = log.number),
kept AS (DELETE FROM documents USING log WHERE task = log.number)
INSERT INTO left_logs (uuid, epoch) SELECT uuid, epoch FROM log WHERE %(fenced)s
ON CONFLICT (uuid) DO UPDATE SET epoch = greatest(left_logs.epoch, excluded.epoch)

-- name: rename
UPDATE task_logs SET uuid = %(new)s WHERE uuid = %(old)s

-- name: let_in
DELETE FROM left_logs WHERE uuid = %(new)s

-- name: left_epoch
SELECT epoch FROM left_logs WHERE uuid = %(uuid)s

-- name: tasks_with_file
SELECT task_logs.uuid FROM task_logs
JOIN documents ON documents.task = task_logs.number AND documents.name = %(name)s ORDER BY task_logs.uuid
