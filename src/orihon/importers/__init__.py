"""Transcripts that other agents have written, read and kept as tasks."""
