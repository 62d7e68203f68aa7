"""The summarizer that asks a model: whom it asks and what, when it asks again, and how long it waits."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from orihon.compression.model.call import SummaryFailure
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.errors import InvalidInput
from orihon.texts import set_language
from orihon.values.message.message import Message
from orihon.values.message.parts import ToolCall
from orihon.values.records import SUMMARY_PREFIX
from tests.helpers import refused
from tests.unit.llm_models import (
    COUNT,
    GOOD,
    Model,
    ModelOfBothKinds,
    SteppingModel,
    long_run,
    response,
    run_of_messages,
    summarizer,
)


@pytest.fixture
def japanese() -> Iterator[None]:
    set_language("ja")
    yield
    set_language(None)


# ---- clients ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [GOOD, response(GOOD), response([{"type": "text", "text": GOOD}]), (GOOD, [])], ids=type
)
def test_a_summary_is_taken_from_every_shape_of_answer(answer: object) -> None:
    asking = summarizer(Model(answer))
    assert asking.summarize(run_of_messages(), 150) == GOOD
    assert asking.last_failure is None


def test_a_client_of_three_steps_is_asked_in_three_steps() -> None:
    client = SteppingModel(GOOD)
    assert summarizer(client).summarize(run_of_messages(), 150) == GOOD
    prompt, question, end = client.steps
    assert "## Goal" in prompt
    assert "src/report.py" in question
    assert end == "?"


def test_the_whole_request_is_preferred() -> None:
    client = ModelOfBothKinds(GOOD)
    assert summarizer(client).summarize(run_of_messages(), 150) == GOOD
    assert client.steps == []


def test_what_is_no_client_is_refused_at_once() -> None:
    with refused(InvalidInput, "summary_client"):
        LLMSummarizer(object(), window=100)  # type: ignore[arg-type]


# ---- what is sent -----------------------------------------------------------------------------------------------


def sent(messages: Sequence[Message], max_tokens: int = 150, **options: Any) -> tuple[str, str]:
    client = Model(GOOD)
    arguments = {key: options.pop(key) for key in ("seqs", "earlier") if key in options}
    summarizer(client, **options).summarize(messages, max_tokens, **arguments)
    ((system, user, _),) = client.asked
    return system, user


def test_the_prompt_names_the_parts_the_length_and_the_order() -> None:
    system, user = sent(run_of_messages(), max_tokens=777)
    headings = re.findall("^## (.+)$", system, re.M)
    assert headings == [
        *("Goal", "Constraints", "Decisions", "Code and file changes", "Problems", "Open tasks", "Notes", "Look up")
    ]
    assert "30 to 40 %" in system
    limit = 777 - COUNT(SUMMARY_PREFIX)
    assert f"more than {limit} tokens" in system
    assert "order of events" in system
    assert "Output only the summary" in system
    assert "Earlier summary" not in user


@pytest.mark.usefixtures("japanese")
def test_the_prompt_is_japanese_when_the_interface_is() -> None:
    system, user = sent(run_of_messages(), earlier="## 目的\n1 user: 以前の目的")
    headings = re.findall("^## (.+)$", system, re.M)
    assert headings[:6] == ["目的", "制約", "決定事項", "コードとファイルの変更", "問題", "残っている作業"]
    assert "30〜40%" in system
    assert "もう一度要約しない" in user
    assert "=== 記録 ===" in user


def test_the_record_has_numbers_roles_calls_and_the_names_of_tools() -> None:
    _, user = sent(run_of_messages(padding=0), seqs=[31, 32, 33, 35])
    record = user.split("=== Record ===\n")[1].split("\n===")[0]
    assert record.splitlines() == [
        "[31 USER]: The exporter in src/report.py must write UTF-8, never Latin-1.",
        "[32 ASSISTANT]: Let me run the tests.",
        '[32 ASSISTANT]: run_tests({"path": "tests/test_report.py"})',
        "[33 TOOL run_tests]: UnicodeDecodeError in test_export at line 412",
        "[35 ASSISTANT]: Decided to open the file with encoding='utf-8'.",
    ]


def test_the_prompt_of_the_settings_stands_around_the_messages() -> None:
    own = 'Answer as {"points": []}.\n--- {messages} ---\nOnly the summary. {messages} {0}'
    system, user = sent(run_of_messages(padding=0), prompt=own)
    assert "## Goal" not in system
    before, after = 'Answer as {"points": []}.\n--- ', " ---\nOnly the summary. {messages} {0}"
    assert user.startswith(before + "[1 USER]: The exporter")
    assert user.endswith("encoding='utf-8'." + after)


def test_without_a_place_for_them_the_messages_follow_the_prompt() -> None:
    _, user = sent(run_of_messages(padding=0), prompt="Summarise this.\n")
    assert user.startswith("Summarise this.\n\n[1 USER]: ")


@pytest.mark.parametrize("prompt", [None, "Mine: {messages} End."])
def test_an_earlier_summary_is_handed_over_apart(prompt: str | None) -> None:
    earlier = "## Decisions\n2 user: keep Python 3.11"
    _, user = sent(run_of_messages(), earlier=SUMMARY_PREFIX + earlier, prompt=prompt)
    assert SUMMARY_PREFIX.strip() not in user
    assert user.index(earlier) < user.index("do not summarise it again") < user.index("[1 USER]")


def test_the_answer_is_limited_by_the_request_too() -> None:
    client = Model(GOOD)
    summarizer(client).summarize(run_of_messages(), 150)
    assert client.asked[0][2] == 150 - COUNT(SUMMARY_PREFIX)


# ---- shrinking --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [900, 1500, 3000, 9000])
@pytest.mark.parametrize("earlier", ["", "## Goal\n1 user: module_0 is the entry"])
@pytest.mark.parametrize("prompt", [None, "Mine:\n{messages}\nEnd."])
def test_the_request_fits_the_window_and_is_never_cut(window: int, earlier: str, prompt: str | None) -> None:
    messages = long_run(120)
    system, user = sent(messages, 200, window=window, earlier=earlier, prompt=prompt)
    assert COUNT(system) + COUNT(user) + 200 <= window
    assert COUNT(system) + COUNT(user) + 200 >= window * 0.75
    assert messages[-1].text in user
    assert earlier in user
    _, _, notes = user.partition("Notes on messages 1 to ")
    source = "\n".join(message.text for message in messages)
    older, _, newest = notes.partition("\n[")
    lines = [line for line in older.splitlines()[1:] if not line.startswith(("##", "(+"))]
    quoted = [re.sub(r"^\d+ \w+: ", "", line) for line in lines[: -1 if "## Look up" in older else None]]
    assert len(quoted) > 3 or window < 1000
    assert [part for line in quoted for part in re.split("…|→| \\(", line) if part.strip() not in source] == []
    assert newest


def test_results_of_tools_are_not_parted_from_their_call() -> None:
    call = ToolCall("c1", "read_file", "{}")
    messages = [
        *long_run(20),
        Message("assistant", "x " * 600, tool_calls=(call,)),
        Message("tool", "result " * 60, tool_call_id="c1"),
        Message("assistant", "module_7 is done"),
    ]
    _, user = sent(messages, 100, window=1250)
    assert "[23 ASSISTANT]: module_7 is done" in user
    assert "[22 TOOL" not in user


def test_an_earlier_summary_that_is_too_long_is_taken_line_by_line() -> None:
    lines = [f"{n} user: module_{n} must keep option_{n * 3}" for n in range(1, 200)]
    _, user = sent(long_run(60), 200, window=2000, earlier="\n".join(["## Constraints", *lines]))
    block = user.partition("=== Record")[0]
    kept = [line for line in block.splitlines() if " user: " in line]
    assert 5 < len(kept) < 150
    assert set(kept) <= set(lines)
    assert "## What the user said" in block


def test_a_window_without_room_is_not_asked() -> None:
    client = Model(GOOD)
    asking = summarizer(client, window=300)
    assert asking.summarize(run_of_messages(), 200) is None
    assert asking.last_failure == SummaryFailure.NO_ROOM
    assert client.asked == []


def test_no_limit_and_no_messages_are_no_summary() -> None:
    asking = summarizer(Model(GOOD))
    assert asking.summarize(run_of_messages(), 0) is None
    assert asking.last_failure == SummaryFailure.NO_ROOM
    assert asking.summarize([], 100) is None
    assert asking.last_failure == SummaryFailure.NOTHING


# ---- trying again -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passing", [ConnectionError("reset"), "", response(None)], ids=repr)
def test_what_may_pass_is_tried_again(passing: object) -> None:
    client = Model(passing, passing, GOOD)
    asking = summarizer(client)
    assert asking.summarize(run_of_messages(), 150) == GOOD
    assert asking.last_failure is None
    assert len({question for _, question, _ in client.asked}) == 1


@pytest.mark.parametrize(
    ("answer", "calls"),
    [
        (ConnectionError("reset"), 3),
        ("", 3),
        ("Error: no", 1),
        (TimeoutError("read"), 1),
        (17, 1),
        ("bake a cake", 1),
        ("src/report.py " * 200, 1),
    ],
    ids=repr,
)
def test_what_will_not_pass_is_not_tried_again(answer: object, calls: int) -> None:
    client = Model(answer)
    assert summarizer(client, retries=2).summarize(run_of_messages(), 150) is None
    assert len(client.asked) == calls


def test_there_is_no_wait_after_the_last_try() -> None:
    client = Model(ConnectionError("reset"))
    assert summarizer(client, retries=0, retry_delay=3600.0).summarize(run_of_messages(), 150) is None


class HttpStatusError(Exception):
    """As common clients raise it: the server's words are not in its text."""

    def __init__(self, body: str) -> None:
        super().__init__("400 Bad Request")
        self.body = body


