SELECT user, status, COUNT(*) as count
FROM tasks
GROUP BY user, status;
