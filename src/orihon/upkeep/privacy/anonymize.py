"""``anonymize_task``: a task without the names, addresses and numbers of people, for good.

A recorded redaction, as ``orihon scan --fix`` makes one: records keep their numbers, times and digests, and say that
something was taken out of them. The user of the task becomes a placeholder, too.

What in a text tells who somebody is: names, addresses, telephone numbers, e-mail addresses.

Names are found where something says that they are names (``Author:``, "my name is", 様, さん, 氏名), or because they
were told: no list of all names exists, and a guess at every capitalised word would ruin code. The same text always
becomes the same placeholder, so that a conversation stays readable. Linear time on any text.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from orihon.audit import audited
from orihon.catalogue.metadata import key_in, read_metadata, write_metadata
from orihon.errors import TaskBusy, TaskNotFound
from orihon.guard import load_key
from orihon.guard.masking.known_values import PLACEHOLDER
from orihon.store.contract import STREAMS
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.upkeep.retention.vacuum import overwrite_deleted
from orihon.upkeep.scan import scan_tasks
from orihon.values.message.strings import map_content

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Anonymized(AsJson):
    """A task whose records tell nobody's name any more."""

    task: str
    records: int  # that were changed
    replaced: int  # different names, addresses and numbers, wherever they stood


class Anonymizer:
    """Replaces what tells who somebody is, and counts it."""

    purpose: ClassVar[str] = "people"

    def __init__(self, named: Named, names: Iterable[str]) -> None:
        self._named = named
        self._names = tuple(names)
        self.replaced: set[str] = set()

    def mask(self, text: str) -> str:
        return anonymize_personal_data(text, self._counted, self._names)

    def clean(self, value: Any) -> Any:
        return map_content(value, self.mask)

    def _counted(self, kind: str, found: str) -> str:
        self.replaced.add(found)
        return self._named(kind, found)


def placeholder_of(base: Path) -> Named:
    """Names a text as masking names a secret: by its kind and a keyed hash."""
    key = load_key(base)

    def named(kind: str, found: str) -> str:
        digest = hmac.digest(key, found.encode("utf-8", "surrogatepass"), "sha256").hex()
        return f"[{kind}]#{digest[:_DIGITS]}"

    return named


def anonymize_task(base: OpenBase, task: str, *, names: Iterable[str] = ()) -> Anonymized:
    """Replace names (those of the task's user and ``names`` among them), addresses and numbers in one task.

    A second run changes nothing. ``TaskBusy`` where somebody works on the task, ``TaskNotFound`` where it is packed.
    """
    named = placeholder_of(base.path)
    base.open_catalogue()
    row = base.row(task)
    user = "" if row is None or PLACEHOLDER.fullmatch(row.user or "") else row.user or ""
    cleaner = Anonymizer(named, (*names, *([user] if user else [])))
    with audited(base.path, base.settings, "anonymize", task, begun=True) as act:
        (done,) = scan_tasks(base, [task], fix=True, cleaner=cleaner, packed=False)
        if done.left_out == "archived":
            raise TaskNotFound("packed", uuid=task)
        if done.left_out is not None and row is not None:
            raise TaskBusy("view", uuid=task, owner=row.lease_owner, host=row.lease_host, pid=row.lease_pid)
        _settle_row(base, task, named("NAME", user) if user else None)
        overwrite_deleted(base)
        act.details["records"] = records = sum(hit.where in STREAMS for hit in done.hits)
    return Anonymized(task, records, len(cleaner.replaced))


def _settle_row(base: OpenBase, task: str, name: str | None) -> None:
    """The user is called ``name`` from now on; what the task's folder says of it is what the catalogue says."""
    catalogue = base.open_catalogue()
    if catalogue is None:
        return
    with base.own_if_registered(task) as owned:
        if name is not None:
            catalogue.tasks.rename_user(task, name)
        place, row = base.folders.find(task), catalogue.tasks.get(task)
        if place is not None:
            with closing(base.store(place, epoch=None if owned is None else owned.epoch)) as store:
                if key_in(read_metadata(store.records) or {}) != row.key:
                    write_metadata(store.records, row, base.settings)
    catalogue.statistics.merge_rollups()  # sums that are merged later would name the user until then


_NAME = r"[A-Z][A-Za-z'’.-]{1,30}(?:[ \t][A-Z][A-Za-z'’.-]{1,30}){0,3}"
_KANJI_NAME = r"[\u4e00-\u9fff々ヶ]{1,4}[ \u3000]?[\u4e00-\u9fff々\u3041-\u3096\u30a1-\u30fa]{1,4}"
_KANA_NAME = r"[\u30a1-\u30faー]{2,12}(?:[・ \u3000][\u30a1-\u30faー]{2,12})?"
_JAPANESE_NAME = rf"(?:{_KANJI_NAME}|{_KANA_NAME})"

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_HEX = r"[0-9A-Fa-f]{1,4}"

