DELETE FROM tasks
WHERE status = 'completed'
  AND completed_at < datetime('now', '-{cleanup_days} days');
