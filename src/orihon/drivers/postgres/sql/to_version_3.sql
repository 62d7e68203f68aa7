-- From version 2 to 3: who may come in over the network, and tasks that were erased.

-- A token is kept as its digest alone: whoever reads this table cannot come in with it.
CREATE TABLE grants (
    id text COLLATE "C" PRIMARY KEY,
    digest text COLLATE "C" NOT NULL UNIQUE,
    "user" text COLLATE "C" NOT NULL,
    role text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL DEFAULT '',
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C",
    revoked_at text COLLATE "C"
);

-- Tasks whose records were erased for a person's sake: their names are never used again.
CREATE TABLE erased (
    uuid text COLLATE "C" PRIMARY KEY,
    erased_at text COLLATE "C" NOT NULL,
    erased_by text COLLATE "C" NOT NULL
);
