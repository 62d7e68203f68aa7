"""``orihon squeeze``: a filter that makes a transcript fit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import flag
from orihon.cli.output import print_json
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.compression.squeeze import Squeezed


def squeeze(
    file: Annotated[str, typer.Argument(metavar="FILE", help=text("cli.squeeze.file"), show_default=False)],
    tokens: Annotated[
        int, typer.Option("--tokens", min=1, metavar="N", help=text("cli.squeeze.tokens"), show_default=False)
    ],
    as_json: Annotated[bool, flag("--json", help=text("cli.squeeze.json"))] = False,
) -> None:
    """Read, fold, print."""
    from orihon.compression.squeeze import squeeze as fold
    from orihon.compression.transcript import read_transcript, write_transcript

    messages = read_transcript(_read(file))
    squeezed = fold(messages, tokens)
    if as_json:
        print_json(_report(squeezed))
    else:
        sys.stdout.buffer.write(write_transcript(squeezed.messages))
        sys.stdout.buffer.flush()


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    from orihon.errors import InvalidInput

    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput("unreadable_transcript", path=file, detail=error.strerror or error) from error


def _report(squeezed: Squeezed) -> dict[str, Any]:
    """What happened, with messages numbered from 1 as in the notes."""
    return {
        "budget": squeezed.budget,
        "before_tokens": squeezed.before_tokens,
        "after_tokens": squeezed.after_tokens,
        "kept": [place + 1 for place in squeezed.kept],
        "shortened": [place + 1 for place in squeezed.shortened],
        "folded": [{"start_seq": run.start + 1, "end_seq": run.end} for run in squeezed.folded],
        "messages": list(squeezed.messages),
    }
