"""The wires that the proxy speaks, by their paths."""

from __future__ import annotations

from orihon.proxy.wire import Wire
from orihon.proxy.wire_chat import ChatWire
from orihon.proxy.wire_messages import MessagesWire
from orihon.proxy.wire_responses import ResponsesWire

WIRES: tuple[Wire, ...] = (ChatWire(), ResponsesWire(), MessagesWire())
BY_NAME = {wire.name: wire for wire in WIRES}
