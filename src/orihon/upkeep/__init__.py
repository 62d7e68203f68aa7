"""What keeps a base healthy: doctor, retention, scans, privacy, keys."""
