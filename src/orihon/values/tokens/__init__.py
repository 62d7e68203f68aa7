"""How many tokens, and what they cost."""
