-- search.db, version 1: what the history search knows. Derived: an older one is made anew.

-- One row for each task that was looked at, and how far its records were read.
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    state TEXT NOT NULL,
    is_settled INTEGER NOT NULL,
    message INTEGER NOT NULL,
    summary INTEGER NOT NULL,
    tool INTEGER NOT NULL,
    plan INTEGER NOT NULL,
    problem TEXT NOT NULL
) STRICT;

CREATE INDEX tasks_with_problems ON tasks (uuid) WHERE problem <> '';

-- Where the tokens of a row of "texts" come from.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    task INTEGER NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    time TEXT NOT NULL,
    role TEXT NOT NULL
) STRICT;

CREATE INDEX documents_of_task ON documents (task);

CREATE TABLE progress (
    place TEXT PRIMARY KEY,
    since TEXT NOT NULL,
    compared TEXT NOT NULL
) STRICT;

-- Tokens with blanks between them, no text. The tokenizer takes everything beyond ASCII as it is.
CREATE VIRTUAL TABLE texts USING fts5 (
    words,
    wholes,
    tags,
    content = '',
    contentless_delete = 1,
    tokenize = "ascii tokenchars '_'"
);
