"""Secrets, found and masked before they are written."""
