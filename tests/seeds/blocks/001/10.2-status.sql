SELECT status, COUNT(*) FROM tasks GROUP BY status;
