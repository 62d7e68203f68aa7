"""The conversations of a base, as far as they are open here: found by what a request says, opened, put to rest.

A request goes on with a conversation whose every step it repeats, or, under the client's own id, with the one that
begins with the same step. A client without an id that writes its history anew is known by the last answer that it got,
if nobody else has got the like. In doubt it is a new one: two conversations are never mixed. One that is at work on a
request is not given another.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orihon.base import Base
from orihon.errors import OrihonError, StateError, TaskBusy
from orihon.guard import load_key
from orihon.proxy.conversation import Conversation
from orihon.proxy.identity import ClientIdentity, KeyedDigests, marks_given, marks_repeated
from orihon.proxy.index import ConversationIndex, KnownConversation
from orihon.proxy.scribe import steps_of
from orihon.proxy.wire import Answer, ParsedRequest, Wire, first_words
from orihon.proxy.wires import BY_NAME
from orihon.tasks.reader import reading_task
from orihon.values.task import FINISHED, TaskKey, TaskStatus

logger = logging.getLogger("orihon.proxy")

SOURCE = "proxy"
#: The metadata of a task that came in through the proxy.
PROXY = "proxy"
_STRIPES = 64
_LONGEST_TITLE = 120
_SECONDS_TO_END = 1.0
#: Conversations that one process has open at most, and then some.
_MOST_LEFT = 2000
_NAP = 0.02
#: Clients whose requests without tools are never the conversation itself.
_AGENTS = ("claude-code", "codex", "opencode")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as the proxy understands it."""

    wire: Wire
    upstream: str
    body: Mapping[str, Any]
    asked: ParsedRequest
    caller: ClientIdentity

    @property
    def model(self) -> str:
        return str(self.body.get("model") or "unknown")


@dataclass(frozen=True, slots=True)
class Pointed:
    """The conversation that a request only points at, and how many of its steps come before what it says."""

    uuid: str
    steps: int


@dataclass(slots=True)
class Taken:
    """A conversation that has taken a request in."""

    conversation: Conversation
    after: int  # steps that were there before what the request says itself
    kind: str
    request: Request

    @property
    def session(self) -> bytes | None:
        return self.request.caller.session

    @property
    def steps(self) -> int:
        return len(self.conversation.steps)


