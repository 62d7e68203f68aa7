"""``checkpoint_ask``: a model asks a person before it goes on.

The call only writes the question down, and is answered at once; the agent then lets the task wait. A call that is made
again after a crash is the same question. The person's answer comes as the next user message.
"""

from __future__ import annotations

from orihon.errors import ToolFailed
from orihon.runtime.builtin_tools import BuiltinServer, BuiltinTool, Deadline
from orihon.runtime.tool import ServerAnswer, ServerCall
from orihon.runtime.tool_arguments import Arguments
from orihon.store.checkpoints import Checkpoint, CheckpointLog
from orihon.texts import text

ASK = "checkpoint_ask"
_LONGEST_NAME = 80
_PROPERTIES = {
    "question": {"type": "string", "description": "What the person shall decide."},
    "context": {"type": "string", "description": "What the person has to know to decide it, in Markdown."},
    "name": {"type": "string", "description": 'A short name for the decision: "concept", "deploy", …'},
}
_ABOUT = (
    "Ask a person to approve before you go on, where a decision is dear, dangerous or not yours to make. "
    "The work waits; the answer (approved, rejected, or changes wanted) comes as the next message."
)


class CheckpointServer(BuiltinServer):
    """The tool that asks people."""

    def __init__(self, log: CheckpointLog) -> None:
        super().__init__("checkpoint", [BuiltinTool("ask", _ABOUT, _PROPERTIES, _unused, ["question"])])
        self._log = log

    def call(self, call: ServerCall) -> ServerAnswer:
        given = Arguments(call.arguments, list(_PROPERTIES))
        question = given.text("question")
        if not question.strip():
            raise ToolFailed("argument_missing", name="question")
        name, context = " ".join(given.text("name", "").split())[:_LONGEST_NAME], given.text("context", "")
        asked = self._log.ask(Checkpoint(0, name or "checkpoint", question, context, call=call.id))
        return ServerAnswer(text("agent.asked", number=asked.id))


def _unused(arguments: Arguments, deadline: Deadline) -> ServerAnswer:
    raise NotImplementedError  # a question needs the id of its call, which this does not get
