"""LlamaIndex's memory with a task under it: ``get`` is what fits the model, ``get_all`` is everything."""

import os

from llama_index.core.llms import ChatMessage
from openai import OpenAI

from orihon.adapters.llama_index import OrihonMemory

MODEL = os.environ.get("MODEL", "gpt-5")
memory = OrihonMemory.from_defaults(session_id="notes", where="contexts")
if not memory.get_all():
    memory.put(ChatMessage(role="system", content="You are a careful agent."))
memory.put(ChatMessage(role="user", content="What do the notes say about the deadline?"))

messages = [{"role": message.role.value, "content": message.content} for message in memory.get()]
answer = OpenAI().chat.completions.create(model=MODEL, messages=messages).choices[0].message.content
memory.put(ChatMessage(role="assistant", content=answer))
print(answer)
memory.task.stop()
