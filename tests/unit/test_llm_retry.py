"""What is tried again, and after how long."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from orihon.errors import Cancelled, CutOff, EmptyAnswer, LLMError, NotJSON, Overflow, Refused, TimedOut, Unreachable
from orihon.llm.retry import RetryPolicy, may_pass, retry_after

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def refusal(status: int, **fields: object) -> Refused:
    return Refused("status", url="u", status=status, said="-", **fields)


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_these_may_pass(status: int) -> None:
    assert may_pass(refusal(status))


@pytest.mark.parametrize(
    "error",
    [
        *(refusal(status) for status in (301, 400, 401, 402, 403, 404, 410, 413, 422)),
        Refused("quota", url="u", status=429, said="insufficient_quota"),
        Overflow("window", url="u", status=400, said="-"),
        CutOff("unfinished", url="u"),
        NotJSON("answer", excerpt="<"),
        TimedOut("read", url="u", seconds=1),
        TimedOut("total", url="u", seconds=1),
        Unreachable("url", url="u", detail="-"),
        Cancelled("by_caller"),
    ],
)
def test_these_are_never_repeated(error: LLMError) -> None:
    assert not may_pass(error)
    assert RetryPolicy().delay(1, error) is None


def test_a_connection_that_fails_before_the_answer_may_pass() -> None:
    assert may_pass(Unreachable("connection", url="u", detail="refused"))
    assert may_pass(TimedOut("connect", url="u", seconds=1))


def test_delays_double_with_jitter_up_to_a_limit_and_then_end() -> None:
    policy = RetryPolicy(retries=6, first_delay=1.0, longest_delay=10.0)
    for attempt, limit in enumerate((1, 2, 4, 8, 10, 10), start=1):
        delays = {policy.delay(attempt, refusal(503)) for _ in range(20)}
        assert len(delays) > 1
        assert all(delay is not None and limit / 2 <= delay <= limit for delay in delays)
    assert policy.delay(7, refusal(503)) is None


def test_what_the_provider_asks_for_is_waited_or_not_at_all() -> None:
    policy = RetryPolicy(longest_wait=60)
    assert policy.delay(1, refusal(429, retry_after=17.5)) == 17.5
    for attempt in (1, 2, 3):  # "at once", again and again, would be a storm
        assert (policy.delay(attempt, refusal(429, retry_after=0.0)) or 0) >= 0.5 * 2 ** (attempt - 1)
    assert policy.delay(1, refusal(429, retry_after=61.0)) is None


def test_an_empty_answer_is_asked_for_once_more() -> None:
    empty = EmptyAnswer("nothing", model="m", finish="-")
    assert RetryPolicy().delay(1, empty) is not None
    assert RetryPolicy().delay(2, empty) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:05 -0000"}, 5.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