#: Kind and expression; the group ``it`` is what is replaced, the whole match where there is none.
_RULES: tuple[tuple[str, str], ...] = (
    (
        "EMAIL",
        r"(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9-])",
    ),
    (
        "NAME",
        rf"(?m)^[ \t]{{0,8}}(?:Author|Committer|From|Signed-off-by|Reviewed-by|Co-authored-by):[ \t]+(?P<it>{_NAME})",
    ),
    ("NAME", rf"\b(?:[Mm]y name is|I am called|[Nn]ame:|[Dd]ear|Mr\.?|Mrs\.?|Ms\.?|Dr\.?)[ \t]+(?P<it>{_NAME})"),
    ("NAME", rf"(?:氏名|お名前|名前|担当者?|署名)[ \t\u3000]*[:：は][ \t\u3000]*(?P<it>{_JAPANESE_NAME})"),
    ("NAME", rf"(?:私は|わたしは|こちらは)[ \t\u3000]*(?P<it>{_JAPANESE_NAME})(?=です|と申し|といい)"),
    ("NAME", rf"(?P<it>{_JAPANESE_NAME})(?=(?:様|さん|氏|先生|殿)(?![\u4e00-\u9fff]))"),
    ("PHONE", r"(?<![\w.+-])\+[0-9]{1,3}[ .-]?(?:\(?[0-9]{1,4}\)?[ .-]?){2,5}[0-9]{2,4}(?![\w-])"),
    ("PHONE", r"(?<![\w.-])0[0-9]{1,4}[-‐－ ][0-9]{1,4}[-‐－ ][0-9]{3,4}(?![\w-])"),
    ("PHONE", r"(?<![\w.-])(?:\([0-9]{3}\)[ ]?|[0-9]{3}[.-])[0-9]{3}[.-][0-9]{4}(?![\w-])"),
    ("SSN", r"(?<![\w-])(?!000|666)[0-8][0-9]{2}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w-])"),
    # Not the machine's own addresses, which are everybody's.
    ("IP", rf"(?<![\w.-])(?!127\.|0\.0\.0\.0|255\.){_OCTET}(?:\.{_OCTET}){{3}}(?![\w-]|\.[0-9])"),
    ("IP", rf"(?<![\w:.])(?:{_HEX}:){{7}}{_HEX}(?![\w:])"),
    ("IP", rf"(?<![\w:.])(?=[0-9A-Fa-f]{{3,4}}:)(?:{_HEX}:){{1,6}}(?::{_HEX}){{1,6}}(?![\w:])"),
    ("ADDRESS", r"〒?[0-9]{3}-[0-9]{4}[ \u3000]*[\u4e00-\u9fff]{2,4}[都道府県][^\s、。,]{2,40}"),
    (
        "ADDRESS",
        r"[\u4e00-\u9fff]{2,3}[都道府県][\u4e00-\u9fff]{1,8}[市区町村郡][^\s、。,「」()（）]{1,40}[0-9０-９]+(?:[-－丁目番地号の0-9０-９]{0,12})",
    ),
    ("ADDRESS", rf"\b[0-9]{{1,5}}[ ]{_NAME}[ ](?:St|Street|Ave|Avenue|Rd|Road|Blvd|Lane|Ln|Drive|Dr|Court|Ct)\b\.?"),
)
_COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in _RULES)
#: Shorter names stand in too many other words.
_SHORTEST_NAME = 2

Named = Callable[[str, str], str]


def anonymize_personal_data(content: str, named: Named, names: Iterable[str] = ()) -> str:
    """``content`` with ``named(kind, text)`` in the place of each text that tells who somebody is; and of ``names``."""
    spans = _found(content, names)
    if not spans:
        return content
    pieces: list[str] = []
    done = 0
    for start, end, kind in spans:
        pieces += (content[done:start], named(kind, content[start:end]))
        done = end
    return "".join((*pieces, content[done:]))


def _found(content: str, names: Iterable[str]) -> list[tuple[int, int, str]]:
    """Spans in order that do not overlap, outside of placeholders."""
    taken = [(match.start(), match.end(), "") for match in PLACEHOLDER.finditer(content)]
    found: list[tuple[int, int, str]] = []
    for kind, pattern in (*_told(names), *_COMPILED):
        for match in pattern.finditer(content):
            group = "it" if "it" in pattern.groupindex else 0
            found.append((match.start(group), match.end(group), kind))
    kept: list[tuple[int, int, str]] = []
    end = 0
    for span in sorted([*taken, *found], key=lambda one: (one[0], -one[1])):
        if span[0] >= end:
            end = span[1]
            kept += [span] if span[2] else []
    return kept


def _told(names: Iterable[str]) -> list[tuple[str, re.Pattern[str]]]:
    wanted = sorted({name.strip() for name in names if len(name.strip()) >= _SHORTEST_NAME}, key=len, reverse=True)
    if not wanted:
        return []
    # A name in Latin letters has to stand alone; one in others has no edges to go by.
    each = (
        rf"(?<![A-Za-z0-9_])(?i:{re.escape(name)})(?![A-Za-z0-9_])" if name.isascii() else re.escape(name)
        for name in wanted
    )
    return [("NAME", re.compile("|".join(each)))]
