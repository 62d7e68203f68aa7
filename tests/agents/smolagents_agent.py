"""An agent of smolagents with one tool, run by the Python that has it: ``python smolagents_agent.py WHAT``."""

# mypy: ignore-errors
import os
import subprocess
import sys

from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def run(command: str) -> str:
    """Runs a command.

    Args:
        command: what the shell shall do
    """
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout


model = OpenAIModel("scripted", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
sys.stdout.write(f"{ToolCallingAgent([run], model).run(sys.argv[1])}\n")
