"""What a sentence chooses or rejects, and why: only where that is its author's own, settled word.

Everything is quoted, nothing is worded anew. A choice counts when its verb has a form that settles, its subject is
nobody, the author or the author's own people, and nothing in the sentence makes it a condition, a question, a guess, a
plan, a report, or something that was changed since. What is not certain gets no label: ``mentions_choice`` tells that
the sentence has to stay as it is. The rules know English, Japanese and simplified Chinese. They look for the verb first
and then at a bounded stretch around it, so that time stays linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from orihon.compression.documents.statements import (
    EDGES,
    REMEMBERED,
    REMEMBERED_LENGTH,
    failed,
    hints,
    is_approval,
    is_open_work,
    is_rule,
    is_wide,
    labelled,
    rule,
    says_nothing,
    succeeded,
    trimmed,
    unquoted,
)
from orihon.system.patterns import lazy_re

_AROUND = 200  # characters beside a verb among which its object is looked for
_ADJECTIVES = ("selected", "adopted", "picked", "rejected", "discarded")
_HIRAGANA = lazy_re(r"[ぁ-ん]")


def mentions_choice(statement: str) -> bool:
    """Is the sentence about a choice, settled or not?"""
    return hints(statement, "choice") and rule("choice").search(statement) is not None


def retracts(statement: str) -> bool:
    """Does the sentence say of the one before it that nothing is decided?"""
    return len(statement) < 80 and rule("retraction").fullmatch(statement) is not None


def takes_back(statement: str) -> bool:
    """Does the sentence say that a choice that it names holds no more?"""
    return rule("taken_back").search(statement) is not None


def is_open_title(title: str) -> bool:
    """Is what stands below such a heading open, or somebody else's?"""
    return rule("open_title").search(title) is not None


def is_option_title(title: str) -> bool:
    """Does the heading name one option of several, so that what it "adopts" is only what that option would be?"""
    return rule("option_title").match(title) is not None


def is_non_past(statement: str) -> bool:
    return rule("non_past").search(statement) is not None


def decided(statement: str) -> list[str]:
    """What a sentence says was decided, most often nothing."""
    return _decided(statement) if len(statement) > REMEMBERED_LENGTH else list(_known_decided(statement))


@lru_cache(maxsize=REMEMBERED)
def _known_decided(statement: str) -> tuple[str, ...]:
    return tuple(_decided(statement))


def _decided(statement: str) -> list[str]:
    if (label := labelled(statement)) is not None:
        kind, value = label
        if kind != "conclusion":
            return [value] if kind == "decision" and value and not says_nothing(value) else []
        statement = value
    if not hints(statement, "choice"):
        return []
    bare = unquoted(statement)
    if _is_open(bare):
        return []
    found = (*_decided_ja(statement, bare), *_decided_en(statement, bare), *_decided_zh(statement, bare))
    return [value for what in found if (value := trimmed(what.strip(EDGES)))]


def _is_open(bare: str) -> bool:
    if rule("open").search(bare) or (rule("when_ja").search(bare) and not rule("past_ja").search(bare)):
        return True
    return any(is_option_title(part) or is_open_title(part) for part in re.split("[:：]", bare)[:-1])


def _decided_ja(statement: str, bare: str) -> Iterator[str]:
    for found in rule("decided_ja").finditer(bare):
        tail = bare[found.end() : found.end() + _AROUND]
        if rule("changed").search(tail) or (tail.startswith("が") and not rule("rejected_ja").search(tail)):
            continue
        if (found["chain"] or found["chained"]) and not rule("settled_end_ja").search(tail):
            continue
        start = max(0, found.start() - _AROUND)
        what = _object_ja(statement[start : found.start()], bare[start : found.start()], found)
        if what and not rule("rejected_ja").search(what + "。"):
            yield what


def _object_ja(before: str, bare: str, found: re.Match[str]) -> str:
    """What stands before a verb as its object; nothing where somebody else may be its subject."""
    clauses = [mark.end() for mark in (rule("clause_ja") if found["plan"] else rule("boundary_ja")).finditer(bare)]
    start = clauses[-1] if clauses else 0
    if rule("others_ja").search(bare) or rule("named_first_ja").search(_without_lead(bare[:start])):
        return ""
    what = _without_lead(before[start:])
    is_own = len(what) < len(before[start:].lstrip()) or rule("lead_ja").search(bare[:start]) is not None
    if (found["now"] and not is_own) or (found["passive"] and not rule("deliberate").search(bare)):
        return ""
    topic = rule("topic_ja").match(what)
    if topic is not None and topic["rest"] and not _is_topic_of_choice(topic["topic"].strip(), found):
        return ""
    if found["plan"]:
        return "" if rule("deferred_ja").search(what) else what
    is_shown = found["shown"] is not None and rule("technical_ja").search(what)
    return "" if is_shown or rule("vague_ja").fullmatch(what.strip(EDGES)) or rule("hired_ja").search(what) else what


