-- What a restored catalogue holds that lets somebody or something act.
SELECT
    (SELECT count(*) FROM grants WHERE revoked_at IS NULL) AS grants,
    (SELECT count(*) FROM grants WHERE revoked_at IS NULL AND role = 'admin') AS admins,
    (SELECT count(*) FROM tasks WHERE status IN ('queued', 'running')) AS tasks_to_run,
    (SELECT count(*) FROM notifications WHERE webhook = 'pending') AS notices;
