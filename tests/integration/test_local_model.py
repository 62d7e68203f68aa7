"""A real model, small enough for a test, summarises over real HTTP; what it cannot do fails in a typed way.

``make test`` installs the model. Elsewhere the tests are skipped where it is missing, in continuous integration never.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from orihon.compression.model.call import SummaryFailure
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.values.message.message import Message
from orihon.values.message.parts import ToolCall
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, tokenizer
from tests.integration.chat_http import HttpChatClient
from tests.integration.local_model import WINDOW, needs_model, served_model

COUNT = tokenizer(DEFAULT_TOKENIZER)
PATIENCE = 900.0
PROMPT = "Summarize:\n{messages}"  # as much as this one understands
# What a model of this size does wrong; anything else would be our fault.
MODEL_FAULTS = (
    SummaryFailure.EMPTY,
    SummaryFailure.REFUSED,
    SummaryFailure.UNRELATED,
    SummaryFailure.TOO_LONG,
    SummaryFailure.LONGER_THAN_INPUT,
)


pytestmark = needs_model


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served_model() as address:
        yield address


def conversation() -> list[Message]:
    call = ToolCall("c1", "run_tests", '{"path": "tests/test_import.py"}')
    return [
        Message("user", "The nightly import in jobs/import_orders.py must not run longer than 20 minutes."),
        Message("user", "Keep the table orders_staging as it is; other jobs read it at six in the morning."),
        Message("assistant", "I read the job. It loads one row at a time; I will use COPY instead."),
        Message("assistant", "COPY is in place. Running the tests.", tool_calls=(call,)),
        Message("tool", "FAILED test_import.py::test_rollback - TimeoutError after 30 s", tool_call_id="c1"),
        Message("assistant", "The rollback test failed because the lock on orders_staging was never released."),
        Message("assistant", "Fixed by closing the cursor in a finally block. All 48 tests pass now."),
        Message("user", "Good. Next, write the changelog entry, and do not touch the schema."),
    ]


def test_a_small_model_summarises(url: str) -> None:
    client = HttpChatClient(url)
    asking = LLMSummarizer(client, window=WINDOW, prompt=PROMPT, retries=0, timeout=PATIENCE)
    written = asking.summarize(conversation(), 100)
    assert written is not None, asking.last_failure
    assert "import_orders.py" in written
    assert COUNT(SUMMARY_PREFIX + written) <= 100
    assert client.refusals == []


def test_the_built_in_prompt_is_answered_or_fails_in_a_typed_way(url: str) -> None:
    asking = LLMSummarizer(HttpChatClient(url), window=WINDOW, retries=0, timeout=PATIENCE)
    written = asking.summarize(conversation(), 100)
    assert asking.last_failure in (None, *MODEL_FAULTS)
    assert (written is None) == (asking.last_failure is not None)
    assert written is None or COUNT(SUMMARY_PREFIX + written) <= 100


def test_the_real_overflow_error_leads_to_requests_of_half_the_size(url: str) -> None:
    messages = [
        Message("assistant", f"Step {n}: module_{n} reads orders_{n}.csv and writes {n * 11} rows.") for n in range(30)
    ]
    client = HttpChatClient(url)
    asking = LLMSummarizer(client, window=8 * WINDOW, prompt=PROMPT, retries=2, timeout=PATIENCE)
    written = asking.summarize(messages, 60)
    (refusal,) = client.refusals  # half of the record fits
    assert "exceed_context_size_error" in refusal.body
    assert asking.last_failure in (None, *MODEL_FAULTS)
    assert written is None or COUNT(SUMMARY_PREFIX + written) <= 60
