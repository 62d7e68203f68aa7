"""A small agent on the bare OpenAI SDK: it keeps its list of messages as ever, Orihon keeps the task.

Run it again after a crash: it goes on where it stood.
"""

import json
import os
from pathlib import Path

from openai import OpenAI

import orihon

MODEL = os.environ.get("MODEL", "gpt-5")
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": PARAMETERS}}]
BEGINNING = [
    {"role": "system", "content": "You are a careful agent."},
    {"role": "user", "content": "What does notes.txt say about the deadline?"},
]


def read_file(path: str) -> str:
    return Path(path).read_text() if Path(path).is_file() else "no such file"


with orihon.Base("contexts") as base, base.task("notes") as task:
    client = orihon.wrap(OpenAI(), task)
    messages = task.messages() or BEGINNING
    while True:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=TOOLS).choices[0].message
        messages.append(answer.model_dump(exclude_none=True))
        if not answer.tool_calls:
            break
        for call in answer.tool_calls:
            said = read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    print(answer.content)
