# 30日以上前の完了タスクを削除
find contexts/completed -type d -name "*-*-*-*-*" -mtime +30 -exec rm -rf {} +
