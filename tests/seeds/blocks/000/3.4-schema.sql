-- メタデータテーブル
CREATE TABLE metadata (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);

-- メッセージテーブル
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    role TEXT NOT NULL,              -- system/user/assistant/tool
    content TEXT NOT NULL,
    timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    token_count INTEGER,             -- 推定トークン数
    is_summarized BOOLEAN DEFAULT 0, -- 要約済みフラグ
    summary_id INTEGER,              -- 要約先のID
    metadata TEXT,                   -- JSON形式のメタデータ
    FOREIGN KEY (summary_id) REFERENCES summaries(id)
);
CREATE INDEX idx_messages_timestamp ON messages(timestamp);
CREATE INDEX idx_messages_role ON messages(role);
CREATE INDEX idx_messages_summarized ON messages(is_summarized);

-- コンテキスト要約テーブル
CREATE TABLE summaries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    start_message_id INTEGER NOT NULL,  -- 要約開始メッセージID
    end_message_id INTEGER NOT NULL,    -- 要約終了メッセージID
    summary_content TEXT NOT NULL,      -- 要約内容
    token_count INTEGER,                -- 要約のトークン数
    created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (start_message_id) REFERENCES messages(id),
    FOREIGN KEY (end_message_id) REFERENCES messages(id)
);
CREATE INDEX idx_summaries_created ON summaries(created_at);

-- ツール実行履歴テーブル
CREATE TABLE tool_calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    message_id INTEGER NOT NULL,     -- 関連するメッセージID
    tool_name TEXT NOT NULL,
    arguments TEXT NOT NULL,         -- JSON形式
    result TEXT,                     -- JSON形式
    duration_ms INTEGER,
    status TEXT,                     -- success/error
    error_message TEXT,
    timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    FOREIGN KEY (message_id) REFERENCES messages(id)
);
CREATE INDEX idx_tool_calls_timestamp ON tool_calls(timestamp);
CREATE INDEX idx_tool_calls_status ON tool_calls(status);

-- プロセスロックテーブル（マルチプロセス制御用）
CREATE TABLE process_locks (
    process_id TEXT PRIMARY KEY,     -- プロセスID
    hostname TEXT NOT NULL,          -- ホスト名
    acquired_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
    heartbeat_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);
