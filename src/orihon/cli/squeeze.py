"""``orihon squeeze``: a filter that makes a transcript fit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import flag, option
from orihon.cli.output import print_json
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.compression.squeeze import Squeezed


def squeeze(
    file: Annotated[str, typer.Argument(metavar="FILE", help=text("cli.squeeze.file"), show_default=False)],
    tokens: Annotated[int, option("--tokens", min=1, metavar="N", help=text("cli.squeeze.tokens"))],
    strategy: Annotated[str | None, option("--strategy", help=text("cli.squeeze.strategy"))] = None,
    preset: Annotated[str | None, option("--preset", help=text("cli.squeeze.preset"))] = None,
    as_json: Annotated[bool, flag("--json", help=text("cli.squeeze.json"))] = False,
) -> None:
    """Read, fold, print."""
    from orihon.compression.plain_history import read_transcript, write_transcript

    messages = read_transcript(_read(file))
    squeezed = _squeezed(messages, tokens, strategy, preset)
    if as_json:
        print_json(_report(messages, squeezed))
    else:
        sys.stdout.buffer.write(write_transcript(squeezed.messages))
        sys.stdout.buffer.flush()


def _squeezed(messages: Sequence[Mapping[str, Any]], tokens: int, strategy: str | None, preset: str | None) -> Squeezed:
    """By the way that was asked for; squeezing itself is what ``default`` does."""
    if strategy is None and preset in (None, "default"):
        from orihon.compression.squeeze import squeeze as fold

        return fold(messages, tokens)
    from orihon.compression.squeeze import squeeze_by
    from orihon.settings import load_settings

    # Nothing but the preset: a filter gives the same everywhere, whatever the folder's configuration says.
    settings = load_settings({}, flags={"compression.preset": preset}, environ={})
    return squeeze_by(messages, tokens, settings, strategy=strategy)


def _read(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    from orihon.errors import InvalidInput

    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidInput("unreadable_transcript", path=file, detail=error.strerror or error) from error


def _report(messages: Sequence[Mapping[str, Any]], squeezed: Squeezed) -> dict[str, Any]:
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
