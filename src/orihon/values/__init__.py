"""Values that know nothing of disks: messages, tokens, records, tasks, views."""
