"""How often a needed line of the task's own past is found by ONE search, with the tool that the agent has.

    ORIHON_BENCH_DATA=FOLDER python -m benchmarks.recall [--note 1000] [--only NAME] [--misses]

FOLDER has `bench/handoff.py` and `data`, as for `benchmarks.handoff`. For each thing that a successor has to know, the
words of its description (not the words that it is judged by) are one query to `context_recall`, in a task that holds
the transcript up to the cut; as *short* its first five words, for somebody who remembers less. It is found when one
message of the answer has it, by the measure's own rule. Printed are the shares with 1, 5 and 10 messages in the answer
and what the answer costs, for what `orihon squeeze` loses with a note of so many tokens, and for everything; the mean
over transcripts. Lists that were written in another language than their transcript stand by themselves: their words
cannot be found.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.retention import data_folder
from orihon import Base
from orihon.compression.squeeze import squeeze
from orihon.runtime.builtin_tools import Deadline
from orihon.runtime.context_tools import context_tools
from orihon.runtime.tool import Arguments
from orihon.values.tokens.tokens import tokenizer

#: How many messages the answer may have.
MOST = (1, 5, 10)
_SHORT = 5  # words
_HIT = re.compile(r"^(?=seq \d)", re.M)
_LIMIT = 50_000  # bytes of an answer
#: Words of a description that name nothing.
_EMPTY = re.compile(
    r"an?|the|and|or|of|to|in|on|at|by|for|from|with|without|as|is|are|was|were|be|been|has|have|had|its?|this|that|"
    r"these|those|which|who|whom|whose|what|when|where|not?|nor|only|also|then|than|so|such|there|here|he|she|they|his|"
    r"her|their|him|them|user|found|into|about|before|after|between|because|but|if|while|still|already|one",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\s\"'“”‘’(){}\[\]<>,;:!?]+")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Sought:
    """One item of one list: was it lost, and with how many messages in the answer is it found?"""

    transcript: str
    text: str
    is_short: bool
    is_lost: bool
    is_foreign: bool
    found: Mapping[int, bool]
    tokens: Mapping[int, int]


def query_of(description: str, most: int | None = None) -> str:
    """What somebody who misses this would search for: its (first) words without those that name nothing."""
    words = (word.strip(".…*`") for word in _WORD.findall(description))
    return " ".join([word for word in words if word and not _EMPTY.fullmatch(word)][:most])


def searched(measure: Any, folder: Path, note: int, only: str) -> Iterator[Sought]:
    """Every item of every list."""
    count = tokenizer("o200k_base")
    lists = sorted((folder / "data" / "handoff").glob("*.json"))
    for path in (path for path in lists if only in path.name):
        told, messages, wrong = measure.check(str(path), str(folder / "data"))
        head, tail = measure.newest(messages)
        budget = measure.size(head) + measure.size(tail) + note
        shown = measure.plain("\n".join(map(measure.text_of, squeeze(messages, budget).messages)))
        said = "".join(map(measure.text_of, messages))
        is_cjk = len(_CJK.findall(said)) > len(said) / 4
        with tempfile.TemporaryDirectory() as place, Base(place) as base, base.task("past") as task:
            for message in messages:
                task.append(message)
            recall = next(tool for tool in context_tools(task.context.message_store, _LIMIT) if tool.name == "recall")
            for item, is_short in product((item for item in told["items"] if item not in wrong), (False, True)):
                asked = query_of(item["text"], _SHORT if is_short else None)
                answers = {most: recall.run(_arguments(asked, most), Deadline.after(60)).text for most in MOST}
                yield Sought(
                    told["transcript"],
                    item["text"],
                    is_short,
                    not measure.kept(item, shown),
                    is_cjk and len(_CJK.findall(item["text"])) * 4 < len(item["text"]),
                    {
                        most: any(measure.kept(item, measure.plain(one)) for one in _HIT.split(answer))
                        for most, answer in answers.items()
                    },
                    {most: count(answer) for most, answer in answers.items()},
                )


def _arguments(query: str, most: int) -> Arguments:
    return Arguments({"query": query, "limit": most}, ["query", "limit"])


def _print_shares(name: str, items: Sequence[Sought]) -> None:
    by_transcript: dict[str, list[Sought]] = defaultdict(list)
    for item in items:
        by_transcript[item.transcript].append(item)
    if not items:
        return
    shares = [
        statistics.mean(statistics.mean(one.found[most] for one in group) for group in by_transcript.values())
        for most in MOST
    ]
    tokens = [statistics.mean(one.tokens[most] for one in items) for most in MOST]
    told = "  ".join(
        f"@{most} {share:.3f} ({size:,.0f} tokens)" for most, share, size in zip(MOST, shares, tokens, strict=True)
    )
    print(f"{name:<34} lists {len(by_transcript):>2}  items {len(items):>3}  {told}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--note", type=int, default=1000, help="tokens of the note that things are lost from")
    parser.add_argument("--only", default="", help="lists whose name has this in it")
    parser.add_argument("--aside", default="", help="names of lists that are printed by themselves, with commas")
    parser.add_argument("--misses", action="store_true", help="name what was not found")
    options = parser.parse_args()
    if (folder := data_folder()) is None:
        return
    sys.path.insert(0, str(folder / "bench"))
    items = list(searched(importlib.import_module("handoff"), folder, options.note, options.only))
    aside = [name for name in options.aside.split(",") if name]
    for is_aside, is_foreign, is_short in product((False, True), (False, True), (False, True)):
        mine = [
            one
            for one in items
            if (any(name in one.transcript for name in aside), one.is_foreign, one.is_short)
            == (is_aside, is_foreign, is_short)
        ]
        kinds = {"aside": is_aside, "other language": is_foreign, "short": is_short}
        name = ", ".join(kind for kind, is_so in kinds.items() if is_so)
        _print_shares(f"lost  {name}", [one for one in mine if one.is_lost])
        _print_shares(f"all   {name}", mine)
    if options.misses:
        for one in items:
            if not one.found[MOST[-1]] and not one.is_foreign:
                kind = " (short)" if one.is_short else ""
                print(f"  not found{kind}: {one.transcript[:40]}: {json.dumps(one.text, ensure_ascii=False)}")


if __name__ == "__main__":
    main()
