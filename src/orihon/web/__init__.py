"""The web page and its JSON API: ``orihon serve``. What they show comes from the functions that the commands use."""

from __future__ import annotations
