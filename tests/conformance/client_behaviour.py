"""What every group of behaviour tests of clients starts from: a scripted server, a client with a store of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from orihon.errors import (
    LLMError,
)
from orihon.llm.base import LLMClient
from orihon.llm.retry import RetryPolicy
from orihon.llm.scripted import ScriptedModel, ScriptedRequest, ScriptStep
from orihon.tasks.verify.verify import verify_task
from tests.helpers import refused

KEY = "sk-live-0123456789abcdefghijABCDEFGHIJ"
TOOL = {
    "type": "function",
    "function": {"name": "read_file", "description": "Read.", "parameters": {"type": "object", "properties": {}}},
}
QUICK = RetryPolicy(retries=3, first_delay=0.001)
Script = list[ScriptStep] | Callable[[ScriptedRequest], ScriptStep]


class ClientBehaviour:
    """Tests of one kind of behaviour; the client is given by the class that collects them."""

    client_type: ClassVar[type[LLMClient]]
    sends_ids: ClassVar[bool] = True
    reports_cached: ClassVar[bool] = True
    names_errors: ClassVar[bool] = True

    @pytest.fixture(params=[True, False], ids=["streamed", "whole"])
    def stream(self, request: pytest.FixtureRequest) -> bool:
        return bool(request.param)

    def config(self, model: ScriptedModel, **more: Any) -> dict[str, Any]:
        section = {"base_url": model.base_url, "api_key": KEY, "model": "tiny", "context_length": 8000, **more}
        return {"llm": {"provider": self.client_type.provider, self.client_type.provider: section}}

    @contextmanager
    def talking(self, script: Script, folder: Path, **options: Any) -> Iterator[tuple[LLMClient, ScriptedModel]]:
        """A client with a store of its own, ready to ask."""
        options.setdefault("retry", QUICK)
        with ScriptedModel(script) as model:
            client = self.client_type(self.config(model), None, [TOOL], folder / "task", **options)
            client.send_system_prompt("Be careful.")
            client.send_user_message('日本語 "quoted" \n line')
            yield client, model
            client.close()
            assert client.message_store is not None
            client.message_store.close()

    def stream_type(self) -> str:
        """The content type of a stream."""
        return "text/event-stream"

    def sent_texts(self, request: ScriptedRequest) -> list[str]:
        """Everything that a request says, the system prompt first."""
        blocks = [*request.body.get("system", []), *(m["content"] for m in request.body["messages"])]
        return [_text(block) for block in blocks]

    def fails(self, client: LLMClient, kind: type[LLMError], reason: str) -> LLMError:
        """Asking fails like this; nothing is stored, no file is left, and the key is not shown."""
        store = client.message_store
        assert store is not None
        before = store.count_messages()
        with refused(kind, reason) as caught:
            client.get_response()
        assert store.count_messages() == before
        assert not (store.context_dir / "request.json").exists()
        assert KEY not in f"{caught.value} {caught.value.fields} {caught.value.__cause__!r}"
        assert isinstance(caught.value, LLMError)
        return caught.value


def verify_store(client: LLMClient) -> list[Any]:
    """What the prover finds in the client's records."""
    assert client.message_store is not None
    return verify_task(client.message_store.task_store)


def _text(block: Any) -> str:
    if isinstance(block, str):
        return block
    if isinstance(block, list):
        return "".join(map(_text, block))
    return str(block.get("text", ""))
