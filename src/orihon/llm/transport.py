"""Requests to a provider of models: the HTTP driver's connections, with the errors of a model's client.

Errors name the address without user names, passwords or queries, and never a header.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from orihon.drivers.http import HttpCall, HttpClient, HttpError, Response, Timeouts, shown_url
from orihon.errors import Cancelled, CutOff, LLMError, NotJSON, TimedOut, Unreachable


class CancellableCall(HttpCall):
    """One call of a model, which other threads may end. It may take several requests."""

    def check(self) -> None:
        """``Cancelled`` if somebody has ended it."""
        try:
            super().check()
        except HttpError:
            raise Cancelled("by_caller") from None


class Transport:
    """Connections to one provider, kept open between calls; for all threads of a process."""

    def __init__(self, timeouts: Timeouts | None = None, *, allow_metadata: bool = False) -> None:
        self.timeouts = timeouts or Timeouts()
        self._client = HttpClient(allow_metadata=allow_metadata)

    @contextmanager
    def post_file(
        self, url: str, headers: Mapping[str, str], body: Path | bytes, call: CancellableCall | None = None
    ) -> Iterator[Response]:
        """Send ``body`` and give the answer, whatever its status; errors while the answer is read are wrapped too."""
        sent = {"Content-Type": "application/json", **headers}
        try:
            with self._client.request(
                "POST", url, sent, body=body, timeouts=self.timeouts, call=call or CancellableCall()
            ) as response:
                yield response
        except HttpError as error:
            raise _as_ours(error, shown_url(url)) from error

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()


def _as_ours(error: HttpError, url: str) -> LLMError:
    match error.kind:
        case "cancelled":
            return Cancelled("by_caller")
        case "connect" | "read" | "total":
            return TimedOut(error.kind, url=url, seconds=error.limit)
        case "cut":
            return CutOff("connection", url=url, detail=error.detail)
        case "too_large":
            return NotJSON("too_large", limit=int(error.limit))
        case "metadata":
            return Unreachable("metadata", url=url)
        case "url" | "connection":
            return Unreachable(error.kind, url=url, detail=error.detail)
