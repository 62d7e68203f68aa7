"""What stands in front of every store. Secrets are masked before they are written."""

from __future__ import annotations

from orihon.guard.masking.redaction import KEY_FILE, Redactor, load_key

__all__ = ["KEY_FILE", "Redactor", "load_key"]
