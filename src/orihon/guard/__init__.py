"""What stands in front of every store. Secrets are masked before they are written."""

from __future__ import annotations

from orihon.guard.live import register_secret
from orihon.guard.redaction import Redactor, load_key

__all__ = ["Redactor", "load_key", "register_secret"]
