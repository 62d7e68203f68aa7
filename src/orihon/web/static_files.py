"""The style sheets and scripts of the pages. Their addresses change with their content."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@cache
def _contents() -> dict[str, bytes]:
    folder = files(__package__).joinpath("static")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


async def answer(request: Request) -> Response:
    """One file; only what lies there has a name."""
    name = request.path_params["name"]
    content = _contents().get(name)
    if content is None:
        raise HTTPException(404)
    kind = _KINDS.get(name[name.rfind(".") :], "application/octet-stream")
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(content, media_type=kind, headers=headers)
