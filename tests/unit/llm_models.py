"""Models that answer by script, and conversations for them."""

from __future__ import annotations

from typing import Any

from orihon.compression.model.summarizer import LLMSummarizer
from orihon.values.message.message import Message
from orihon.values.message.parts import ToolCall
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, tokenizer

COUNT = tokenizer(DEFAULT_TOKENIZER)

GOOD = """\
## Goal
3 user: the exporter in src/report.py must write UTF-8
## Problems
5 run_tests: UnicodeDecodeError in test_export"""


class Model:
    """Answers what it was told to, one after another (the last one for ever), and remembers what it was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, int]] = []

    def create_chat_completion(self, messages: list[dict[str, str]], *, max_tokens: int, temperature: float) -> Any:
        assert [message["role"] for message in messages] == ["system", "user"]
        assert temperature == 0
        self.asked.append((messages[0]["content"], messages[1]["content"], max_tokens))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


class SteppingModel:
    """A client of the other kind."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.steps: list[str] = []

    def send_system_prompt(self, prompt: str) -> None:
        self.steps.append(prompt)

    def send_user_message(self, message: str) -> None:
        self.steps.append(message)

    def get_response(self) -> tuple[str, list[Any]]:
        self.steps.append("?")
        return self.answer, []


class ModelOfBothKinds(Model, SteppingModel):
    """Has all methods."""

    def __init__(self, answer: str) -> None:
        Model.__init__(self, answer)
        SteppingModel.__init__(self, "not asked")


def run_of_messages(padding: int = 3) -> list[Message]:
    call = ToolCall("c1", "run_tests", '{"path": "tests/test_report.py"}')
    filler = " The export of the monthly figures goes through several steps." * padding
    return [
        Message("user", "The exporter in src/report.py must write UTF-8, never Latin-1." + filler),
        Message("assistant", "Let me run the tests." + filler, tool_calls=(call,)),
        Message("tool", "UnicodeDecodeError in test_export at line 412" + filler, tool_call_id="c1"),
        Message("assistant", "Decided to open the file with encoding='utf-8'." + filler),
    ]


def summarizer(client: Any, **options: Any) -> LLMSummarizer:
    return LLMSummarizer(client, **{"window": 8000, "count": COUNT, "retry_delay": 0.0, "timeout": 300.0, **options})


def failure(answer: object, max_tokens: int = 150, **options: Any) -> str | None:
    """Why an answer is not taken."""
    asking = summarizer(Model(answer), **options)
    assert asking.summarize(run_of_messages(), max_tokens) is None
    return asking.last_failure


def response(content: object, finish_reason: str = "stop", **message: object) -> dict[str, Any]:
    return {
        "choices": [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish_reason}]
    }


def long_run(count: int) -> list[Message]:
    return [
        Message(
            "user" if n % 5 == 0 else "assistant",
            f"Step {n}: module_{n} handles case {n * 37}.\n" + f"detail {n} " * 20,
        )
        for n in range(count)
    ]
