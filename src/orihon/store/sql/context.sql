-- context.db, version 1: the records of one task.
-- A record is the JSON text that the files back end would write as a line; its number is the primary key.
-- The virtual columns are for people with a sqlite3 shell; Orihon itself reads only number and record.

CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    role TEXT AS (json_extract(record, '$.role')),
    content TEXT AS (json_extract(record, '$.content')),
    token_count INTEGER AS (json_extract(record, '$.tokens')),
    timestamp TEXT AS (json_extract(record, '$.timestamp'))
);

CREATE TABLE summaries (
    id INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    start_message_id INTEGER AS (json_extract(record, '$.start_seq')),
    end_message_id INTEGER AS (json_extract(record, '$.end_seq')),
    summary_content TEXT AS (json_extract(record, '$.summary')),
    token_count INTEGER AS (json_extract(record, '$.summary_tokens')),
    created_at TEXT AS (json_extract(record, '$.created_at'))
);

CREATE TABLE tool_calls (
    id INTEGER PRIMARY KEY,
    record TEXT NOT NULL,
    tool_name TEXT AS (json_extract(record, '$.tool_name')),
    status TEXT AS (json_extract(record, '$.status')),
    duration_ms INTEGER AS (json_extract(record, '$.duration_ms')),
    timestamp TEXT AS (json_extract(record, '$.timestamp'))
);

CREATE TABLE planning (id INTEGER PRIMARY KEY, record TEXT NOT NULL);

CREATE TABLE compressions (id INTEGER PRIMARY KEY, record TEXT NOT NULL);

-- Derived: losing a row costs a rebuild, never history.
CREATE TABLE documents (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;

-- One row: the highest epoch that has written here.
CREATE TABLE fence (only INTEGER PRIMARY KEY CHECK (only = 1), epoch INTEGER NOT NULL);
INSERT INTO fence VALUES (1, 0);
