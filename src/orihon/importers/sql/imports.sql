-- imports.db: files that were imported without a problem. Derived: losing it costs that they are read again.

-- name: schema
CREATE TABLE files (
    path BLOB NOT NULL,
    user TEXT NOT NULL,
    format TEXT NOT NULL,
    size INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    head BLOB NOT NULL,
    task TEXT NOT NULL,
    PRIMARY KEY (path, user)
) WITHOUT ROWID;

-- name: file
SELECT format, size, modified, head, task FROM files WHERE path = :path AND user = :user;

-- name: forget_user
DELETE FROM files WHERE user = :user;

-- name: keep_file
INSERT INTO files (path, user, format, size, modified, head, task)
VALUES (:path, :user, :format, :size, :modified, :head, :task)
ON CONFLICT (path, user) DO UPDATE SET
    format = excluded.format, size = excluded.size, modified = excluded.modified,
    head = excluded.head, task = excluded.task;