OVERFLOWS = [
    RuntimeError('{"error":{"code":400,"message":"…","type":"exceed_context_size_error","n_ctx":2048}}'),
    RuntimeError("This model's maximum context length is 8192 tokens. However, your messages resulted in 8227 tokens."),
    RuntimeError("prompt is too long: 215000 tokens > 200000 maximum"),
    HttpStatusError('{"error": {"code": "context_length_exceeded"}}'),
    {"error": {"message": "request (5031 tokens) exceeds the available context size (2048 tokens)"}},
    '{"error": {"code": "context_length_exceeded"}}',
    "Error: input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000",
]


@pytest.mark.parametrize("answer", OVERFLOWS, ids=str)
def test_a_request_that_is_too_long_is_sent_again_with_half_of_the_record(answer: object) -> None:
    client = Model(answer, answer, "Step 119: module_119 handles case 4403.")
    asking = summarizer(client, retries=2, retry_delay=3600.0)
    assert asking.summarize(long_run(120), 200) == "Step 119: module_119 handles case 4403."
    sizes = [COUNT(question) for _, question, _ in client.asked]
    assert sizes[1] <= sizes[0] * 0.52
    assert sizes[2] <= sizes[1] * 0.54


def test_a_request_that_is_always_too_long_fails_as_that() -> None:
    client = Model(RuntimeError("context_length_exceeded"))
    asking = summarizer(client, retries=20)
    assert asking.summarize(long_run(60), 200) is None
    assert asking.last_failure == SummaryFailure.OVERFLOW
    assert 2 <= len(client.asked) < 10


