SELECT uuid, status FROM tasks ORDER BY uuid;
