-- From version 4 to 5: who may come in over the network, and tasks that were erased.

-- A token is kept as its digest alone: whoever reads this table cannot come in with it.
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    "user" TEXT NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL DEFAULT '',
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
) STRICT;

-- Tasks whose records were erased for a person's sake: their names are never used again.
CREATE TABLE erased (
    uuid TEXT PRIMARY KEY,
    erased_at TEXT NOT NULL,
    erased_by TEXT NOT NULL
) STRICT;
