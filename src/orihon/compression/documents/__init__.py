"""Documents, which belong to no task, compressed by level."""
