"""One module per page: what it shows, and its addresses."""

from __future__ import annotations
