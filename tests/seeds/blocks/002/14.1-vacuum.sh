sqlite3 contexts/tasks.db "VACUUM;"
