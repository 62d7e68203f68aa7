# 30日以上古いコンテキストを削除
python -m tools.cleanup_contexts --days 30

# 7日以上古いコンテキストを圧縮（アーカイブ）
python -m tools.archive_contexts --days 7

# ディスク使用量の確認
python -m tools.context_stats --summary

# 出力例:
# Context Storage Summary:
# Total contexts: 1,234
# Total size: 12.5 GB
# Active (< 7 days): 156 (2.1 GB)
# Archived (7-30 days): 890 (8.4 GB, compressed)
# Old (> 30 days): 188 (2.0 GB, candidates for deletion)
