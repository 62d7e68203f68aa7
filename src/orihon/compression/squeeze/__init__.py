"""Transcripts made to fit: messages in, messages out, no store."""
