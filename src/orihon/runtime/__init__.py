"""The agent at work: its queue, its workers, its tools and the places that tasks come from."""
