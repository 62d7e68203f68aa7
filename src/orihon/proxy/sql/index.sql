-- name: schema
CREATE TABLE conversations (
    uuid TEXT PRIMARY KEY,
    seed BLOB NOT NULL,
    first BLOB NOT NULL,
    tip BLOB NOT NULL,
    session BLOB,
    steps INTEGER NOT NULL,
    kind TEXT NOT NULL,
    updated REAL NOT NULL,
    asked BLOB
) WITHOUT ROWID;
CREATE INDEX conversations_tip ON conversations (tip);
CREATE INDEX conversations_first ON conversations (first);
CREATE INDEX conversations_asked ON conversations (asked) WHERE asked IS NOT NULL;
CREATE INDEX conversations_session ON conversations (session) WHERE session IS NOT NULL;
CREATE TABLE responses (
    id BLOB PRIMARY KEY,
    uuid TEXT NOT NULL,
    steps INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX responses_uuid ON responses (uuid);
CREATE TABLE answers (
    mark BLOB NOT NULL,
    uuid TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (mark, uuid)
) WITHOUT ROWID;
CREATE INDEX answers_uuid ON answers (uuid, seq);

-- name: to_version_2
ALTER TABLE conversations ADD COLUMN asked BLOB;
CREATE INDEX conversations_asked ON conversations (asked) WHERE asked IS NOT NULL;
CREATE TABLE answers (
    mark BLOB NOT NULL,
    uuid TEXT NOT NULL,
    seq INTEGER NOT NULL,
    PRIMARY KEY (mark, uuid)
) WITHOUT ROWID;
CREATE INDEX answers_uuid ON answers (uuid, seq);

-- name: by_tip
SELECT uuid, seed, first, tip, session, steps, kind, asked FROM conversations
WHERE tip IN (SELECT unhex(value) FROM json_each(:chains));

-- name: by_first
SELECT uuid, seed, first, tip, session, steps, kind, asked FROM conversations WHERE first = :first ORDER BY updated DESC;

-- name: by_asked
SELECT uuid, seed, first, tip, session, steps, kind, asked FROM conversations WHERE asked = :asked;

-- name: of_session
SELECT uuid, seed, first, tip, session, steps, kind, asked FROM conversations WHERE session = :session ORDER BY updated DESC;

-- name: find
SELECT uuid, seed, first, tip, session, steps, kind, asked FROM conversations WHERE uuid = :uuid;

-- name: by_response
SELECT uuid, steps FROM responses WHERE id = :id;

-- name: keep
INSERT OR REPLACE INTO conversations (uuid, seed, first, tip, session, steps, kind, updated, asked)
VALUES (:uuid, :seed, :first, :tip, :session, :steps, :kind, :updated, :asked);

-- name: keep_response
INSERT OR REPLACE INTO responses (id, uuid, steps) VALUES (:id, :uuid, :steps);

-- name: forget
DELETE FROM conversations WHERE uuid = :uuid;

-- name: forget_responses
DELETE FROM responses WHERE uuid = :uuid;

-- name: tell
UPDATE conversations SET asked = NULL WHERE uuid = :uuid;

-- name: keep_answer
INSERT OR REPLACE INTO answers (mark, uuid, seq)
SELECT unhex(value), :uuid, :seq FROM json_each(:marks);

-- name: by_answer
SELECT lower(hex(mark)), uuid, seq = (SELECT max(seq) FROM answers AS others WHERE others.uuid = answers.uuid)
FROM answers WHERE mark IN (SELECT unhex(value) FROM json_each(:marks));

-- name: forget_answers
DELETE FROM answers WHERE uuid = :uuid;
