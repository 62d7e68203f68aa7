# ログを確認
grep "コンテキスト要約に失敗" logs/agent.log

# 統計確認
python -m tools.context_stats --task-id issue_123
