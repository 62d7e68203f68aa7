# コマンドラインツール
python -m tools.context_viewer \
  --task-source github \
  --owner myorg \
  --repo myrepo \
  --task-id issue_123 \
  --show-messages \
  --show-summaries \
  --show-tools \
  --export-html

# 出力例
Task: github/myorg/myrepo/issue_123
Created: 2024-01-15 10:30:00
Status: completed

Statistics:
  Total messages: 145 (20 in memory, 125 in DB)
  Summaries: 3
  Tools called: 25 (24 success, 1 error)
  DB size: 4.2MB
  Context usage: 45% (58K/128K tokens)

Messages:
  [1] system: You are an AI coding assistant...
  [2] user: Fix the bug in...
  [3] assistant: I'll help you fix...
  ...
  [Summary 1] (messages 10-50): Fixed authentication bug...
  [Summary 2] (messages 51-90): Implemented new feature...
  ...
  [143] assistant: Changes committed successfully
  [144] tool: github_create_pull_request -> PR #456 created
  [145] assistant: {"done": true, "comment": "Task completed"}

Tool Calls:
  #1  github_get_file_contents (2.3s) ✓
  #2  github_create_branch (1.1s) ✓
  #3  github_create_or_update_file (3.2s) ✓
  ...
