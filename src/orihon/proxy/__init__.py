"""One base URL: what any agent asks a model goes through here, is kept as a task, and fits the model's window."""
