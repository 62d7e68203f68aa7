-- name: meta
SELECT value FROM meta WHERE key = '0'

-- name: blob
SELECT data FROM blobs WHERE id = ?
