"""Server-sent events read along while they pass: nothing is held back but what says that the answer is over."""

from __future__ import annotations

from orihon.proxy.wire import AnswerReader
from orihon.system import jsonio

_MOST_WAITING = 64 << 20


class EventReader:
    """Lines of a stream, in whatever pieces they come."""

    def __init__(self, reader: AnswerReader) -> None:
        self._reader = reader
        self._waiting = b""
        self._data: list[bytes] = []
        self.is_over = False

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        self._waiting += piece
        if b"\n" not in piece and b"\r" not in piece:
            if len(self._waiting) > _MOST_WAITING:
                self._waiting = b""
            return
        lines = self._waiting.replace(b"\r\n", b"\n").split(b"\n")
        self._waiting = lines.pop()
        for line in lines:
            self._line(line)

    def _line(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            self._event(b"\n".join(self._data))
            self._data = []

    def end(self) -> None:
        """The stream has ended; some end without the blank line."""
        if self._waiting:
            self._line(self._waiting)
            self._waiting = b""
        self._line(b"")

    def _event(self, data: bytes) -> None:
        if self._reader.is_last(data):
            self.is_over = True
        if data.strip() == b"[DONE]":
            return
        try:
            value = jsonio.decode(data)
        except ValueError:
            return
        if isinstance(value, dict):
            self._reader.event(value)
