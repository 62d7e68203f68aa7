-- The database of one task as the first design made it; only read.

-- name: metadata
SELECT key, value FROM metadata;

-- name: first_prompt
SELECT content FROM messages WHERE role = 'user' ORDER BY id LIMIT 1;

-- name: messages
SELECT id, role, content, timestamp, metadata FROM messages ORDER BY id;

-- name: summaries
SELECT end_message_id, summary_content, created_at FROM summaries ORDER BY end_message_id, id;

-- name: tool_calls
SELECT message_id, tool_name, arguments, result, duration_ms, status, error_message, timestamp
FROM tool_calls ORDER BY message_id, id;
