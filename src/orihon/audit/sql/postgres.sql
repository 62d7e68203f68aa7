-- The statements of the audit in PostgreSQL, by name.

-- name: has_tables
SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %(schema)s AND tablename = 'audit_version';

-- name: version
SELECT version FROM audit_version;

-- name: making
SELECT pg_advisory_xact_lock(hashtextextended('orihon.audit.making.' || %(schema)s, 0));

-- name: take_chain
SELECT slot, chain, number, hash FROM audit_chains
ORDER BY (slot = %(slot)s) DESC, slot
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: wait_for_chain
SELECT slot, chain, number, hash FROM audit_chains WHERE chain = %(chain)s FOR UPDATE;

-- name: new_chain
INSERT INTO audit_chains (slot, chain, number, hash)
SELECT s.slot, s.slot || '-' || %(mark)s, 0, %(genesis)s
FROM (SELECT coalesce(max(slot), 0) + 1 AS slot FROM audit_chains) AS s
ON CONFLICT (slot) DO NOTHING
RETURNING slot, chain, number, hash;

-- name: add
INSERT INTO audit_records (chain, number, line)
SELECT %(chain)s, %(first)s + n - 1, line FROM unnest(%(lines)s::bytea[]) WITH ORDINALITY AS l (line, n);

-- name: move_head
UPDATE audit_chains SET number = %(number)s, hash = %(hash)s WHERE slot = %(slot)s;

-- name: chains
SELECT chain FROM audit_chains UNION SELECT DISTINCT chain FROM audit_records;

-- name: lines
SELECT number, line FROM audit_records WHERE chain = %(chain)s AND number > %(after)s ORDER BY number LIMIT %(limit)s;

-- name: lines_about
SELECT number, line FROM audit_records
WHERE chain = %(chain)s AND number > %(after)s AND position(%(task)s::bytea IN line) > 0
ORDER BY number LIMIT %(limit)s;

-- name: head
SELECT number, hash FROM audit_chains WHERE chain = %(chain)s;

-- name: drop
DELETE FROM audit_records WHERE chain = %(chain)s AND number < %(first)s;

-- name: people
SELECT name, person, address, salt FROM audit_people;

-- name: names
SELECT name FROM audit_people WHERE person = %(person)s AND address = %(address)s ORDER BY name LIMIT 1;

-- name: add_person
INSERT INTO audit_people (name, person, address, salt) VALUES (%(name)s, %(person)s, %(address)s, %(salt)s);

-- name: forget
DELETE FROM audit_people WHERE name = ANY(%(names)s);

-- name: load
SELECT value FROM audit_values WHERE name = %(name)s;

-- name: save
INSERT INTO audit_values (name, value) VALUES (%(name)s, %(value)s)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;