def test_a_summary_that_speaks_of_windows_is_no_overflow() -> None:
    said = "UnicodeDecodeError in src/report.py: the prompt is too long for the maximum context length"
    assert summarizer(Model(said)).summarize(run_of_messages(), 150) == said


# ---- time and interruption --------------------------------------------------------------------------------------


def test_a_client_that_hangs_is_left_and_not_called_again_until_it_is_back() -> None:
    began, release, calls = threading.Event(), threading.Event(), []

    def hang() -> str:
        calls.append(threading.current_thread())
        began.set()
        release.wait(120)
        return GOOD

    asking = summarizer(Model(hang), timeout=0.05)
    assert asking.summarize(run_of_messages(), 150) is None
    assert asking.last_failure == SummaryFailure.TIMED_OUT
    assert asking.summarize(run_of_messages(), 150) is None
    assert asking.last_failure == SummaryFailure.BUSY
    assert began.wait(60)
    release.set()
    calls[0].join(60)
    assert len(calls) == 1
    assert calls[0].daemon


def test_of_a_client_in_steps_none_is_called_after_the_time_limit() -> None:
    release, left = threading.Event(), []

    class Slow(SteppingModel):
        def send_system_prompt(self, prompt: str) -> None:
            left.append(threading.current_thread())
            super().send_system_prompt(prompt)
            release.wait(120)

    client = Slow(GOOD)
    asking = summarizer(client, timeout=0.05)
    assert asking.summarize(run_of_messages(), 150) is None
    assert asking.last_failure == SummaryFailure.TIMED_OUT
    release.set()
    left[0].join(60)
    assert len(client.steps) == 1


HANGING = """
import threading
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.values.message.message import Message

class Hanging:
    def create_chat_completion(self, messages, *, max_tokens, temperature):
        threading.Event().wait()

asking = LLMSummarizer(Hanging(), window=8000, timeout=0.05)
written = asking.summarize([Message("user", "word " * 200)], 100)
print(written, asking.last_failure)
"""


def test_a_client_that_hangs_does_not_keep_the_interpreter() -> None:
    ended = subprocess.run([sys.executable, "-c", HANGING], capture_output=True, text=True, timeout=300, check=True)
    assert ended.stdout.split() == ["None", "timed_out"]


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interruption_passes_through(stop: Callable[[], BaseException]) -> None:
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        summarizer(Model(stop())).summarize(run_of_messages(), 150)


INTERRUPTED = """
import _thread, threading
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.values.message.message import Message

class Hanging:
    def create_chat_completion(self, messages, *, max_tokens, temperature):
        _thread.interrupt_main()
        threading.Event().wait()

asking = LLMSummarizer(Hanging(), window=8000, timeout=900)
try:
    asking.summarize([Message("user", "word " * 200)], 100)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_waiting_for_a_client_can_be_interrupted() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=300, check=True)
    assert ended.stdout.split() == ["interrupted"]
