"""A small agent on the OpenAI Agents SDK: its session is a task of Orihon. Run it again, and it remembers."""

import asyncio
from pathlib import Path

from agents import Agent, Runner, function_tool, set_tracing_disabled
from orihon.adapters.openai_agents import OrihonSession


@function_tool
def read_file(path: str) -> str:
    """What a file says."""
    return Path(path).read_text()


async def main() -> None:
    set_tracing_disabled(True)
    agent = Agent(name="reader", instructions="You are a careful agent.", tools=[read_file], model="gpt-5")
    session = OrihonSession("notes", "contexts")
    result = await Runner.run(agent, "What does notes.txt say about the deadline?", session=session)
    print(result.final_output)
    session.close()


asyncio.run(main())
