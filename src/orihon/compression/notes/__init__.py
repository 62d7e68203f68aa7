"""The summarizer that needs no model: what a history says is read once, weighed, chosen and written as notes."""
