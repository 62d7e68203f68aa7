"""What an agent did: each call as one line with what it changed and how it ended, and where files and commands stand.

Built by rule from the calls of common agents (shells, editors, patches, to-do lists, MCP tools) and from the fenced
commands of agents without tools. Quotes, never judges: an outcome is an exit status, the end of a traceback, a test
summary, or what the tool itself calls an error. The same command again counts by its last outcome.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from orihon.compression.notes.facts import is_error
from orihon.system.patterns import lazy_re

CallKind = Literal["edit", "command", "plan", "look"]

_PATHS = (
    *("path", "file_path", "filepath", "filename", "file", "target_file", "notebook_path", "relative_path"),
    *("absolute_path", "file_name", "filePath", "targetFile"),
)
_COMMANDS = ("command", "cmd", "script", "shell_command", "commands", "keystrokes", "code", "input")
_OLD = ("old_str", "old_string", "old_text", "oldText", "search", "old", "old_code", "find")
_NEW = ("new_str", "new_string", "new_text", "newText", "replace", "new", "new_code", "replacement")
_WRITTEN = ("file_text", "content", "contents", "text", "new_source", "code_edit", "data", "body", "insert_text")
_LISTS = ("todos", "plan", "items", "steps", "tasks", "todo_list")
_PATCH = lazy_re(r"^(?:\*\*\* (?:Update|Add|Delete) File: |\+\+\+ (?:b/)?|diff --git a/\S+ b/)(\S+)", re.M)
_IS_PATCH = lazy_re(r"\*\*\* Begin Patch|^diff --git |^\+\+\+ ", re.M)
_SHELL_WRITES = lazy_re(
    r"(?:cat|echo|printf)[^\n|;&]*?>>?\s*[\"']?([\w./~-]+)|\btee\s+(?:-a\s+)?([\w./~-]+)"
    r"|\b(?:(?:sed|perl)\s+-[a-zA-Z]*i|(?:mv|cp|rm|touch|mkdir)\s)(?P<arguments>[^\n;&|]*)"
)
_PATH = lazy_re(r"[\w./~-]+")
_EXIT = lazy_re(r"(?:exit(?:ed)?(?:\s+with)?(?:[\s_]+(?:code|status))?|return[\s_]?code)\W{0,6}(-?\d{1,3})\b", re.I)
_ENDS = lazy_re(r"^(?:[\w.]*(?:Error|Exception|Warning|Failure)\b.*|(?:error|fatal|panic)\b.*|E  +\S.*)", re.M | re.I)
_TESTS = lazy_re(
    r"^.*?(?:\b\d+ (?:passed|failed|errors?|passing|failing)\b|\bRan \d+ tests?|test result:|^Tests?:\s|^FAILED\b|^OK\b"
    r"|^PASS\b|^FAIL\b|\b\d+ tests? (?:passed|failed)).*$",
    re.M,
)
_SAYS_FAILED = lazy_re(
    r"\s*(?:\W*(?:error|failed|failure|fatal|exception|traceback|invalid|cannot|could not|permission denied)\b"
    r"|エラー|失敗|错误|<(?:tool_use_)?error>|\{\"(?:error|success\": false))",
    re.I,
)
_MARKUP = lazy_re(r"^[ \t]*(?:</?[a-z_]+>|<[a-z_]+>-?\d+</[a-z_]+>)[ \t]*$|^\[[^\]\n]*\]$", re.M)
_TRACEBACK = "Traceback (most recent call last)"
_BODY = lazy_re(r"(<<-?\s*['\"]?(\w+)['\"]?[^\n]*\n).*?^\2$", re.S | re.M)
_RESTORES = lazy_re(r"\bgit (?:checkout|restore)\b(?:\s+-\S*)*((?:\s+[\w./~-]+)+)|\bgit (reset) --hard|\bgit (stash)\b")
_PROGRAM = lazy_re(r"\s*(?:cd \S+\s*(?:&&|;)\s*|\w+=\S+\s+|sudo )*([\w./-]+(?:\s+[\w.-]+)?)")
_HEREDOC = lazy_re(r"<<-?\s*['\"]?(\w+)['\"]?")
_DEFINES = lazy_re(
    r"^[ \t]*(?:async def|def|class|function|export (?:default )?(?:function|const)|fn|func|interface|type)\s+\w+"
    r"[^\n{:=]*",
    re.M,
)

_LOOKS = lazy_re(
    r"\s*(?:cd \S+\s*(?:&&|;)\s*)*(?:sudo )?(?:ls|cat|head|tail|grep|rg|egrep|find|wc|pwd|which|tree|less|more|awk|nl"
    r"|file|stat|du|df|ps|env|echo|type|printenv|date|whoami|uname|tac|sort|diff|cmp|hexdump|xxd|strings|fd|ag|bat"
    r"|readlink|realpath|basename|sed -n|git (?:status|log|diff|show|blame|branch|grep|ls-files|rev-parse))\b"
    r"(?![^|;&]*>\s*[\w./~])"
)
_LONGEST_COMMAND = 220
_LONGEST_ARGUMENTS = 180
_LONGEST_LINE = 150
_LONGEST_CHANGE = 340
_WHOLE_OUTPUT = 140
_LOOKED_AT = 4000  # characters of a result's end in which its outcome is looked for


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended, in the result's own words."""

    has_failed: bool | None  # nobody can say
    exit_status: int | None
    line: str