class Conversations:
    """All of them, by UUID those that are open."""

    def __init__(self, base: Base, *, most_open: int) -> None:
        self.base = base
        base.path.mkdir(parents=True, exist_ok=True)
        self.digests = KeyedDigests(load_key(base.path))
        self.index = ConversationIndex(base.path)
        self._most_open = most_open
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._lock = threading.Lock()
        self._freed = threading.Condition(self._lock)
        self._stripes = [threading.RLock() for _ in range(_STRIPES)]
        self._rebuild()

    # ---- finding ---------------------------------------------------------------------------------------------------

    def take(self, request: Request, window: int) -> Taken:
        """The conversation of a request, with all that is new in it written down. It is busy until ``release``.

        ``window``: of the model that is asked.
        """
        asked, wire = request.asked, request.wire
        digests = [self.digests.element(wire, element) for element in asked.elements]
        seed = self._seed(request)
        chains = self.digests.chains(seed, digests)
        pointed = self._pointed(request)
        with self._stripes[(chains[0] if chains else seed)[0] % _STRIPES]:
            conversation = None
            if pointed is not None:
                conversation = self._free(pointed.uuid)
            elif (uuid := self._match(request, chains)) is not None:
                conversation = self._still(self._free(uuid), request, digests, chains)
            kind = self._kind(request, seed) if conversation is None else self._known_kind(conversation)
            after = 0 if pointed is None or conversation is None else pointed.steps
            if conversation is None:
                conversation = self._new(request, seed, kind, window)
        try:
            with conversation.lock:
                conversation.take(asked, digests, after=after)
                taken = Taken(conversation, after, kind, request)
                self.keep(taken)
        except BaseException:
            self.release(conversation)
            raise
        return taken

    def look(self, request: Request) -> Conversation | None:
        """The conversation that a request would go on with; nothing is written. For who only wants to count."""
        digests = [self.digests.element(request.wire, element) for element in request.asked.elements]
        uuid = self._match(request, self.digests.chains(self._seed(request), digests))
        conversation = None if uuid is None else self._opened(uuid)
        return conversation if conversation is not None and conversation.common(digests) > 0 else None

    def keep(self, taken: Taken) -> None:
        """Tell the index how a conversation stands."""
        self._indexed(taken.conversation, lambda: self.index.keep(taken.conversation.known(taken.kind, taken.session)))

    def keep_answer(self, taken: Taken, answer: Answer, seq: int) -> None:
        """The same with an answer at the end, which its client is about to get."""
        conversation, has_id = taken.conversation, taken.session is not None
        request = taken.request
        response = self.digests.response(request.caller, request.upstream, answer.id) if answer.id else None

        def kept() -> None:
            unheard = 0 if has_id else len(answer.elements)
            self.index.keep(conversation.known(taken.kind, taken.session, unheard=unheard), response)
            if not has_id:
                said = [one for element in answer.elements for one in conversation.wire.messages(element)]
                self.index.keep_answer(conversation.uuid, seq, self._marks(conversation.seed, marks_given(said)))

        self._indexed(conversation, kept)

    def tell(self, taken: Taken, seq: int, *, is_told: bool) -> None:
        """Whether the client has got the whole of the answer with that number in the log."""
        conversation = taken.conversation
        if taken.session is not None or seq not in conversation.steps[-1].seqs:
            return  # under the client's own id it does not matter, and one that goes on has got it
        conversation.is_told = is_told
        if is_told:
            self._indexed(conversation, lambda: self.index.tell(conversation.uuid))

    def _indexed(self, conversation: Conversation, act: Callable[[], object]) -> None:
        try:
            act()
        except OrihonError as error:  # derived: the next request finds it by its own id, or begins a new one
            logger.warning("%s: %s", conversation.uuid, error)

    def _marks(self, seed: bytes, said: Iterable[str]) -> list[bytes]:
        return [self.digests.of(b"answer", seed, one.encode("utf-8", "surrogatepass")) for one in said]

    def _seed(self, request: Request) -> bytes:
        has_tools = bool(request.wire.tools(request.body))
        return self.digests.seed(request.caller, request.wire, request.upstream, request.asked, has_tools=has_tools)

    def _match(self, request: Request, chains: Sequence[bytes]) -> str | None:
        found = self.index.by_tip(chains)
        if len(found) == 1:
            return found[0].uuid
        if not chains or found:
            return None  # nothing, or more than one: a new conversation
        if request.caller.session is None:
            again = self.index.by_asked(chains[-1])
            return again[0].uuid if len(again) == 1 else self._by_answer(request)
        return next((known.uuid for known in self.index.by_first(chains[0])), None)

    def _by_answer(self, request: Request) -> str | None:
        seed, wire = self._seed(request), request.wire
        said = [self._marks(seed, marks_repeated(wire.messages(element))) for element in request.asked.elements]
        return self.index.by_answer([marks for marks in said if marks])

    def _pointed(self, request: Request) -> Pointed | None:
        told = request.body.get("previous_response_id")
        if not isinstance(told, str) or request.wire.name != "responses":
            return None
        found = self.index.by_response(self.digests.response(request.caller, request.upstream, told))
        return None if found is None else Pointed(*found)

    def _kind(self, request: Request, seed: bytes) -> str:
        """What a new conversation is to the others under the same id."""
        others = [] if request.caller.session is None else self.index.of_session(request.caller.session)
        has_tools = bool(request.wire.tools(request.body))
        if not has_tools and (request.caller.client in _AGENTS or any(known.kind == "main" for known in others)):
            return "side"
        if any(known.seed == seed for known in others):
            return "branch"
        return "subagent" if any(known.kind == "main" for known in others) else "main"

    def _known_kind(self, conversation: Conversation) -> str:
        known = self.index.find(conversation.uuid)
        return "main" if known is None else known.kind

    # ---- opening ---------------------------------------------------------------------------------------------------

    def _free(self, uuid: str) -> Conversation | None:
        """The conversation, ours from now on; ``None`` while it is at work, or where there is none any more."""
        deadline = time.monotonic() + _SECONDS_TO_END
        while True:
            conversation = self._opened(uuid)
            if conversation is None:
                return None
            with self._freed:
                if not conversation.is_busy and conversation.task.is_open:  # or it was put to rest just now
                    conversation.is_busy = True
                    return conversation
                if time.monotonic() > deadline:
                    return None
                self._freed.wait(_NAP)

    def _still(
        self, conversation: Conversation | None, request: Request, digests: Sequence[bytes], chains: Sequence[bytes]
    ) -> Conversation | None:
        """What was found, unless it has gone on while we waited for it: then somebody else began with the same words.

        Under the client's own id nobody else can have, and the client went back.
        """
        if conversation is None or request.caller.session is not None:
            return conversation
        if conversation.common(digests) == len(conversation.steps) or conversation.is_asked_again(digests):
            return conversation
        if not self.index.by_tip(chains) and self._by_answer(request) == conversation.uuid:
            return conversation
        self.release(conversation)
        return None

    def _opened(self, uuid: str) -> Conversation | None:
        with self._lock:
            found = self._open.get(uuid)
            if found is not None and found.task.is_open:
                self._open.move_to_end(uuid)
                found.used_at = time.monotonic()
                return found
        row = self.base.needed_catalogue().tasks.find(uuid)
        known = self.index.find(uuid)
        if row is None or known is None or row.status in FINISHED or row.status is TaskStatus.ARCHIVED:
            self.index.forget(uuid)
            return None
        wire = BY_NAME.get(str(row.metadata.get(PROXY, {}).get("wire")))
        if wire is None:
            return None
        try:
            task = self.base.task(uuid, take_over=True, inherit=False)
        except TaskBusy:
            return None
        conversation = Conversation(task, wire, self.digests, known.seed)
        conversation.is_told = known.asked is None and known.steps == len(conversation.steps)
        return self._hold(conversation)

    def held(self, uuid: str) -> Conversation | None:
        """The conversation, if this process has it open."""
        with self._lock:
            found = self._open.get(uuid)
        return found if found is not None and found.task.is_open else None

    def _new(self, request: Request, seed: bytes, kind: str, window: int) -> Conversation:
        caller, wire = request.caller, request.wire
        key = TaskKey(SOURCE, caller.client, wire.name, "conversation", secrets.token_hex(6))
        title = " ".join(first_words(request.asked).split())[:_LONGEST_TITLE]
        others = [] if caller.session is None else self.index.of_session(caller.session)
        about = {
            "wire": wire.name,
            "client": caller.client,
            "upstream": request.upstream,
            "kind": kind,
            "seed": seed.hex(),
            "session": None if caller.session is None else caller.session.hex(),
            "of": next((known.uuid for known in reversed(others) if known.kind == "main"), None),
        }
        begins = {"metadata": {PROXY: about}, "model": request.model, "context_length": window}
        task = self.base.task(key, title=title, inherit=False, begins=begins)
        conversation = Conversation(task, wire, self.digests, seed)
        conversation.is_busy = True
        return self._hold(conversation)

    def _hold(self, conversation: Conversation) -> Conversation:
        with self._lock:
            known = self._open.get(conversation.uuid)
            if known is not None and known.task.is_open:
                return known  # another thread was quicker, with the same task
            self._open[conversation.uuid] = conversation
        return conversation

    # ---- at rest ---------------------------------------------------------------------------------------------------

    def release(self, conversation: Conversation) -> None:
        """The request is over."""
        conversation.used_at = time.monotonic()
        with self._freed:
            conversation.is_busy = False
            self._freed.notify_all()

    def rest(self, *, idle: float) -> None:
        """Pause what nobody has used for so many seconds, and the oldest of what is too many."""
        now = time.monotonic()
        with self._lock:
            free = [one for one in self._open.values() if not one.is_busy]
            excess = max(len(self._open) - self._most_open, 0)
            tired = [one for place, one in enumerate(free) if place < excess or now - one.used_at > idle]
        for one in tired:
            with self._lock:  # each in its turn: the others can be had until then
                if one.is_busy or one.used_at > now:
                    continue
                one.is_busy = True
            self._pause(one)

    def _pause(self, conversation: Conversation) -> None:
        try:
            with conversation.lock:
                conversation.task.stop()
        except (StateError, OrihonError) as error:
            logger.warning("%s: %s", conversation.uuid, error)
        with self._lock:
            if self._open.get(conversation.uuid) is conversation:  # it may have been opened again by now
                del self._open[conversation.uuid]
            conversation.is_busy = False

    @property
    def count_open(self) -> int:
        return len(self._open)

    def close(self) -> None:
        """Put all of them to rest."""
        with self._lock:
            left = list(self._open.values())
        for conversation in left:
            self._pause(conversation)
        self.index.close()

    def _rebuild(self) -> None:
        """What the index lacks, from the tasks that came in this way: all of them, or those that a kill left behind."""
        catalogue = self.base.open_catalogue()
        if catalogue is None:
            return
        running = (
            ()
            if self.index.is_new
            else catalogue.tasks.page(status=TaskStatus.RUNNING, source=SOURCE, limit=_MOST_LEFT)
        )
        for row in self.base.rows() if self.index.is_new else running:
            about = row.metadata.get(PROXY)
            if row.key.task_source != SOURCE or not isinstance(about, Mapping) or row.status in FINISHED:
                continue
            if self.index.find(row.uuid) is not None:
                continue
            try:
                self._index_again(row.uuid, about)
            except (OrihonError, KeyError, ValueError) as error:
                logger.warning("%s: %s", row.uuid, error)

    def _index_again(self, uuid: str, about: Mapping[str, Any]) -> None:
        steps: list[tuple[bytes, bool]] = []  # and whether it is the model's
        seed = bytes.fromhex(about["seed"])
        session = bytes.fromhex(about["session"]) if about.get("session") else None
        with reading_task(self.base, uuid) as (store, _):
            for stored in store.messages():
                for place, digest in steps_of(stored.message):
                    del steps[place:]
                    steps.append((digest, stored.message.role == "assistant"))
                if stored.call is not None and session is None:
                    self.index.keep_answer(uuid, stored.seq, self._marks(seed, marks_given([stored.message])))
        chains = self.digests.chains(seed, (digest for digest, _ in steps)) or [seed]
        asked = None
        if session is None and not self.index.is_new and steps and steps[-1][1]:  # a kill came before it was indexed
            asked = next(
                (chain for chain, (_, is_answer) in zip(chains[::-1], steps[::-1], strict=False) if not is_answer), None
            )
        kind = str(about["kind"])
        self.index.keep(KnownConversation(uuid, seed, chains[0], chains[-1], session, len(steps), kind, asked))
