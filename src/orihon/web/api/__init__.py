"""The JSON API: one module per noun."""

from __future__ import annotations