#: Stands between what was called and what came of it.
OUTCOME = " → "


@dataclass(frozen=True, slots=True)
class CallLine:
    """A call in one line."""

    tool: str
    kind: CallKind
    subject: str  # the same subject again is the same thing done again
    said: str
    paths: tuple[str, ...] = ()
    outcome: Outcome | None = None
    written: tuple[str, ...] = ()  # longer texts among the arguments

    @property
    def brief(self) -> str:
        """What was called; the longer texts among its arguments can be quoted for themselves."""
        return self.said.partition(": ")[0] if self.kind == "edit" and self.written else self.said

    @property
    def text(self) -> str:
        end = self.outcome
        if end is None or not (end.line or end.exit_status):
            return self.said
        status = f"exit {end.exit_status}" if end.exit_status else ""
        return f"{self.said}{OUTCOME}{': '.join(filter(None, (status, end.line)))}"


def read_call(name: str, arguments: str, result: str | None = None) -> CallLine:
    """The call as it is told, with what came of it."""
    try:
        given = json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        given = {}
    if not isinstance(given, dict):
        given = {"input": given}
    outcome = None if result is None else outcome_of(result)
    return replace(_read(name, given, arguments), outcome=outcome, written=tuple(_texts_in(given)))


def read_command(command: str, name: str = "shell", result: str | None = None) -> CallLine:
    """A command line, whoever runs it."""
    told = _short_command(command)
    paths = tuple(_written_by(command))
    kind: CallKind = "look" if not paths and _LOOKS.match(command) else "command"
    return CallLine(
        name, kind, f"{name} {_one_line(command)}", told, paths, None if result is None else outcome_of(result)
    )


def _texts_in(value: object) -> Iterator[str]:
    """Texts of several lines, wherever they are."""
    if isinstance(value, str):
        if "\n" in value:
            yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one)


def _read(name: str, given: Mapping[str, Any], raw: str) -> CallLine:
    plan = next((given[key] for key in _LISTS if isinstance(given.get(key), list)), None)
    if plan and all(isinstance(one, (dict, str)) for one in plan):
        return CallLine(name, "plan", "plan", "; ".join(map(_step, plan)))
    texts = {key: value for key, value in given.items() if isinstance(value, str)}
    path = next((_one_line(texts[key]) for key in _PATHS if texts.get(key)), "")
    if patch := next((value for value in texts.values() if _IS_PATCH.search(value)), ""):
        paths = tuple(dict.fromkeys(_PATCH.findall(patch))) or ((path,) if path else ())
        return CallLine(name, "edit", " ".join(paths), f"{' '.join(paths)}: {_changes_of(patch)}", paths)
    if path:
        return _of_file(name, path, given, texts)
    command = next((given[key] for key in _COMMANDS if given.get(key)), None)
    if isinstance(command, list):
        command = (
            command[-1] if command and isinstance(command[0], str) and len(command) > 1 else " ".join(map(str, command))
        )
    if isinstance(command, str):
        return read_command(command, name)
    return CallLine(name, "look", f"{name} {raw}", _clipped(_one_line(raw), _LONGEST_ARGUMENTS))


def _of_file(name: str, path: str, given: Mapping[str, Any], texts: Mapping[str, str]) -> CallLine:
    action = texts.get("command", "")
    told = f"{action} {path}" if action and " " not in action else path
    edits = given.get("edits")
    pairs = [one for one in edits if isinstance(one, dict)] if isinstance(edits, list) else [texts]
    changes = [
        _change(_first(pair, _OLD), _first(pair, _NEW)) for pair in pairs if _first(pair, _NEW) or _first(pair, _OLD)
    ]
    if changes:
        return CallLine(name, "edit", path, f"{told}: {_clipped(' | '.join(changes), _LONGEST_CHANGE)}", (path,))
    if written := _first(texts, _WRITTEN):
        return CallLine(name, "edit", path, f"{told}: {_outline(written)}", (path,))
    if action in ("", "view", "read", "open", "cat"):
        rest = {key: value for key, value in given.items() if value != path and key != "command"}
        return CallLine(name, "look", f"{name} {path}", f"{told} {_clipped(json.dumps(rest), 60)}" if rest else told)
    return CallLine(name, "edit", path, told, (path,))


