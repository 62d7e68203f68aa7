"""An agent of a few lines over LiteLLM, run by the Python that has it: ``python litellm_agent.py WHAT``."""

# mypy: ignore-errors
import json
import subprocess
import sys

import litellm

RUN = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOLS = [{"type": "function", "function": {"name": "run", "description": "Run a command.", "parameters": RUN}}]


def main() -> None:
    history = [{"role": "user", "content": sys.argv[1]}]
    while True:
        stream = litellm.completion(model="openai/scripted", messages=history, tools=TOOLS, stream=True)
        answer = litellm.stream_chunk_builder(list(stream), messages=history)
        message = answer.choices[0].message
        history.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            sys.stdout.write(message.content + "\n")
            return
        for call in message.tool_calls:
            command = json.loads(call.function.arguments)["command"]
            said = subprocess.run(command, shell=True, capture_output=True, text=True).stdout
            history.append({"role": "tool", "tool_call_id": call.id, "content": said})


main()
