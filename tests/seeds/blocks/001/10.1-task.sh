sqlite3 contexts/tasks.db "SELECT * FROM tasks WHERE uuid='...'"
