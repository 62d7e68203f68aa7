"""An agent of the OpenHands SDK with its own tools, run by a Python that has it: ``python openhands_agent.py WHAT``."""

# mypy: ignore-errors
import os
import sys
from pathlib import Path

from openhands.sdk import LLM, Agent, Conversation, Tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool

llm = LLM(
    model="openai/scripted",
    base_url=os.environ["OPENAI_BASE_URL"],
    api_key=os.environ["OPENAI_API_KEY"],
    usage_id="agent",
)
agent = Agent(llm=llm, tools=[Tool(name=TerminalTool.name), Tool(name=FileEditorTool.name)])
conversation = Conversation(agent=agent, workspace=str(Path.cwd()))
conversation.send_message(sys.argv[1])
conversation.run()
conversation.close()
sys.stdout.write(f"{conversation.state.execution_status}\n")