def _is_topic_of_choice(topic: str, found: re.Match[str]) -> bool:
    """Is what stands before は what the choice is about, and not who chooses?"""
    if rule("thing_ja").search(topic) or topic.endswith(("に", "で")):
        return True
    return rule("name").fullmatch(topic) is None and any(found[kind] for kind in ("topical", "plan", "noun"))


def _without_lead(clause: str) -> str:
    """A clause without what says when and that it is the author who speaks."""
    clause = clause.lstrip()
    lead = rule("lead_ja").match(clause)
    return clause[lead.end() :] if lead else clause


def _decided_zh(statement: str, bare: str) -> Iterator[str]:
    found = rule("decided_zh").search(bare)
    if found is None or rule("open_in_chinese").search(bare):
        return
    is_certain = found["who"] or found["verb"].startswith("决定") or found["verb"].endswith("了")
    what = statement[found.start("what") : found.end("what")]
    if is_certain and not what.startswith(("不", "它", "这个", "再")):
        yield what


def _decided_en(statement: str, bare: str) -> Iterator[str]:
    for found in rule("decided_en").finditer(bare):
        what = _object_en(statement, found.end())
        if _is_own(bare, found, what) and not _is_changed(bare, found.end()) and not rule("vague_en").fullmatch(what):
            yield what
    for found in rule("impersonal_en").finditer(bare):
        what = _object_en(statement, found.end())
        if not _is_changed(bare, found.end()) and not rule("vague_en").fullmatch(what):
            yield what
    if (what := _passive(statement, bare, "was_chosen")) and not rule("vague_en").fullmatch(what):
        yield what


def _is_changed(bare: str, start: int) -> bool:
    return rule("changed").search(bare, start, start + _AROUND) is not None


def _is_own(bare: str, found: re.Match[str], what: str) -> bool:
    """Is the author the subject of the verb: named, left out at the beginning, or named for an earlier verb?"""
    verb = found["verb"].lower()
    who = (found["who"] or "").lower()
    if verb in ("selected", "picked") and (rule("technical_en").search(what) or who.startswith(("you", "the user"))):
        return False
    if who:
        return not (who.startswith("you") and "not" in verb)
    if verb == "chosen" or "not" in verb.split():
        return False
    if found.start() != 0 or rule("joined").match(found[0].strip()):
        return rule("begins_self").match(bare) is not None
    is_verb = rule("object_begins").match(what) is not None and not rule("finite").search(what)
    return is_verb or verb not in _ADJECTIVES  # "Selected files are deleted" selects nothing


def _object_en(statement: str, start: int) -> str:
    rest = statement[start : start + _AROUND]
    end = rule("object_end").search(rest)
    return (rest[: end.start()] if end else rest).strip()


def _passive(statement: str, bare: str, verb: str) -> str:
    """The subject of "… was chosen", where that is an option and nobody else's."""
    if (found := rule(verb).search(bare)) is None:
        return ""
    what = statement[found.start("what") : found.end("what")]
    if any(rule(name).search(what) for name in ("no_subject", "technical_en", "relative_en")):
        return ""
    if not rule("settled_tail").match(bare, found.end()) or _is_changed(bare, found.end()):
        return ""
    return what


def rejection(statement: str, option: str = "") -> str:
    """What a sentence rejects and why, as ``Godot (few resources)``; nothing where that is not certain.

    ``option`` is what the sentence is about when it does not say so itself.
    """
    if not hints(statement, "choice") or labelled(statement) is not None:
        return ""
    bare = unquoted(statement)
    if _is_open(bare):
        return ""
    in_japanese = _rejected_ja(statement, bare, option)
    return in_japanese or _rejected_en(statement, bare, option) or _rejected_zh(statement, bare)


def _rejected_ja(statement: str, bare: str, option: str) -> str:
    if (found := rule("rejected_ja").search(bare)) is None:
        return ""
    tail = bare[found.end() : found.end() + _AROUND]
    start = max(0, found.start() - _AROUND)
    if rule("others_ja").search(bare, start, found.start()) or rule("changed").search(tail) or tail.startswith("が"):
        return ""
    if found["chain"] and not rule("settled_end_ja").search(tail):
        return ""
    what, why, is_whole = _option_ja(statement[start : found.start()])
    is_farewell = found[0].startswith("見送") and (rule("person_ja").search(what) or "まで" in bare)
    if is_farewell or rule("technical_ja").search(what):
        return ""
    beside = rule("beside_ja").match(statement, found.end())
    what = trimmed(what.strip(EDGES))
    if rule("pronoun").match(what) or (is_whole and not what):
        what = option
    return with_reason(what, trimmed((beside["why"] if beside else why).strip(EDGES))) if what else ""


