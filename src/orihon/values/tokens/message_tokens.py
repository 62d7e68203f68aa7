"""What a message costs: tokens of text, calls and images together."""

from __future__ import annotations

import base64
import binascii

from orihon.values.message.message import Message, Part
from orihon.values.tokens.images import image_size, image_tokens
from orihon.values.tokens.tokens import MESSAGE_OVERHEAD, estimate, estimate_all, tokenizer

#: Enough of a picture to read its size from.
_HEADER_CHARACTERS = 1 << 16


def estimate_message(message: Message, provider: str = "openai", *, encoded_size: int | None = None) -> int:
    """The estimate that the log carries; costs next to nothing. ``encoded_size``: of the message as JSON, if known."""
    if message.content is not None and not message.tool_calls and not message.extra:
        return estimate(message.content, encoded_size)
    return estimate_all(message.countable()) + _images(message, provider)


def count_message(message: Message, tokenizer_name: str, provider: str = "openai") -> int:
    """The exact count as part of a request."""
    count = tokenizer(tokenizer_name)
    return sum(map(count, message.countable())) + _images(message, provider) + MESSAGE_OVERHEAD


def _images(message: Message, provider: str) -> int:
    return sum(_image(part, provider) for part in message.images())


def _image(part: Part, provider: str) -> int:
    source = part.data.get("image_url") or part.data.get("source") or {}
    if isinstance(source, str):
        source = {"url": source}
    encoded = str(source.get("data") or source.get("url") or "")
    size = None
    if not encoded.startswith("http"):
        start = encoded.find(",") + 1 if encoded.startswith("data:") else 0
        try:
            size = image_size(base64.b64decode(encoded[start : start + _HEADER_CHARACTERS]))
        except (binascii.Error, ValueError):
            size = None
    width, height = size or (None, None)
    return image_tokens(width, height, provider=provider, detail=str(source.get("detail", "auto")))
