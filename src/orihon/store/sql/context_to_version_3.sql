-- From version 2: what the first design's queries ask for. Views, because generated columns would cost every insert.

-- Who has claimed the task to write; kept of the newest few.
CREATE TABLE writers (process_id TEXT PRIMARY KEY, hostname TEXT NOT NULL, acquired_at TEXT NOT NULL) WITHOUT ROWID;

DROP VIEW IF EXISTS messages;
DROP VIEW IF EXISTS summaries;
DROP VIEW IF EXISTS tool_calls;

-- The folds that stand in the view now.
CREATE VIEW visible_folds AS
SELECT
    summary_records.id,
    json_extract(summary_records.record, '$.start_seq') AS start_message_id,
    json_extract(summary_records.record, '$.end_seq') AS end_message_id
FROM json_each((SELECT json_extract(record, '$.visible') FROM compression_records ORDER BY id DESC LIMIT 1)) AS shown
JOIN summary_records ON summary_records.id = shown.value;

CREATE VIEW messages AS
SELECT
    id,
    json_extract(record, '$.role') AS role,
    coalesce(json_extract(record, '$.content'), '') AS content,
    json_extract(record, '$.timestamp') AS timestamp,
    json_extract(record, '$.tokens') AS token_count,
    EXISTS (
        SELECT 1 FROM visible_folds WHERE message_records.id BETWEEN start_message_id AND end_message_id
    ) AS is_summarized,
    (
        SELECT folds.id FROM visible_folds AS folds
        WHERE message_records.id BETWEEN start_message_id AND end_message_id
    ) AS summary_id,
    coalesce(json_extract(record, '$.extra'), '{}') AS metadata,
    record
FROM message_records;

CREATE VIEW summaries AS
SELECT
    id,
    json_extract(record, '$.start_seq') AS start_message_id,
    json_extract(record, '$.end_seq') AS end_message_id,
    json_extract(record, '$.summary') AS summary_content,
    json_extract(record, '$.summary_tokens') AS token_count,
    json_extract(record, '$.created_at') AS created_at,
    record
FROM summary_records;

-- A call belongs to the message that has its result.
CREATE VIEW tool_calls AS
WITH answers AS (
    SELECT id, json_extract(record, '$.tool_call_id') AS call_id FROM message_records
    WHERE json_extract(record, '$.role') = 'tool'
)
SELECT
    tool_records.id,
    coalesce(json_extract(record, '$.message'), answers.id) AS message_id,
    json_extract(record, '$.tool_name') AS tool_name,
    json_quote(json_extract(record, '$.arguments')) AS arguments,
    json_quote(json_extract(record, '$.result')) AS result,
    json_extract(record, '$.duration_ms') AS duration_ms,
    json_extract(record, '$.status') AS status,
    json_extract(record, '$.error') AS error_message,
    json_extract(record, '$.timestamp') AS timestamp,
    record
FROM tool_records
LEFT JOIN answers ON answers.call_id = json_extract(record, '$.call_id');

-- What metadata.json says without names; of older tasks only when they began.
CREATE VIEW metadata AS
SELECT about.key, CAST(about.value AS TEXT) AS value, json_extract(CAST(body AS TEXT), '$.created_at') AS updated_at
FROM documents, json_each(CAST(body AS TEXT)) AS about
WHERE documents.name = 'about' AND about.value IS NOT NULL
UNION ALL
SELECT 'created_at', json_extract(record, '$.timestamp'), json_extract(record, '$.timestamp')
FROM message_records
WHERE id = 1 AND NOT EXISTS (SELECT 1 FROM documents WHERE name = 'about');

-- Every append is a sign of life.
CREATE VIEW process_locks AS
SELECT
    process_id,
    hostname,
    acquired_at,
    max(
        acquired_at,
        coalesce((SELECT json_extract(record, '$.timestamp') FROM message_records ORDER BY id DESC LIMIT 1), '')
    ) AS heartbeat_at
FROM writers;
