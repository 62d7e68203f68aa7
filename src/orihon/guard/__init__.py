"""What stands in front of every store. Secrets are masked before they are written."""

from __future__ import annotations

from orihon.guard.mask_key import KEY_COPY, KEY_FILE, load_key
from orihon.guard.masking.redaction import Redactor

__all__ = ["KEY_COPY", "KEY_FILE", "Redactor", "load_key"]
