"""``orihon squeeze``: a filter that makes a transcript fit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import flag, option
from orihon.cli.output import print_json, shown
from orihon.cli.transfer import EXIT_FOUND, format_help, problem_line
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.compression.squeeze import Squeezed
    from orihon.importers.sessions import ReadSessions

_Messages = Sequence[Mapping[str, Any]]
#: Readers go by the ending where the content does not tell lines from a document: one of these fits what is piped.
_ENDINGS = (".jsonl", ".json", ".md", ".db")


def squeeze(
    file: Annotated[str, typer.Argument(metavar="FILE", help=text("cli.squeeze.file"), show_default=False)],
    tokens: Annotated[int, option("--tokens", min=1, metavar="N", help=text("cli.squeeze.tokens"))],
    strategy: Annotated[str | None, option("--strategy", help=text("cli.squeeze.strategy"))] = None,
    preset: Annotated[str | None, option("--preset", help=text("cli.squeeze.preset"))] = None,
    session: Annotated[str | None, option("--session", help=text("cli.squeeze.session"))] = None,
    form: Annotated[str | None, option("--format", help=format_help())] = None,
    as_json: Annotated[bool, flag("--json", help=text("cli.squeeze.json"))] = False,
) -> None:
    """Read, fold, print; exit with 1 when something of another agent's transcript could not be read."""
    from orihon.compression.plain_history import write_transcript

    messages, unread = _transcript(file, session, form)
    squeezed = _squeezed(messages, tokens, strategy, preset)
    if as_json:
        print_json(_report(messages, squeezed))
    else:
        sys.stdout.buffer.write(write_transcript(squeezed.messages))
        sys.stdout.buffer.flush()
    for line in unread:
        typer.echo(shown(line), err=True)
    if unread:
        raise typer.Exit(EXIT_FOUND)


def _transcript(file: str, session: str | None, form: str | None) -> tuple[_Messages, list[str]]:
    """The messages as they stand in a file of messages, else the conversation that an import would keep."""
    from orihon.compression.plain_history import has_blocks_of_calls, read_transcript
    from orihon.errors import InvalidInput

    data, refused = _read(file), None
    if session is None and form is None:
        try:
            messages = read_transcript(data)
            if not has_blocks_of_calls(messages):
                return messages, []
        except InvalidInput as error:
            refused = error
    found = _sessions(file, data, form)
    is_broken_line = found.format in (None, "openai-chat") and found.problems.count > 0
    if refused is not None and is_broken_line:
        raise refused
    chosen = found.chosen(session)
    return [message.request() for message in chosen.messages], [problem_line(one) for one in found.problems.named()]


def _sessions(file: str, data: bytes, form: str | None) -> ReadSessions:
    from tempfile import TemporaryDirectory

    from orihon.importers.sessions import read_sessions

    if file != "-":
        return read_sessions(Path(file), form)
    tried: list[ReadSessions] = []
    with TemporaryDirectory(prefix="orihon-") as folder:
        for ending in _ENDINGS:
            path = Path(folder, f"stdin{ending}")
            path.write_bytes(data)
            tried.append(read_sessions(path, form))
            if tried[-1].sessions and not tried[-1].problems.count:
                break
    return min(tried, key=lambda found: (not found.sessions, found.problems.count))


def _squeezed(messages: _Messages, tokens: int, strategy: str | None, preset: str | None) -> Squeezed:
    """By the way that was asked for; squeezing itself is what ``default`` does."""
    if strategy is None and preset in (None, "default"):
        from orihon.compression.squeeze import squeeze as fold

        return fold(messages, tokens)
    from orihon.compression.squeeze import squeeze_by
    from orihon.settings import load_settings

    # Nothing but the preset: a filter gives the same everywhere, whatever the folder's configuration says.
    settings = load_settings({}, flags={"compression.preset": preset}, environ={})
    return squeeze_by(messages, tokens, settings, strategy)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    from orihon.errors import InvalidInput

    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput("unreadable_transcript", path=file, detail=error.strerror or error) from error


def _report(messages: _Messages, squeezed: Squeezed) -> dict[str, Any]:
    """What happened, with messages numbered from 1 as in the notes."""
    from orihon.compression.squeeze import loss

    report = loss(messages, squeezed)
    return {
        "budget": squeezed.budget,
        "before_tokens": squeezed.before_tokens,
        "after_tokens": squeezed.after_tokens,
        "kept": [place + 1 for place in squeezed.kept],
        "shortened": [place + 1 for place in squeezed.shortened],
        "folded": [{"start_seq": run.start + 1, "end_seq": run.end} for run in squeezed.folded],
        "facts": report.as_dict(),
        "messages": list(squeezed.messages),
    }
