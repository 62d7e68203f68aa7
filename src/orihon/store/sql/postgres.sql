-- The statements of the postgres back end, by name. Each is a round trip.

-- name: find
SELECT number, epoch, version, messages, summaries, tools, planning, compressions, checkpoints FROM task_logs WHERE uuid = %s

-- name: lock
SELECT number, epoch, version, messages, summaries, tools, planning, compressions, checkpoints FROM task_logs WHERE uuid = %s FOR UPDATE

-- name: claim
-- Not where a task has left the database: a former writer would begin it anew, unseen by whoever goes on with it.
INSERT INTO task_logs (uuid, epoch)
SELECT %(uuid)s, %(epoch)s
WHERE NOT EXISTS (SELECT 1 FROM left_logs WHERE left_logs.uuid = %(uuid)s AND left_logs.epoch >= %(epoch)s)
ON CONFLICT (uuid) DO UPDATE SET epoch = greatest(task_logs.epoch, excluded.epoch)
RETURNING number, epoch, version, messages, summaries, tools, planning, compressions, checkpoints

-- name: append_message
-- The statement that nearly every append is. The row of the task is changed first, or nothing is; the CASE says what a
-- commit waits for, which the server asks only at the end of the transaction.
WITH moved AS (
    UPDATE task_logs SET version = version + 1, messages = %(messages)s
    WHERE
        number = %(number)s AND epoch = %(epoch)s AND version = %(version)s
        AND CASE
            WHEN NOT %(durable)s THEN set_config('synchronous_commit', 'off', true) = 'off'
            WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) = 'on'
            ELSE true
        END
    RETURNING number
)
INSERT INTO message_records (task, id, record) SELECT number, %(messages)s, %(record)s FROM moved

-- name: append
-- The same for any number of records of any streams, and documents.
WITH moved AS (
    UPDATE task_logs SET
        version = version + 1, messages = %(messages)s, summaries = %(summaries)s, tools = %(tools)s,
        planning = %(planning)s, compressions = %(compressions)s, checkpoints = %(checkpoints)s
    WHERE
        number = %(number)s AND epoch = %(epoch)s AND version = %(version)s
        AND CASE
            WHEN NOT %(durable)s THEN set_config('synchronous_commit', 'off', true) = 'off'
            WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) = 'on'
            ELSE true
        END
    RETURNING number
),
given AS (
    SELECT moved.number, item.stream, item.id, item.record
    FROM moved, unnest(%(streams)s::text[], %(ids)s::bigint[], %(records)s::text[]) AS item (stream, id, record)
),
messages AS (
    INSERT INTO message_records SELECT number, id, record FROM given WHERE stream = 'messages'
),
summaries AS (
    INSERT INTO summary_records SELECT number, id, record FROM given WHERE stream = 'summaries'
),
tools AS (
    INSERT INTO tool_records SELECT number, id, record FROM given WHERE stream = 'tools'
),
plans AS (
    INSERT INTO plan_records SELECT number, id, record FROM given WHERE stream = 'planning'
),
compressions AS (
    INSERT INTO compression_records SELECT number, id, record FROM given WHERE stream = 'compressions'
),
checkpoints AS (
    INSERT INTO checkpoint_records SELECT number, id, record FROM given WHERE stream = 'checkpoints'
),
kept AS (
    INSERT INTO documents (task, name, body)
    SELECT moved.number, item.name, item.body
    FROM moved, unnest(%(names)s::text[], %(bodies)s::bytea[]) AS item (name, body)
    ON CONFLICT (task, name) DO UPDATE SET body = excluded.body
)
SELECT number FROM moved

