-- The index of the history search, version 1. Derived from the records: another version is dropped and made anew.

CREATE TABLE search_version (version integer NOT NULL);

-- One row for each task that was looked at, and how far its records were read.
CREATE TABLE search_tasks (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid text COLLATE "C" NOT NULL UNIQUE,
    state text NOT NULL,
    is_settled boolean NOT NULL,
    message bigint NOT NULL,
    summary bigint NOT NULL,
    tool bigint NOT NULL,
    plan bigint NOT NULL,
    problem text NOT NULL
);

CREATE INDEX search_tasks_with_problems ON search_tasks (uuid) WHERE problem <> '';

-- The tokens of one message, summary, tool call or plan. "is_long": it has more places than a tsvector can tell.
CREATE TABLE search_documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    time text COLLATE "C" NOT NULL,
    role text NOT NULL,
    is_long boolean NOT NULL,
    words tsvector NOT NULL
);

CREATE INDEX search_documents_of_task ON search_documents (task);
CREATE INDEX search_words ON search_documents USING gin (words);

CREATE TABLE search_progress (
    place text COLLATE "C" PRIMARY KEY,
    since text COLLATE "C" NOT NULL,
    compared text COLLATE "C" NOT NULL
);
