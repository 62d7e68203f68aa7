-- Upkeep of the database.

-- name: lock
-- Held until the session ends, on whatever machine that is.
SELECT pg_try_advisory_lock(hashtextextended('orihon maintain ' || current_schema(), 0))

-- name: size
SELECT coalesce(sum(pg_total_relation_size(format('%I.%I', schemaname, tablename)::regclass)), 0)::bigint
FROM pg_tables WHERE schemaname = current_schema()

-- name: tables
SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename
