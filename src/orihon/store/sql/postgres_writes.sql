-- When tasks last wrote to their logs; for who watches them.

-- name: last_writes
SELECT
    task_logs.uuid,
    (
        SELECT CAST(message_records.record AS json) ->> 'timestamp' FROM message_records
        WHERE message_records.task = task_logs.number AND message_records.id = task_logs.messages
    )
FROM task_logs WHERE task_logs.uuid = ANY(%(uuids)s)
