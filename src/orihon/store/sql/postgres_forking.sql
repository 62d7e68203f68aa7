-- The first records of one task become another one's, without leaving the server.

-- name: find
SELECT number FROM task_logs WHERE uuid = %(uuid)s

-- name: begin
INSERT INTO task_logs (uuid, epoch, version, messages, summaries, tools, planning, compressions, checkpoints)
VALUES (%(uuid)s, %(epoch)s, 1, %(messages)s, %(summaries)s, %(tools)s, %(planning)s, %(compressions)s, %(checkpoints)s)
RETURNING number

-- name: messages
INSERT INTO message_records (task, id, record)
SELECT %(new)s, id, record FROM message_records WHERE task = %(old)s AND id <= %(messages)s

-- name: summaries
INSERT INTO summary_records (task, id, record)
SELECT %(new)s, id, record FROM summary_records WHERE task = %(old)s AND id <= %(summaries)s

-- name: tools
INSERT INTO tool_records (task, id, record)
SELECT %(new)s, id, record FROM tool_records WHERE task = %(old)s AND id <= %(tools)s

-- name: planning
INSERT INTO plan_records (task, id, record)
SELECT %(new)s, id, record FROM plan_records WHERE task = %(old)s AND id <= %(planning)s

-- name: compressions
INSERT INTO compression_records (task, id, record)
SELECT %(new)s, id, record FROM compression_records WHERE task = %(old)s AND id <= %(compressions)s

-- name: checkpoints
INSERT INTO checkpoint_records (task, id, record)
SELECT %(new)s, id, record FROM checkpoint_records WHERE task = %(old)s AND id <= %(checkpoints)s

-- name: blobs
INSERT INTO blobs (task, digest, content)
SELECT %(new)s, digest, content FROM blobs WHERE task = %(old)s AND digest = ANY(%(blobs)s)

-- name: files
INSERT INTO documents (task, name, body)
SELECT %(new)s, name, body FROM documents WHERE task = %(old)s AND name = ANY(%(files)s)

-- name: written
INSERT INTO documents (task, name, body) VALUES (%(new)s, %(name)s, %(body)b)
