-- context.db, version 3: the records of one task.
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

-- The views for people with a sqlite3 shell are in context_to_version_3.sql: a new database gets them, too.
