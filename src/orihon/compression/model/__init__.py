"""The summarizer that asks a model, and everything that keeps its answers from doing harm."""