-- name: read
-- Records run after run, under a first row that says how far the task had come when they were read. The lengths are
-- added up without unpacking the records; those that begin beyond the limit are left for the next page.
WITH log AS (
    SELECT number, messages, compressions FROM task_logs WHERE uuid = %(uuid)s
)
(SELECT 0 AS place, compressions AS id, messages::text AS record FROM log)
UNION ALL
(
    SELECT place, id, record
    FROM (
        SELECT place, id, record, sum(octet_length(record)) OVER (ORDER BY place, id) - octet_length(record) AS before
        FROM (
            SELECT run.place, item.id, item.record
            FROM
                log,
                unnest(%(streams)s::text[], %(firsts)s::bigint[], %(lasts)s::bigint[])
                    WITH ORDINALITY AS run (stream, start, stop, place),
                LATERAL (
                    SELECT id, record FROM message_records
                    WHERE run.stream = 'messages' AND task = log.number AND id BETWEEN run.start AND run.stop
                    UNION ALL
                    SELECT id, record FROM summary_records
                    WHERE run.stream = 'summaries' AND task = log.number AND id BETWEEN run.start AND run.stop
                    UNION ALL
                    SELECT id, record FROM tool_records
                    WHERE run.stream = 'tools' AND task = log.number AND id BETWEEN run.start AND run.stop
                    UNION ALL
                    SELECT id, record FROM plan_records
                    WHERE run.stream = 'planning' AND task = log.number AND id BETWEEN run.start AND run.stop
                    UNION ALL
                    SELECT id, record FROM compression_records
                    WHERE run.stream = 'compressions' AND task = log.number AND id BETWEEN run.start AND run.stop
                    UNION ALL
                    SELECT id, record FROM checkpoint_records
                    WHERE run.stream = 'checkpoints' AND task = log.number AND id BETWEEN run.start AND run.stop
                ) AS item
            ORDER BY run.place, item.id
            LIMIT %(page)s
        ) AS counted
    ) AS measured
    WHERE before < %(bytes)s
)
ORDER BY place, id

-- name: rewrite_messages
UPDATE message_records SET record = %s WHERE task = %s AND id = %s

-- name: rewrite_summaries
UPDATE summary_records SET record = %s WHERE task = %s AND id = %s

-- name: rewrite_tools
UPDATE tool_records SET record = %s WHERE task = %s AND id = %s

-- name: rewrite_planning
UPDATE plan_records SET record = %s WHERE task = %s AND id = %s

-- name: rewrite_compressions
UPDATE compression_records SET record = %s WHERE task = %s AND id = %s

-- name: rewrite_checkpoints
UPDATE checkpoint_records SET record = %s WHERE task = %s AND id = %s

-- name: keep
-- This and the next two write beside a section: the task's row is held, so that nobody takes over or removes the task
-- meanwhile, and its number comes back unless somebody has. Who has not claimed the task has no epoch.
WITH log AS (
    SELECT number FROM task_logs
    WHERE number = %(number)s AND epoch = coalesce(%(epoch)s::bigint, epoch) FOR SHARE
),
kept AS (
    INSERT INTO documents (task, name, body) SELECT number, %(name)s, %(body)b FROM log
    ON CONFLICT (task, name) DO UPDATE SET body = excluded.body
)
SELECT number FROM log

-- name: kept
SELECT body FROM documents WHERE task = (SELECT number FROM task_logs WHERE uuid = %s) AND name = %s

-- name: drop
WITH log AS (
    SELECT number FROM task_logs
    WHERE number = %(number)s AND epoch = coalesce(%(epoch)s::bigint, epoch) FOR SHARE
),
dropped AS (DELETE FROM documents USING log WHERE task = log.number AND name = %(name)s)
SELECT number FROM log

-- name: put_blob
-- Not waited for: the record that mentions it is committed later, and waits for both.
WITH log AS (
    SELECT number FROM task_logs
    WHERE number = %(number)s AND epoch = coalesce(%(epoch)s::bigint, epoch) FOR SHARE
),
put AS (
    INSERT INTO blobs (task, digest, content)
    SELECT number, %(digest)s, %(content)b FROM log WHERE set_config('synchronous_commit', 'off', true) = 'off'
    ON CONFLICT (task, digest) DO NOTHING
)
SELECT number FROM log

-- name: drop_blob
WITH log AS (
    SELECT number FROM task_logs
    WHERE number = %(number)s AND epoch = coalesce(%(epoch)s::bigint, epoch) FOR SHARE
),
dropped AS (DELETE FROM blobs USING log WHERE task = log.number AND digest = %(digest)s)
SELECT number FROM log

-- name: get_blob
SELECT content FROM blobs WHERE task = (SELECT number FROM task_logs WHERE uuid = %s) AND digest = %s

-- name: blob_digests
SELECT digest FROM blobs WHERE task = (SELECT number FROM task_logs WHERE uuid = %s) ORDER BY digest

-- name: kept_names
SELECT name FROM documents WHERE task = (SELECT number FROM task_logs WHERE uuid = %s) ORDER BY name

-- name: size
WITH log AS (
    SELECT number FROM task_logs WHERE uuid = %s
)
SELECT coalesce(sum(bytes), 0)::bigint FROM (
    SELECT pg_column_size(record) FROM message_records, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(record) FROM summary_records, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(record) FROM tool_records, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(record) FROM plan_records, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(record) FROM compression_records, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(record) FROM checkpoint_records, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(content) FROM blobs, log WHERE task = log.number
    UNION ALL
    SELECT pg_column_size(body) FROM documents, log WHERE task = log.number
) AS stored (bytes)
