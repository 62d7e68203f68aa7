"""The description of the JSON API for people: each endpoint with its fields and how it is called from a shell."""

from __future__ import annotations

from typing import Any

from orihon.web.call import Call, Endpoint, Page, PageRoute
from orihon.web.fields import Field
from orihon.web.openapi import about, examples, group_of, places, summary_of


def api_page(_: Call) -> Page:
    """All endpoints by what they are about."""
    from orihon.web.routes import ENDPOINTS  # the table of pages, in which this one stands, is beside it

    called = examples(ENDPOINTS)
    groups: dict[str, list[dict[str, Any]]] = {}
    for endpoint in sorted(ENDPOINTS, key=lambda one: one.path):
        shown = _shown(endpoint) | {"example": called[endpoint.name]}
        groups.setdefault(group_of(endpoint), []).append(shown)
    return Page("api.html", {"groups": groups, "count": len(ENDPOINTS)})


def _shown(endpoint: Endpoint) -> dict[str, Any]:
    fields = (("path", places(endpoint)), ("query", endpoint.query), ("body", endpoint.body))
    return {
        "name": endpoint.name,
        "method": endpoint.method,
        "path": endpoint.path,
        "summary": summary_of(endpoint),
        "role": endpoint.role,
        "fields": [_field(one, where) for where, some in fields for one in some],
    }


def _field(field: Field, where: str) -> dict[str, Any]:
    return {
        "name": field.name,
        "where": where,
        "kind": field.kind,
        "choices": field.choices,
        "required": field.required or where == "path",
        "default": field.default,
        "about": about(field),
    }


PAGES = (PageRoute("/api", api_page, "settings"),)
