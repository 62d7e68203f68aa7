-- Whoever owned a task when the copy was made does not own the copy.
UPDATE tasks SET
    lease_owner = NULL,
    lease_host = NULL,
    lease_pid = NULL,
    lease_pid_start = NULL,
    lease_pid_space = NULL,
    lease_boot = NULL,
    lease_heartbeat = NULL,
    lease_until = NULL
WHERE lease_owner IS NOT NULL;
