"""A LangChain agent whose conversation is a task: kept, folded where it would not fit, and there again tomorrow."""

import os
from pathlib import Path

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from orihon.adapters.langchain import OrihonChatMessageHistory, OrihonMiddleware

MODEL = os.environ.get("MODEL", "gpt-5")


def read_file(path: str) -> str:
    """The text of a file."""
    return Path(path).read_text() if Path(path).is_file() else "no such file"


memory = OrihonMiddleware("notes", "contexts")
agent = create_agent(
    ChatOpenAI(model=MODEL), [read_file], system_prompt="You are a careful agent.", middleware=[memory]
)
question = {"role": "user", "content": "What does notes.txt say about the deadline?"}
print(agent.invoke({"messages": [question]})["messages"][-1].content)

kept = OrihonChatMessageHistory(memory.task)
print(len(kept.whole()), "messages are kept, the context is", f"{memory.task.usage:.0%} full")
memory.task.stop()
