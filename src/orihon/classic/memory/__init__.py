"""For agents that hold their history as a mere list and want no store."""
