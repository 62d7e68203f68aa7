# 最も大きなコンテキストを特定
find logs/contexts -type f -name "context.db*" -exec du -h {} + | sort -rh | head -20

# 総ディスク使用量
du -sh logs/contexts
