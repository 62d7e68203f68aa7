"""What is done with a request between the client and the upstream: taken in, made to fit, and its answer kept.

Nothing in here speaks HTTP. Each function is called in a thread; folds that can wait are made in one of their own.
When something of ours fails, the request still goes on where it can, and says so: never in silence.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from orihon.base import Base
from orihon.errors import BudgetExceeded, InvalidInput, OrihonError
from orihon.proxy.conversation import Conversation, Outgoing
from orihon.proxy.conversations import Conversations, Request, Taken
from orihon.proxy.windows import Windows
from orihon.proxy.wire import Answer, Wire
from orihon.settings import Settings
from orihon.system import jsonio
from orihon.system.counters import PROXY_REQUESTS
from orihon.system.json_shapes import to_json
from orihon.tasks.hand_edits import ACTS, REMEMBER, keep_note, make_change
from orihon.tasks.proxy_trouble import forget_trouble, keep_trouble
from orihon.texts import text
from orihon.values.task import shortened
from orihon.values.tokens.tokens import Correction, estimate

logger = logging.getLogger("orihon.proxy")

ViewKind = Literal["whole", "folded", "degraded"]
_SECONDS_BETWEEN_RESTS = 5.0
#: After a refusal without figures a request is taken to be so much larger than we thought.
_LARGER = 1.25


@dataclass(slots=True)
class Exchange:
    """One request on its way, and what is known about it."""

    request: Request
    body: bytes  # as it goes to the upstream
    is_changed: bool
    view: ViewKind = "whole"
    taken: Taken | None = None
    sent: int = 0  # tokens of it, by our count
    larger: float = 1.0  # so many times is the client's own request
    steps: int = 0  # of the conversation, with it
    is_over: bool = False
    kept: int | None = None  # the number of its answer in the log, if that is a step of the conversation

    @property
    def uuid(self) -> str | None:
        return None if self.taken is None else self.taken.conversation.uuid


class ProxyService:
    """The conversations of one base behind the proxy."""

    def __init__(self, base: Base, *, strict: bool = False) -> None:
        settings = base.settings
        self.base = base
        self.settings = settings
        self.strict = strict or settings.proxy.strict
        self.conversations = Conversations(base, most_open=settings.proxy.max_open)
        self.windows = Windows(settings.context_length, settings.proxy.window)
        self.counts: Counter[str] = Counter()
        self.last_trouble = ""
        self._folding = ThreadPoolExecutor(1, thread_name_prefix="orihon-fold")
        self._folds_planned: set[str] = set()
        self._ended = threading.Event()
        self._rester = threading.Thread(target=self._rest, name="orihon-proxy-rest", daemon=True)
        self._rester.start()
        with suppress(OrihonError, OSError):
            forget_trouble(base.path)  # whatever it was, a new process has not seen it yet

    def close(self) -> None:
        """Pause every conversation."""
        self._ended.set()
        self._rester.join()
        self._folding.shutdown(wait=True, cancel_futures=True)
        self.conversations.close()

    def _rest(self) -> None:
        while not self._ended.wait(_SECONDS_BETWEEN_RESTS):
            try:
                self.conversations.rest(idle=self.settings.proxy.idle_seconds)
            except OrihonError as error:
                logger.warning("%s", error)

    # ---- in --------------------------------------------------------------------------------------------------------

    def request(
        self, wire: Wire, upstream: str, raw: bytes, headers: Mapping[str, str], session: str | None
    ) -> Request | None:
        """A request that we understand; ``None`` for one that has to pass as it is."""
        try:
            body = jsonio.decode(raw)
        except ValueError:
            return None
        if not isinstance(body, dict):
            return None
        asked = wire.asked(body)
        if asked is None:
            return None
        names = self.settings.proxy.session_headers
        caller = self.conversations.digests.caller(headers, body, session, names=names)
        return Request(wire, upstream, body, asked, caller)

    def take(
        self, wire: Wire, upstream: str, raw: bytes, headers: Mapping[str, str], session: str | None
    ) -> Exchange | None:
        """Both at once: on a busy machine each way to another thread and back costs as much as the work.

        ``None``: nobody can tell what is said; it passes as it is, and that is said aloud.
        """
        request = self.request(wire, upstream, raw, headers, session)
        if request is not None:
            return self.begin(request, raw, headers)
        error = InvalidInput("proxy_unreadable", path=wire.path, field=wire.array)
        self._say(str(error), "-")
        if self.strict:
            raise error
        self.counts["degraded"] += 1
        return None

    def begin(self, request: Request, raw: bytes, headers: Mapping[str, str]) -> Exchange:
        """Take a request in, durably, and make what goes to the model of it. Raises only where ``strict``."""
        exchange = Exchange(request, raw, is_changed=False)
        try:
            window = self.windows.of(request.model, headers.get("anthropic-beta", ""))
            exchange.taken = self.conversations.take(request, window)
            self._make(exchange, window)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client's work goes on
            self._degrade(exchange, error)
        self.counts[exchange.view] += 1
        if exchange.taken is not None:
            exchange.taken.conversation.task.context.counts.add(PROXY_REQUESTS, view=exchange.view)
        return exchange

    def _make(self, exchange: Exchange, window: int) -> None:
        taken, request = exchange.taken, exchange.request
        assert taken is not None
        conversation = taken.conversation
        with conversation.lock:
            tools = jsonio.encode(request.wire.tools(request.body))
            written = estimate(tools.decode("utf-8", "replace"))
            beside = written + self._room(request, window)
            conversation.use(request.model, window, beside, has_recall=_recalls(tools))
            fits = conversation.fit()
            exchange.steps = len(conversation.steps)
            exchange.sent = conversation.tokens
            made = self._outgoing(conversation, request, taken.after)
            exchange.larger = conversation.times_larger(written)
        if made is not None and made.is_changed:
            exchange.body, exchange.is_changed = _encoded(request, made), True
        is_folded = made is not None and made.is_folded
        exchange.view = "degraded" if not fits else "folded" if is_folded else "whole"
        if not fits:
            self._say("does not fit", conversation.uuid)

    def _outgoing(self, conversation: Conversation, request: Request, after: int) -> Outgoing | None:
        if after:
            return conversation.pointed_at(request.asked, after)
        return conversation.outgoing(request.asked)

    def _room(self, request: Request, window: int) -> int:
        """Tokens that a request keeps free for the answer, more than usual."""
        reserved = self.settings.llm.active.output_reserve(window)
        return max(min(request.wire.most_output(request.body), window // 4) - reserved, 0)

    def _degrade(self, exchange: Exchange, error: Exception) -> None:
        """The last good view and what is new behind it; without one the request itself, if it can fit."""
        request, taken = exchange.request, exchange.taken
        self._say(f"{type(error).__name__}: {error}", exchange.uuid or "-", error)
        if self.strict:
            self.release(exchange)
            raise error
        exchange.view = "degraded"
        try:
            conversation = taken.conversation if taken is not None else self.conversations.look(request)
            if conversation is not None:
                made = conversation.outgoing(request.asked)
                exchange.body, exchange.is_changed = _encoded(request, made), made.is_changed
                return
        except Exception as again:  # noqa: BLE001 - nothing more can be had from the store
            logger.warning("%s", again)
        window = self.windows.of(request.model)
        tokens = estimate(exchange.body.decode("utf-8", "replace"))
        if tokens > window:
            raise BudgetExceeded("view", tokens=tokens, budget=window) from error

    def _say(self, trouble: str, uuid: str, error: Exception | None = None) -> None:
        self.last_trouble = self.base.redactor.mask(trouble)
        self.counts["trouble"] += 1
        with suppress(OrihonError, OSError):  # where nothing can be written, the log and the header have to do
            keep_trouble(self.base.path, self.last_trouble, self.counts["trouble"])
        level = logging.WARNING if error is None or isinstance(error, OrihonError) else logging.ERROR
        logger.log(
            level, "%s: degraded: %s", uuid, self.last_trouble, exc_info=error if level == logging.ERROR else None
        )

    def counted(self, request: Request) -> bytes | None:
        """A request for a count, or for a compaction, about what would be sent; ``None``: as it is."""
        conversation = self.conversations.look(request)
        if conversation is None:
            return None
        with conversation.lock:
            made = conversation.outgoing(request.asked)
        return _encoded(request, made) if made.is_changed else None

    def change(self, uuid: str, act: str, values: Sequence[Any], made_by: str) -> dict[str, Any] | None:
        """What somebody outside wants done to a view that is open here; ``None`` where it is not."""
        conversation = self.conversations.held(uuid)
        if conversation is None:
            return None
        with conversation.lock:
            messages = conversation.task.context.message_store
            if act == REMEMBER:
                number = keep_note(messages, str(values[0]), made_by=made_by)
                conversation.say_notes()
                return {"note": number}
            if act not in ACTS:
                raise InvalidInput("owner_act", act=shortened(act))
            return dict(to_json(make_change(messages, act, *values, made_by=made_by)))

    # ---- back ------------------------------------------------------------------------------------------------------

    def overflowed(self, exchange: Exchange, status: int, said: str) -> bool:
        """The provider counts more than we do: learn from it and fold; is there something else to send now?"""
        taken = exchange.taken
        if taken is None or exchange.view == "degraded":
            return False
        conversation, before = taken.conversation, exchange.body
        window = self.windows.learn(exchange.request.model, said)
        try:
            context = conversation.task.context
            with conversation.lock:
                context.correct(Correction(context.correction.factor * _LARGER))
                self._make(exchange, window or self.windows.of(exchange.request.model))
                if exchange.body == before:
                    conversation.task.compress()
                    self._make(exchange, window or self.windows.of(exchange.request.model))
        except OrihonError as error:
            self._say(str(error), conversation.uuid)
            return False
        self.counts["overflow"] += 1
        return exchange.body != before

    def finish(self, exchange: Exchange, answer: Answer | None) -> None:
        """Keep the answer, then let go of the conversation: only then may the client see that it is complete."""
        taken = exchange.taken
        if exchange.is_over:
            return
        exchange.is_over = True
        if taken is None:
            return
        conversation = taken.conversation
        try:
            if answer is not None:
                with conversation.lock:
                    counts = exchange.steps, exchange.sent, exchange.larger
                    seq = conversation.answered(answer, exchange.request.model, *counts)
                    if seq is not None:
                        self.conversations.keep_answer(taken, answer, seq)
                    exchange.kept = seq
        except Exception as error:  # noqa: BLE001 - the client has its answer, and sends it again with the next request
            self._say(f"{type(error).__name__}: {error}", conversation.uuid, error)
        finally:
            self.conversations.release(conversation)
        self._fold_later(conversation)

    def end(self, exchange: Exchange, answer: Answer | None, is_whole: bool) -> None:
        """However it has ended: what there is of an answer is kept; has the client got the whole, or was it gone?"""
        self.finish(exchange, answer)
        if exchange.taken is not None and exchange.kept is not None:
            self.conversations.tell(exchange.taken, exchange.kept, is_told=is_whole)
            exchange.kept = None

    def release(self, exchange: Exchange) -> None:
        """The request has come to nothing."""
        if exchange.taken is not None and not exchange.is_over:
            exchange.is_over = True
            self.conversations.release(exchange.taken.conversation)

    def _fold_later(self, conversation: Conversation) -> None:
        uuid = conversation.uuid
        if uuid in self._folds_planned or self._ended.is_set():
            return
        if not conversation.task.is_open or not conversation.task.context.compressor.should_compress():
            return
        self._folds_planned.add(uuid)

        def fold() -> None:
            started = time.thread_time()
            try:
                if conversation.task.is_open and conversation.fold_if_needed():
                    self.counts["folds"] += 1
                    logger.info("%s: folded in %.2f s", uuid, time.thread_time() - started)
            except Exception as error:  # noqa: BLE001 - the view stays as it is
                self._say(f"{type(error).__name__}: {error}", uuid, error)
            finally:
                self._folds_planned.discard(uuid)

        try:
            self._folding.submit(fold)
        except RuntimeError:  # we are ending
            self._folds_planned.discard(uuid)

    def status(self) -> dict[str, Any]:
        """What the proxy has done since it was started."""
        return {
            "requests": {kind: self.counts[kind] for kind in ("whole", "folded", "degraded")},
            "folds": self.counts["folds"],
            "overflows": self.counts["overflow"],
            "open": self.conversations.count_open,
            "trouble": self.last_trouble,
        }


def _recalls(tools: bytes) -> bool:
    """Can the model read back what is folded? Only then a fold says how."""
    return b"orihon" in tools and b"recall" in tools


def _encoded(request: Request, made: Outgoing) -> bytes:
    body = request.wire.with_entries(request.body, made.entries)
    if request.body.get("previous_response_id") is not None:
        body.pop("previous_response_id")
    return jsonio.encode(body)


def refusal(wire: Wire, error: Exception) -> dict[str, Any]:
    """Our own error in the shape of the wire."""
    said = str(error) if isinstance(error, OrihonError) else text("proxy.failed", error=type(error).__name__)
    return wire.error(503, "orihon_error", said)


def settings_for_proxy(settings: Settings) -> Settings:
    """Folding rarely and deep, unless somebody has set otherwise: what breaks the prompt cache has to be worth it."""
    wanted: dict[str, Any] = {}
    if not settings.is_explicit("compression.threshold"):
        wanted["compression.threshold"] = settings.proxy.fold_at
    if not settings.is_explicit("compression.target"):
        wanted["compression.target"] = settings.proxy.fold_to
    return settings.replace(**wanted) if wanted else settings
