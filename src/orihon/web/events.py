"""Server-sent events: an answer that goes on while the page is open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import StreamingResponse

from orihon.system import jsonio
from orihon.web.broadcaster import Broadcaster, TopicState

#: Something is said at least so often, so that both sides notice when the other one is gone.
_SECONDS_BETWEEN_SIGNS = 15.0
_RETRY_MILLISECONDS = 1000


def events(
    request: Request,
    live: Broadcaster,
    topic: str,
    *,
    render: Callable[[TopicState], Awaitable[TopicState | None]] | None = None,
    numbered: str = "",
) -> StreamingResponse:
    """The changes of a topic, as long as the one who hears them is let in.

    ``render`` makes of a state what this page is sent, if anything; ``numbered`` names its number in it.
    """

    async def stream() -> AsyncIterator[bytes]:
        yield f"retry: {_RETRY_MILLISECONDS}\n\n".encode()
        with live.listening(topic) as listener:
            while not await request.is_disconnected():
                state = await listener.next(_SECONDS_BETWEEN_SIGNS)
                if listener.is_over or not await request.state.is_still_in():
                    return
                if state is None:
                    yield b": still here\n\n"
                    continue
                said = state if render is None else await render(state)
                if said is None:
                    continue
                number = f"id: {said[numbered]}\n" if numbered else ""
                yield number.encode() + b"event: change\ndata: " + jsonio.encode(said) + b"\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"x-accel-buffering": "no"})
