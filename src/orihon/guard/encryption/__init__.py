"""Encryption at rest: master keys, data keys, sealed bytes."""
