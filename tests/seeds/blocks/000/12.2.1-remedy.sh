# 緊急: 古いコンテキストを即座に削除
python -m tools.cleanup_contexts --days 14 --force

# または手動削除
rm -rf logs/contexts/github/owner/repo/old_issue_*
