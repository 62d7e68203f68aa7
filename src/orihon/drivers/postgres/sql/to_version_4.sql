-- From version 3 to 4, and for every new schema: the records as the first designs' queries ask for them. Views, to look.

-- A field of a record as text; nothing of a record that is sealed. PostgreSQL has no text with a NUL in it.
CREATE FUNCTION record_text(record text, field text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN record::json ->> field;
EXCEPTION WHEN data_exception THEN
    BEGIN
        RETURN replace(record, '\u0000', '\ufffd')::json ->> field;
    EXCEPTION WHEN data_exception THEN
        RETURN NULL;
    END;
END $$;

-- The same as JSON.
CREATE FUNCTION record_json(record text, field text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN replace(record, '\u0000', '\ufffd')::json -> field;
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;

-- The folds that stand in the views of their tasks now.
CREATE VIEW visible_folds AS
SELECT
    logs.number AS task,
    folds.id,
    record_text(folds.record, 'start_seq')::bigint AS start_message_id,
    record_text(folds.record, 'end_seq')::bigint AS end_message_id
FROM task_logs AS logs
JOIN compression_records AS newest ON newest.task = logs.number AND newest.id = logs.compressions
CROSS JOIN LATERAL jsonb_array_elements_text(record_json(newest.record, 'visible')) AS shown (fold)
JOIN summary_records AS folds ON folds.task = logs.number AND folds.id = shown.fold::bigint;

CREATE VIEW messages AS
SELECT
    said.id,
    logs.uuid AS task_key,
    record_text(said.record, 'role') AS role,
    coalesce(record_text(said.record, 'content'), '') AS content,
    record_text(said.record, 'timestamp')::timestamptz AS timestamp,
    record_text(said.record, 'tokens')::bigint AS token_count,
    folds.id IS NOT NULL AS is_summarized,
    folds.id AS summary_id,
    coalesce(record_json(said.record, 'extra'), '{}') AS metadata
FROM message_records AS said
JOIN task_logs AS logs ON logs.number = said.task
LEFT JOIN visible_folds AS folds
    ON folds.task = said.task AND said.id BETWEEN folds.start_message_id AND folds.end_message_id;

CREATE VIEW summaries AS
SELECT
    folds.id,
    logs.uuid AS task_key,
    record_text(folds.record, 'start_seq')::bigint AS start_message_id,
    record_text(folds.record, 'end_seq')::bigint AS end_message_id,
    record_text(folds.record, 'summary') AS summary_content,
    record_text(folds.record, 'summary_tokens')::bigint AS token_count,
    record_text(folds.record, 'created_at')::timestamptz AS created_at
FROM summary_records AS folds
JOIN task_logs AS logs ON logs.number = folds.task;

-- A call belongs to the message that has its result.
CREATE VIEW tool_calls AS
SELECT
    calls.id,
    logs.uuid AS task_key,
    coalesce(record_text(calls.record, 'message')::bigint, answers.id) AS message_id,
    record_text(calls.record, 'tool_name') AS tool_name,
    record_json(calls.record, 'arguments') AS arguments,
    record_json(calls.record, 'result') AS result,
    record_text(calls.record, 'duration_ms')::double precision AS duration_ms,
    record_text(calls.record, 'status') AS status,
    record_text(calls.record, 'error') AS error_message,
    record_text(calls.record, 'timestamp')::timestamptz AS timestamp
FROM tool_records AS calls
JOIN task_logs AS logs ON logs.number = calls.task
LEFT JOIN (
    SELECT task, id, record_text(record, 'tool_call_id') AS call_id FROM message_records
) AS answers ON answers.task = calls.task AND answers.call_id = record_text(calls.record, 'call_id');

CREATE VIEW metadata AS
SELECT tasks.uuid AS task_key, about.key, about.value, tasks.created_at::timestamptz AS updated_at
FROM tasks
CROSS JOIN LATERAL (
    VALUES
    ('created_at', tasks.created_at),
    ('llm_provider', tasks.llm_provider),
    ('model', tasks.model),
    ('context_length', tasks.context_length::text),
    ('backend', tasks.backend)
) AS about (key, value)
WHERE about.value IS NOT NULL;

CREATE VIEW process_locks AS
SELECT
    uuid AS task_key,
    lease_pid::text AS process_id,
    lease_host AS hostname,
    started_at::timestamptz AS acquired_at,
    to_timestamp(lease_heartbeat) AS heartbeat_at
FROM tasks
WHERE lease_owner IS NOT NULL;
