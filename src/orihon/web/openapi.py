"""The JSON API described, from the table of endpoints: what is described is what is checked.

For programs it is an OpenAPI 3.1 document, for people a page. Words are in the reader's language; a file of them is
``docs/openapi.json``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orihon
from orihon.system.json_shapes import definitions, schema_of, shape
from orihon.texts import text
from orihon.web.call import Call, Endpoint, Page, PageRoute
from orihon.web.fields import PATH_FIELDS, Field
from orihon.web.gate import MARK_HEADER

_PLACE = re.compile(r"\{([a-z_]+)\}")
_ERROR = shape(error=shape(reason=str, cause=str, remedy=str))
#: What any endpoint may answer instead, by status; the texts are ``web.api_page.statuses.<status>``.
_REFUSALS = (400, 401, 403, 404, 409, 413, 429, 500, 502, 503)
_JSON = "application/json"


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation(endpoint)
    named = definitions(*(schema_of(endpoint.answer) for endpoint in endpoints))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Orihon",
            "version": orihon.__version__,
            "description": text("web.api_page.about"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"session": [], "mark": []}],
        "tags": [{"name": name} for name in dict.fromkeys(map(group_of, endpoints))],
        "paths": paths,
        "components": {
            "schemas": {name: _moved(schema) for name, schema in named.items()} | {"error": _ERROR},
            "responses": {str(status): _refusal(status) for status in _REFUSALS},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": text("web.api_page.bearer")},
                "session": {"type": "apiKey", "in": "cookie", "name": "orihon_session"},
                "mark": {"type": "apiKey", "in": "header", "name": MARK_HEADER},
            },
        },
    }


def operation(endpoint: Endpoint) -> dict[str, Any]:
    """One endpoint."""
    answer = _moved(schema_of(endpoint.answer))
    good = {"description": text("web.api_page.good"), "content": {_JSON: {"schema": answer}}}
    described: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": summary_of(endpoint),
        "tags": [group_of(endpoint)],
        "parameters": [*map(_in_path, places(endpoint)), *map(_in_query, endpoint.query)],
        "responses": {
            "200": good,
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in _REFUSALS},
        },
        "x-role": endpoint.role,
    }
    if endpoint.method != "GET":
        described["requestBody"] = _body(endpoint.body)
    return described


def places(endpoint: Endpoint) -> list[Field]:
    """The fields that stand in an endpoint's path."""
    return [PATH_FIELDS.get(name, Field(name)) for name in _PLACE.findall(endpoint.path)]


def summary_of(endpoint: Endpoint) -> str:
    """What it does, in a line."""
    return text(f"web.api.{endpoint.name}")


def about(field: Field) -> str:
    """What a field is for."""
    return text(f"web.fields.{field.about}") if field.about else ""


def group_of(endpoint: Endpoint) -> str:
    """What it is about: the first name of its address; what belongs to one task is apart."""
    names = endpoint.path.removeprefix("/api/").split("/")
    return "task" if names[:2] == ["tasks", "{task}"] else names[0]


def examples(endpoints: Iterable[Endpoint]) -> dict[str, str]:
    """How each is called from a shell, by its name."""
    return {endpoint.name: _example(endpoint) for endpoint in endpoints}


def _example(endpoint: Endpoint) -> str:
    path = _PLACE.sub(lambda found: {"number": "1", "task": "@last"}.get(found[1], found[1].upper()), endpoint.path)
    needed = "&".join(f"{field.name}={_sample(field)}" for field in endpoint.query if field.required)
    words = ["curl", '-H "Authorization: Bearer $TOKEN"']
    if endpoint.method != "GET":
        body = ", ".join(f'"{field.name}": {_json_sample(field)}' for field in endpoint.body if field.required)
        words += [f"-X {endpoint.method}", f'-H "Content-Type: {_JSON}"', f"-d '{{{body}}}'"]
    return " ".join([*words, f'"$ADDRESS{path}{f"?{needed}" if needed else ""}"'])


def _sample(field: Field) -> str:
    return field.choices[0] if field.choices else "1" if field.kind in ("whole", "number") else field.name


def _json_sample(field: Field) -> str:
    if field.kind in ("whole", "number"):
        return "1"
    return {"flag": "true", "texts": "[]", "map": "{}"}.get(field.kind, f'"{_sample(field)}"')


def _in_path(field: Field) -> dict[str, Any]:
    schema = {**field.schema(), **({"minLength": 1} if field.kind == "text" else {})}
    return _parameter(field, "path", schema) | {"required": True}


def _in_query(field: Field) -> dict[str, Any]:
    return _parameter(field, "query", field.schema()) | {"required": field.required}


def _parameter(field: Field, where: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    said = about(field)
    return {"name": field.name, "in": where, "schema": schema} | ({"description": said} if said else {})


def _body(fields: Sequence[Field]) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {field.name: _with_description(field) for field in fields},
        "required": [field.name for field in fields if field.required],
        "additionalProperties": False,
    }
    return {"required": any(field.required for field in fields), "content": {_JSON: {"schema": schema}}}


def _with_description(field: Field) -> dict[str, Any]:
    said = about(field)
    return field.schema() | ({"description": said} if said else {})


def _refusal(status: int) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/error"}
    return {"description": text(f"web.api_page.statuses.s{status}"), "content": {_JSON: {"schema": schema}}}


def _moved(schema: Any) -> Any:
    """The schema with its references as this document has them."""
    if isinstance(schema, Mapping):
        return {name: _moved_value(name, value) for name, value in schema.items()}
    return [_moved(one) for one in schema] if isinstance(schema, list) else schema


def _moved_value(name: str, value: Any) -> Any:
    return value.replace("#/$defs/", "#/components/schemas/") if name == "$ref" else _moved(value)


# ---- for programs ----------------------------------------------------------------------------------------------------


def description(_: Call) -> dict[str, Any]:
    """All endpoints as an OpenAPI document."""
    from orihon.web.routes import ENDPOINTS as ALL  # the table that this one stands in, too

    return document(ALL)


ENDPOINTS = (Endpoint("GET", "/api/openapi.json", description, "describeApi"),)


# ---- for people ------------------------------------------------------------------------------------------------------


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
