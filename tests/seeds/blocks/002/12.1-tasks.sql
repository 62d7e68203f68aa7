CREATE TABLE tasks (
    uuid TEXT PRIMARY KEY,
    status TEXT NOT NULL,
    task_type TEXT NOT NULL,
    task_identifier TEXT,
    repository TEXT,
    user TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT,
    completed_at TEXT,
    metadata TEXT,
    total_messages INTEGER DEFAULT 0,
    total_summaries INTEGER DEFAULT 0,
    total_tool_calls INTEGER DEFAULT 0,
    final_token_count INTEGER,
    final_message_count INTEGER,
    error_message TEXT
);

CREATE INDEX idx_tasks_status ON tasks(status);
CREATE INDEX idx_tasks_task_type ON tasks(task_type);
CREATE INDEX idx_tasks_repository ON tasks(repository);
CREATE INDEX idx_tasks_user ON tasks(user);
CREATE INDEX idx_tasks_completed_at ON tasks(completed_at);