def _option_ja(before: str) -> tuple[str, str, bool]:
    """The option and the reason among the clauses before a verb that rejects, and whether there is nothing else."""
    what = why = ""
    is_whole = not re.search("[:：]", before)
    start, listed = 0, -1  # where the names of a list begin
    for mark in (*rule("part_end_ja").finditer(before), None):
        end = mark.start() if mark else len(before)
        clause = _without_lead(before[start:end])
        begins = end - len(clause)
        is_reason = mark is not None and mark[0] not in "、，"
        named = rule("named_ja").match(clause)
        if is_reason:
            what, why = (named["what"], named["rest"]) if named and named["of"] == "は" else (what, clause)
        elif named is not None and (named["of"] == "は" or rule("adverb_ja").fullmatch(named["rest"])):
            inner = rule("named_ja").fullmatch(named["rest"])
            if inner is not None and inner["of"] == "を" and not inner["rest"]:
                # Who rejects is named, too, and is not the author: that would have been taken away.
                return (inner["what"], why, True) if rule("thing_ja").search(named["what"]) else ("", "", False)
            what = before[begins if listed < 0 else listed : begins + named.end("what")]
        elif clause and not rule("adverbial_ja").search(clause):
            is_whole = False
        is_name = clause != "" and mark is not None and not is_reason and not _HIRAGANA.search(clause)
        listed = (begins if listed < 0 else listed) if is_name else -1
        start = mark.end() if mark else end
    return what, why, is_whole


def _rejected_en(statement: str, bare: str, option: str) -> str:
    if rule("bare_rejection").match(bare):
        return with_reason(option, reason(statement)) if option else ""
    what = _passive(statement, bare, "was_rejected")
    if what and rule("pronoun").match(what):
        what = option if bare.startswith(what) else ""
    if what:
        return with_reason(what, reason(statement) or _for_en(statement))
    for found in rule("rejected_en").finditer(bare):
        what = _object_en(statement, found.end())
        if _is_own(bare, found, what) and not _is_changed(bare, found.end()):
            what = option if rule("pronoun").match(what) else what
            return with_reason(re.split(r" for (?:its|the|their)\b", what)[0], reason(statement)) if what else ""
    return ""


def _for_en(statement: str) -> str:
    found = re.search(r"(?:rejected|ruled out|discarded|chosen|selected|adopted) for (.{2,160})", statement, re.I)
    return found[1].strip(EDGES) if found else ""


def _rejected_zh(statement: str, bare: str) -> str:
    found = rule("rejected_zh").search(bare)
    if found is None or rule("open_in_chinese").search(bare):
        return ""
    return with_reason(trimmed(statement[found.start("what") : found.end("what")]), reason(statement))


def with_reason(what: str, why: str) -> str:
    if not why:
        return what
    return f"{what}（{why}）" if is_wide(what + why) else f"{what} ({why})"


def reason(statement: str) -> str:
    """The reason that a sentence gives for what it says, or nothing."""
    if (found := rule("because_en").search(statement)) is not None and not rule("no_reason_en").search(statement):
        why = found["why"] or found["cause"]
        if found.start() == 0 and found["why"]:
            why = why.split(", ")[0]
        return trimmed(why.strip(EDGES))
    if (found := rule("for_reason_zh").search(statement)) is not None:
        return trimmed(found["why"] or found["cause"])
    return _reason_ja(statement) if is_wide(statement) else ""


def _reason_ja(statement: str) -> str:
    if rule("no_reason_ja").search(statement):
        return ""
    if (found := rule("reason_is_ja").search(statement)) is not None:
        return trimmed(found["why"].strip(EDGES))
    if (found := rule("for_reason_ja").search(statement)) is not None:
        clause = re.split(r"[、，。]", statement[max(0, found.start() - _AROUND) : found.start()])[-1]
        return trimmed(re.sub(r"^[^は]{1,20}は", "", clause).strip(EDGES))
    return ""


def announces_reasons(statement: str) -> bool:
    return rule("announced_reasons").search(statement) is not None


def announces_rejections(statement: str) -> bool:
    """Does the sentence introduce a list of options that were rejected?"""
    if not statement.endswith((":", "：")) or rule("names_rejection").search(statement) is None:
        return False
    return not _is_open(unquoted(statement))


def is_kept(statement: str) -> bool:
    """Has the sentence to stay, whatever goes: does it tell of a choice, a rule, an approval, an outcome, open work?"""
    return _is_kept(statement) if len(statement) > REMEMBERED_LENGTH else _known_kept(statement)


@lru_cache(maxsize=REMEMBERED)
def _known_kept(statement: str) -> bool:
    return _is_kept(statement)


def _is_kept(statement: str) -> bool:
    return (
        mentions_choice(statement)
        or is_rule(statement)
        or failed(statement)
        or succeeded(statement)
        or is_approval(statement)
        or is_open_work(statement)
        or retracts(statement)
    )


def is_key(statement: str) -> bool:
    """Is the sentence worth more than its neighbours?"""
    return is_kept(statement) or labelled(statement) is not None or bool(reason(statement))
