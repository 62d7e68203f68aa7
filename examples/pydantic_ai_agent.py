"""A Pydantic AI agent whose conversation is a task: run it again, and it knows what was said."""

import os
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.models.openai import OpenAIChatModel

from orihon.adapters.pydantic_ai import OrihonMessages

messages = OrihonMessages("notes", "contexts")
agent = Agent(
    OpenAIChatModel(os.environ.get("MODEL", "gpt-5")),
    system_prompt="You are a careful agent.",
    capabilities=[ProcessHistory(messages.processor)],
)


@agent.tool_plain
def read_file(path: str) -> str:
    """The text of a file."""
    return Path(path).read_text() if Path(path).is_file() else "no such file"


result = agent.run_sync("What does notes.txt say about the deadline?", message_history=messages.load())
messages.save(result.all_messages())
print(result.output)
messages.task.stop()
