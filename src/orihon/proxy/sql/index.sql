-- name: schema
CREATE TABLE conversations (
    uuid TEXT PRIMARY KEY,
    seed BLOB NOT NULL,
    first BLOB NOT NULL,
    tip BLOB NOT NULL,
    session BLOB,
    steps INTEGER NOT NULL,
    kind TEXT NOT NULL,
    updated REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX conversations_tip ON conversations (tip);
CREATE INDEX conversations_first ON conversations (first);
CREATE INDEX conversations_session ON conversations (session) WHERE session IS NOT NULL;
CREATE TABLE responses (
    id BLOB PRIMARY KEY,
    uuid TEXT NOT NULL,
    steps INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX responses_uuid ON responses (uuid);

-- name: by_tip
SELECT uuid, seed, first, tip, session, steps, kind FROM conversations
WHERE tip IN (SELECT unhex(value) FROM json_each(:chains));

-- name: by_first
SELECT uuid, seed, first, tip, session, steps, kind FROM conversations WHERE first = :first ORDER BY updated DESC;

-- name: of_session
SELECT uuid, seed, first, tip, session, steps, kind FROM conversations WHERE session = :session ORDER BY updated DESC;

-- name: find
SELECT uuid, seed, first, tip, session, steps, kind FROM conversations WHERE uuid = :uuid;

-- name: by_response
SELECT uuid, steps FROM responses WHERE id = :id;

-- name: keep
INSERT OR REPLACE INTO conversations (uuid, seed, first, tip, session, steps, kind, updated)
VALUES (:uuid, :seed, :first, :tip, :session, :steps, :kind, :updated);

-- name: keep_response
INSERT OR REPLACE INTO responses (id, uuid, steps) VALUES (:id, :uuid, :steps);

-- name: forget
DELETE FROM conversations WHERE uuid = :uuid;

-- name: forget_responses
DELETE FROM responses WHERE uuid = :uuid;
