"""The description of the API, by the API."""

from __future__ import annotations

from typing import Any

from orihon.web.call import Call, Endpoint
from orihon.web.openapi import document


def description(_: Call) -> dict[str, Any]:
    """All endpoints as an OpenAPI document."""
    from orihon.web.routes import ENDPOINTS as ALL  # the table that this one stands in, too

    return document(ALL)


ENDPOINTS = (Endpoint("GET", "/api/openapi.json", description, "describeApi"),)
