"""Foreign services in our words: SQLite, PostgreSQL, object storage, brokers, collectors of traces."""
