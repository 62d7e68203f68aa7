-- context.db, version 2: the records of one task.
-- A record is the JSON text that the files back end would write as a line; its number is the primary key.

CREATE TABLE message_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE summary_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE tool_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE plan_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE compression_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);
CREATE TABLE checkpoint_records (id INTEGER PRIMARY KEY, record TEXT NOT NULL);

-- Derived: losing a row costs a rebuild, never history.
CREATE TABLE documents (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;

-- One row: the highest epoch that has written here.
CREATE TABLE fence (only INTEGER PRIMARY KEY CHECK (only = 1), epoch INTEGER NOT NULL);
INSERT INTO fence VALUES (1, 0);

-- For people with a sqlite3 shell. Views, because generated columns would cost every insert.
CREATE VIEW messages AS
SELECT
    id,
    json_extract(record, '$.role') AS role,
    json_extract(record, '$.content') AS content,
    json_extract(record, '$.tokens') AS token_count,
    json_extract(record, '$.timestamp') AS timestamp,
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

CREATE VIEW tool_calls AS
SELECT
    id,
    json_extract(record, '$.tool_name') AS tool_name,
    json_extract(record, '$.arguments') AS arguments,
    json_extract(record, '$.result') AS result,
    json_extract(record, '$.status') AS status,
    json_extract(record, '$.duration_ms') AS duration_ms,
    json_extract(record, '$.timestamp') AS timestamp,
    record
FROM tool_records;
