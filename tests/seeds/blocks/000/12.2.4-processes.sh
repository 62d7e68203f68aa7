# プロセスごとのメモリ使用量確認
ps aux | grep "python.*main.py" | awk '{print $2, $4, $11}'
