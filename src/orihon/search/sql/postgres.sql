-- The statements of the index in PostgreSQL, by name.

-- name: version
SELECT version FROM search_version;

-- name: has_version
SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %(schema)s AND tablename = 'search_version';

-- name: drop_tables
DROP TABLE IF EXISTS search_version, search_tasks, search_documents, search_progress;

-- name: note_version
INSERT INTO search_version VALUES (%(version)s);

-- name: making
SELECT pg_advisory_xact_lock(hashtextextended('orihon.search.making.' || %(schema)s, 0));

-- name: take_turn
SELECT pg_try_advisory_lock(hashtextextended('orihon.search.' || %(schema)s, 0));

-- name: end_turn
SELECT pg_advisory_unlock(hashtextextended('orihon.search.' || %(schema)s, 0));

-- name: mark
INSERT INTO search_tasks (uuid, state, is_settled, message, summary, tool, plan, problem)
VALUES (
    %(uuid)s, %(state)s, %(is_settled)s, %(message)s, %(summary)s, %(tool)s, %(plan)s, %(problem)s
)
ON CONFLICT (uuid) DO UPDATE SET
    state = excluded.state,
    is_settled = excluded.is_settled,
    message = excluded.message,
    summary = excluded.summary,
    tool = excluded.tool,
    plan = excluded.plan,
    problem = excluded.problem;

-- name: add_tasks
INSERT INTO search_tasks (uuid, state, is_settled, message, summary, tool, plan, problem)
SELECT uuid, '', false, 0, 0, 0, 0, '' FROM unnest(%(uuids)s::text[]) AS uuid
ON CONFLICT (uuid) DO NOTHING;

-- name: numbers
SELECT uuid, number FROM search_tasks WHERE uuid = ANY(%(uuids)s);

-- name: marks
SELECT uuid, state, is_settled, message, summary, tool, plan, problem FROM search_tasks;

-- name: marks_of
SELECT uuid, state, is_settled, message, summary, tool, plan, problem
FROM search_tasks
WHERE uuid = ANY(%(uuids)s);

-- name: problems
SELECT uuid, problem FROM search_tasks WHERE problem <> '';

-- name: add_documents
COPY search_documents (task, kind, number, time, role, is_long, words) FROM STDIN;

-- name: drop_documents
DELETE FROM search_documents WHERE task IN (SELECT number FROM search_tasks WHERE uuid = ANY(%(uuids)s));

-- name: drop_tasks
DELETE FROM search_tasks WHERE uuid = ANY(%(uuids)s);

-- name: clear
TRUNCATE search_tasks, search_documents, search_progress;

-- name: progress
SELECT since, compared FROM search_progress WHERE place = %(place)s;

-- name: note_progress
INSERT INTO search_progress VALUES (%(place)s, %(since)s, %(compared)s)
ON CONFLICT (place) DO UPDATE SET since = excluded.since, compared = excluded.compared;

-- name: compare_again
DELETE FROM search_progress;

-- name: count
SELECT count(*) FROM search_documents;

-- name: find
SELECT
    search_tasks.uuid,
    newest.kind,
    newest.number,
    newest.time,
    newest.role,
    ts_rank(newest.words, %(words)s::tsquery, 1) AS score,
    NOT newest.is_long AS is_certain
FROM (
    SELECT * FROM search_documents
    WHERE (words @@ %(match)s::tsquery OR (is_long AND words @@ %(loose)s::tsquery))
        AND time >= %(since)s
        AND time < %(until)s
    ORDER BY id DESC
    LIMIT %(limit)s
) AS newest
JOIN search_tasks ON search_tasks.number = newest.task
ORDER BY newest.id DESC;
