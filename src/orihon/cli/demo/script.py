"""What the scripted model answers: each answer follows from the request alone, never from what was asked before.

The ids of its tool calls say where in the work they belong, so the last result in a request tells what comes next: a
request that is made again after a pause gets the same answer. Whether a test passes, what is mended so far and what is
inherited it reads in the request, as a model would. Only the functions' right versions are known beforehand.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from orihon.cli.demo.workspace import FOLDER, GUIDE, Feature, passes
from orihon.llm.scripted import Reply, ScriptedRequest, ScriptStep
from orihon.texts import text

ScriptedCall = tuple[str, dict[str, str]]
Messages = Sequence[Mapping[str, Any]]

_LONGEST_WAIT = 30.0


class Script:
    """The answers to one demo's requests; give ``answer`` to a ``ScriptedModel``."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self._features = {feature.name: feature for feature in features}
        self._half = features[len(features) // 2].name
        #: Set when half of the work is done; the next answer waits until ``go_on`` is set.
        self.half_way = threading.Event()
        self.go_on = threading.Event()

    def answer(self, request: ScriptedRequest) -> ScriptStep:
        """The reply to a request."""
        messages: Messages = request.body["messages"]
        if not request.body.get("tools"):
            return Reply(self._summary(messages))
        call_id = messages[-1].get("tool_call_id")
        if messages[-1]["role"] != "tool" or not isinstance(call_id, str):
            is_second = any(_words(message) == text("demo.second_goal") for message in messages)
            return self._look() if is_second else self._begin()
        place, phase, _ = call_id.split("-")
        if place == "readme":
            return self._write_readme(messages) if phase == "look" else Reply(text("demo.second_done"))
        if place == "end":
            return Reply(self._summary(messages))
        return self._next(place, phase, _words(messages[-1]))

    # ---- the first task ----------------------------------------------------------------------------------------

    def _begin(self) -> Reply:
        plan = text("demo.plan", names=", ".join(self._features))
        return _reply(
            "begin-plan",
            text("demo.look"),
            ("plan_record", {"plan_type": "initial", "content": plan}),
            ("files_list_files", {}),
            ("files_read_file", {"path": GUIDE}),
        )

    def _next(self, place: str, phase: str, result: str) -> Reply:
        if place == "begin":
            return self._run(next(iter(self._features.values())), "")
        feature = self._features[place]
        if phase in ("run", "rerun") and passes(result):
            return self._after(feature)
        if phase == "run":
            return _reply(
                f"{place}-read",
                text("demo.read", name=place, error=_last_line(result)),
                ("files_read_file", {"path": GUIDE}),
                ("files_read_file", {"path": feature.module}),
                ("files_read_file", {"path": feature.test}),
            )
        if phase == "read":
            change = {"path": feature.module, "content": feature.right}
            return _reply(f"{place}-mend", text("demo.mend", path=feature.module), ("files_write_file", change))
        if phase == "mend":
            return _reply(f"{place}-rerun", text("demo.rerun"), ("files_run_test", {"path": feature.test}))
        return Reply(text("demo.stuck", name=place, error=_last_line(result)))

    def _after(self, feature: Feature) -> Reply:
        """One is mended: the next, or a look back at the whole."""
        names = list(self._features)
        done = text("demo.done", name=feature.name)
        following = names.index(feature.name) + 1
        if following < len(names):
            return self._run(self._features[names[following]], done)
        return _reply(
            "end-recall", f"{done} {text('demo.recall')}", ("context_recall", {"query": f"{GUIDE} {names[0]}"})
        )

    def _run(self, feature: Feature, said: str) -> Reply:
        if feature.name == self._half:
            self.half_way.set()
            self.go_on.wait(_LONGEST_WAIT)
        words = f"{said} {text('demo.run', name=feature.name)}".strip()
        return _reply(f"{feature.name}-run", words, ("files_run_test", {"path": feature.test}))

    def _summary(self, messages: Messages) -> str:
        """What is mended, as far as the messages tell."""
        return text("demo.summary", folder=FOLDER, names=", ".join(self._mended(messages)) or "-")

    def _mended(self, messages: Messages) -> list[str]:
        said = "\n".join(_words(message) for message in messages)
        marks = {name: text("demo.done", name=name) for name in self._features}
        listed = re.findall(
            re.escape(text("demo.summary", folder=FOLDER, names="\0")).replace("\0", "([a-z_, ]+)"), said
        )
        known = {name for names in listed for name in names.split(", ")}
        return [name for name, mark in marks.items() if mark in said or name in known]

    # ---- the second task ---------------------------------------------------------------------------------------

    def _look(self) -> Reply:
        return _reply("readme-look", text("demo.second_look"), ("files_list_files", {}))

    def _write_readme(self, messages: Messages) -> Reply:
        """The list comes from what the first task has left in the system messages."""
        inherited = [message for message in messages if message["role"] == "system"]
        lines = "".join(f"- `{name}`: {FOLDER}/{name}.py\n" for name in self._mended(inherited))
        content = f"{text('demo.readme')}\n\n{lines}"
        said = text("demo.second_write")
        return _reply("readme-write", said, ("files_write_file", {"path": "README.md", "content": content}))


def _reply(place: str, said: str, *calls: ScriptedCall) -> Reply:
    return Reply(said, [(name, arguments, f"{place}-{number}") for number, (name, arguments) in enumerate(calls)])


def _words(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""


def _last_line(output: str) -> str:
    return output.rstrip().rpartition("\n")[2]