def restored_by(call: CallLine) -> tuple[str, ...] | None:
    """Files whose changes a call takes back; an empty tuple stands for all of them, ``None`` for no such call."""
    found = _RESTORES.search(call.said) if call.kind == "command" else None
    if found is None:
        return None
    return tuple(found[1].split()) if found[1] else ()


def program_of(call: CallLine) -> str:
    """What a command runs, whatever it is given: when that passes later, an earlier failure of it is over."""
    found = _PROGRAM.match(call.said) if call.kind == "command" else None
    return f"{call.tool} {found[1]}" if found else call.subject


def outcome_of(result: str) -> Outcome:
    """How a call ended, from its result."""
    end = result[-_LOOKED_AT:]
    status = _EXIT.search(result[:200]) or next(reversed(list(_EXIT.finditer(end[-400:]))), None)
    code = int(status[1]) if status else None
    tests = next(reversed(list(_TESTS.finditer(end))), None)
    last = _last_line(end)
    is_error_text = _TRACEBACK in end or _ENDS.match(last) or _SAYS_FAILED.match(result[:80])
    says_failed = bool(code) or (code is None and bool(is_error_text))
    if says_failed:
        ends = [match[0] for match in _ENDS.finditer(end)]
        said = ends or [line for line in end.split("\n") if is_error(line[:300])]
        line = said[-1] if said else last
        if tests and tests[0].strip() != line.strip():
            line = f"{line.strip()} · {tests[0].strip()}"
        return Outcome(True, code, _clipped(_one_line(line), _LONGEST_LINE))
    if tests:
        return Outcome("fail" in tests[0].lower(), code, _clipped(_one_line(tests[0]), _LONGEST_LINE))
    plain = _one_line(_MARKUP.sub("", result[: 4 * _WHOLE_OUTPUT])) if len(result) < 4 * _WHOLE_OUTPUT else ""
    if plain and len(plain) <= _WHOLE_OUTPUT:
        return Outcome(False if code == 0 else None, code, plain)
    return Outcome(False if code == 0 else None, code, "")


def _last_line(said: str) -> str:
    return next((line for line in reversed(_MARKUP.sub("", said).split("\n")) if line.strip()), "")


def _first(texts: Mapping[str, Any], keys: tuple[str, ...]) -> str:
    return next((texts[key] for key in keys if isinstance(texts.get(key), str) and texts[key]), "")


def _change(old: str, new: str) -> str:
    """The lines that an edit takes away and puts there."""
    before, after = old.split("\n"), new.split("\n")
    gone = [line.strip() for line in before if line not in after and line.strip()]
    come = [line.strip() for line in after if line not in before and line.strip()]
    inside = next((line.strip() for line in before if line in after and _DEFINES.match(line)), "")
    parts = [
        inside,
        f"- {_clipped(' '.join(gone), 100)}" if gone else "",
        f"+ {_clipped(' '.join(come), 220)}" if come else "",
    ]
    return " ".join(filter(None, parts))


def _changes_of(patch: str) -> str:
    lines = [line for line in patch.split("\n") if line[:1] in "+-" and line[1:2] not in "+-" and line[1:].strip()]
    return _clipped(" ".join(f"{line[0]} {line[1:].strip()}" for line in lines), _LONGEST_CHANGE)


def _outline(written: str) -> str:
    """What a new file has: its definitions, or its beginning."""
    found = [_one_line(match[0]) for match in _DEFINES.finditer(written)]
    return _clipped("; ".join(found) if found else _one_line(written), _LONGEST_CHANGE)


def _short_command(command: str) -> str:
    """A command without the body of its here-documents."""
    if "\n" in command.strip() and (heredoc := _HEREDOC.search(command)):
        body = command[heredoc.end() :].split(f"\n{heredoc[1]}")[0]
        head = command[: heredoc.end()].strip()
        return f"{_clipped(_one_line(head), _LONGEST_COMMAND)} … {_outline(body)}"
    return _clipped(_one_line(command), _LONGEST_COMMAND)


def _written_by(command: str) -> Iterator[str]:
    """Files that a command line writes; what stands in a here-document is not a command."""
    for found in _SHELL_WRITES.finditer(_BODY.sub(r"\1", command)[:2000]):
        words = (found["arguments"] or "").split()
        path = found[1] or found[2] or (words[-1] if words and _PATH.fullmatch(words[-1]) else "")
        if path and not path.startswith("/dev/") and ("." in path or "/" in path):
            yield path


def _step(one: Any) -> str:
    if isinstance(one, str):
        return one
    status = str(one.get("status", ""))
    said = next(
        (str(one[key]) for key in ("content", "step", "title", "text", "task", "description") if one.get(key)), ""
    )
    return f"[{'x' if status in ('completed', 'done') else '~' if 'progress' in status else ' '}] {said}"


def _one_line(said: str) -> str:
    return " ".join(said.split())


def _clipped(said: str, most: int) -> str:
    return said if len(said) <= most else said[: most - 1].rsplit(" ", 1)[0].rstrip() + "…"
