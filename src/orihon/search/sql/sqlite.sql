-- The statements of the index in SQLite, by name.

-- name: mark
INSERT INTO tasks (uuid, state, is_settled, message, summary, tool, plan, problem)
VALUES (:uuid, :state, :is_settled, :message, :summary, :tool, :plan, :problem)
ON CONFLICT (uuid) DO UPDATE SET
    state = excluded.state,
    is_settled = excluded.is_settled,
    message = excluded.message,
    summary = excluded.summary,
    tool = excluded.tool,
    plan = excluded.plan,
    problem = excluded.problem;

-- name: add_task
INSERT INTO tasks (uuid, state, is_settled, message, summary, tool, plan, problem)
VALUES (:uuid, '', 0, 0, 0, 0, 0, '')
ON CONFLICT (uuid) DO NOTHING;

-- name: number
SELECT number FROM tasks WHERE uuid = :uuid;

-- name: marks
SELECT uuid, state, is_settled, message, summary, tool, plan, problem FROM tasks;

-- name: marks_of
SELECT uuid, state, is_settled, message, summary, tool, plan, problem
FROM tasks
WHERE uuid IN (SELECT value FROM json_each(:uuids));

-- name: problems
SELECT uuid, problem FROM tasks WHERE problem <> '';

-- name: add_document
INSERT INTO documents (task, kind, number, time, role) VALUES (:task, :kind, :number, :time, :role);

-- name: add_words
INSERT INTO texts (rowid, words, wholes, tags) VALUES (:id, :words, :wholes, :tags);

-- name: drop_words
DELETE FROM texts WHERE rowid IN (SELECT id FROM documents WHERE task = :task);

-- name: drop_documents
DELETE FROM documents WHERE task = :task;

-- name: drop_task
DELETE FROM tasks WHERE number = :task;

-- name: progress
SELECT since, compared FROM progress WHERE place = :place;

-- name: note_progress
INSERT INTO progress VALUES (:place, :since, :compared)
ON CONFLICT (place) DO UPDATE SET since = excluded.since, compared = excluded.compared;

-- name: compare_again
DELETE FROM progress;

-- name: count
SELECT count(*) FROM documents;

-- name: count_some
SELECT count(*) FROM (SELECT 1 FROM texts WHERE texts MATCH :match LIMIT :limit);

-- name: find
SELECT tasks.uuid, documents.kind, documents.number, documents.time, documents.role, orihon_score(texts) AS score
FROM texts
JOIN documents ON documents.id = texts.rowid
JOIN tasks ON tasks.number = documents.task
WHERE texts MATCH :match
    AND documents.time >= :since
    AND documents.time < :until
ORDER BY texts.rowid DESC
LIMIT :limit;
