"""A small agent on LangGraph: its thread is a task of Orihon. Run it again, and it goes on with the same thread."""

import json
import os
from pathlib import Path
from typing import Any

import httpx
from langchain_core.messages import AIMessage, ToolMessage, convert_to_openai_messages
from langgraph.graph import END, START, MessagesState, StateGraph

from orihon.adapters.langgraph import OrihonSaver

URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1") + "/chat/completions"
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": PARAMETERS}}]


def ask(state: MessagesState) -> dict[str, Any]:
    asked = {"model": "gpt-5", "messages": convert_to_openai_messages(state["messages"]), "tools": TOOLS}
    headers = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
    said = httpx.post(URL, json=asked, headers=headers, timeout=60).raise_for_status().json()["choices"][0]["message"]
    calls = [(call["function"], call["id"]) for call in said.get("tool_calls") or ()]
    asked_for = [{"name": f["name"], "args": json.loads(f["arguments"]), "id": name} for f, name in calls]
    return {"messages": [AIMessage(said.get("content") or "", tool_calls=asked_for)]}


def act(state: MessagesState) -> dict[str, Any]:
    calls = state["messages"][-1].tool_calls
    return {"messages": [ToolMessage(Path(c["args"]["path"]).read_text(), tool_call_id=c["id"]) for c in calls]}


builder = StateGraph(MessagesState).add_node(ask).add_node(act).add_edge(START, "ask").add_edge("act", "ask")
builder.add_conditional_edges("ask", lambda state: "act" if state["messages"][-1].tool_calls else END, ["act", END])
with OrihonSaver("contexts") as saver:
    thread = {"configurable": {"thread_id": "notes"}}
    asked = [("user", "What does notes.txt say about the deadline?")]
    print(builder.compile(checkpointer=saver).invoke({"messages": asked}, thread)["messages"][-1].content)
