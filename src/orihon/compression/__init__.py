"""Keeping a view within its window: when it is folded, what is folded, and what the fold says."""
