-- The records of all tasks, version 1.
-- A record is the JSON text that the files back end would write as a line. Every key begins with the task's number, so
-- that the cost of a task follows its own length and not what else is stored; long texts are compressed out of line.

-- One row for each task: the highest epoch that has written, and how far each stream has come. Whoever appends changes
-- this row in the same statement; ``version`` counts these changes, and tells a writer that another was quicker.
CREATE TABLE task_logs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    uuid text NOT NULL UNIQUE,
    epoch bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    messages bigint NOT NULL DEFAULT 0,
    summaries bigint NOT NULL DEFAULT 0,
    tools bigint NOT NULL DEFAULT 0,
    planning bigint NOT NULL DEFAULT 0,
    compressions bigint NOT NULL DEFAULT 0,
    checkpoints bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70); -- room for the new version of a row beside the old one: no index has to be touched

CREATE TABLE message_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id));
CREATE TABLE summary_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id));
CREATE TABLE tool_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id));
CREATE TABLE plan_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id));
CREATE TABLE compression_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id));
CREATE TABLE checkpoint_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id));

-- Tasks that have been moved out of here, and the epoch that they had: nobody who wrote here before may begin them anew.
CREATE TABLE left_logs (uuid text PRIMARY KEY, epoch bigint NOT NULL);

-- Large contents by their SHA-256.
CREATE TABLE blobs (task bigint NOT NULL, digest text NOT NULL, content bytea NOT NULL, PRIMARY KEY (task, digest));

-- What belongs to a task and is no record: ``metadata.json``, ``final_summary.txt``, and what is derived.
CREATE TABLE documents (task bigint NOT NULL, name text NOT NULL, body bytea NOT NULL, PRIMARY KEY (task, name));
