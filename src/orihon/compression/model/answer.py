"""What a model wrote, judged: either a text that can stand for the messages, or the reason why not.

Takes off what is not the summary (reasoning, a code fence around everything, repetition), brings headings and labels
into the form of ``notes``, so that a later fold can merge it line by line, and strikes sentences that have no ground in
the source. Refuses what would do harm in a view: nothing, error texts, refusals, torn JSON, texts that have nothing to
do with their input, that are mostly made up, or too long. Adds no word.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from functools import cache

from orihon.compression.model.call import Failed, SummaryFailure, SummaryReply, error_text
from orihon.compression.model.grounding import Ground
from orihon.compression.notes.layout import HEADINGS
from orihon.system.patterns import lazy_re
from orihon.texts import LANGUAGES, text
from orihon.values.message.wire import clean
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import TokenCounter

logger = logging.getLogger("orihon.compression")

_MOST_OVER = 1.25  # of the limit; a longer answer is not worth mending
_LEAST_KEPT = 0.5  # of the limit, that mending must leave
_MOST_STRUCK = 0.4  # of the characters; of an answer that makes up more, nothing can be trusted
_LONG_LINE = 20  # characters; shorter ones, as in code, may well come again
_LONGEST_DETAIL = 200

_REASONING = lazy_re(r"\s*<(think|thinking|reasoning|thought)>.*?(?:</\1>|\Z)", re.S | re.I)
# Some servers swallow the opening tag. A tag inside a line may be what the summary is about.
_REASONING_END = lazy_re(r"\A(?!.*<think).*?(?:^[ \t]*</think>[ \t]*$|</think>[ \t]*\n[ \t]*\n)", re.S | re.M | re.I)
_FENCE = lazy_re(r"^(?:```+|~~~+)[ \t]*([\w-]*)[ \t]*$", re.M)
_PROSE = ("", "markdown", "md", "text", "txt", "plaintext", "json")

_HTML = lazy_re(r"<(?:!doctype\s+html|html|head|body|\?xml)\b", re.I)
_ERROR = lazy_re(
    r"""\W*(?:
      (?:an?\ |the\ )?(?:\w+\ )?(?:error|exception)\ *(?:[:：(\[]|-\ |code\b|occurred|has\ occurred|while\b)
    | [\w.]*(?:Error|Exception)\s*[:(] | traceback\ \(most | fatal: | failed\ to\ (?:generate|connect|fetch|load)
    | (?:https?(?:/[\d.]+)?\ *)?(?:status\ *)?(?:code\ *)?:?\ *[45]\d\d\b\W*(?:
          (?:client|server|internal\ server)\ error|error|too\ many|bad\ |service\ |gateway|unauthori|forbidden
        | not\ found|payment|request\ time|conflict|unprocess|method\ not|\Z)
    | too\ many\ requests | rate.?limit(?:ed|\ (?:reached|exceeded)|\W*\Z)
    | service\ (?:is\ )?(?:temporarily\ )?unavailable | bad\ gateway
    | gateway\ time-?\ ?out | internal\ server\ error | bad\ request | unauthorized | forbidden\W*\Z
    | (?:the\ )?(?:server|model|engine|service)(?:\ \S+)?\ (?:is\ |does\ |was\ |had\ )(?:currently\ |temporarily\ )?
      (?:overloaded|unavailable|not\ found|not\ exist|loading|an\ error|at\ capacity)
    | (?:quota|you\ (?:have\ )?)\ ?exceeded | (?:invalid|incorrect|missing)\ (?:api\ key|request|model)
    | access\ denied | (?:connection|network|request|read|operation)\ (?:error|refused|reset|timed\ out|timeout|failed)
    | request\ entity\ too\ large | no\ healthy\ upstream | upstream\ (?:connect|request)
    | \S{0,10}エラー\s*(?:が発生|[:：]|コード|\d) | リクエスト(?:が多すぎ|に失敗|がタイムアウト) | サーバーが(?:混|応答)
    | (?:内部|服务器)?错误\s*[:：] | 请求(?:过多|失败|超时)
    )""",
    re.X | re.I,
)
_REFUSAL = lazy_re(
    r"""\W*(?:
      (?:I['’]m|I\ am)\ (?:so\ |very\ |really\ |truly\ )?(?:sorry|afraid|unable|not\ able) | sorry\b
    | (?:my\ )?apologies | I\ apologi[sz]e | unfortunately,?\ I\b
    | I\ (?:can(?:no|['’])?t|won['’]?t|will\ not|do(?:n['’]t|\ not)\ (?:have|see|feel))\b
    | as\ an?\ (?:AI|large\ language|language)\b
    | 申し訳 | すみません | すいません | ごめんなさい | 恐れ入り | 残念ながら
    | \S{0,20}(?:お手伝い|お答え|お応え|要約)(?:する)?(?:こと)?[はが]?(?:でき(?:ません|ない|かね)|(?:致し|いたし)かね)
    | (?:很|非常)?抱歉 | 对不起 | 我(?:无法|不能)
    )""",
    re.X | re.I,
)
_ERROR_FIELDS = frozenset({"detail", "message", "code", "status", "statuscode", "status_code", "request_id", "type"})

_LABEL = lazy_re(r"(?:[-*•]\s+)?\[(\d+) ([^\s\]:]+)(?: ([^\s\]:]+))?\]\s*[:：]?\s*")
_BULLET_NUMBER = lazy_re(r"[-*•]\s+(?=\d+ [^\s:]+: )")
_HEADING_WITH_TEXT = lazy_re(r"#{1,6}\s*([^:：]+?)\s*[:：]\s*(\S.*)")
_RULES = lazy_re(r"\A(?:(?:={3,}(?:.*={3,})?|-{3,})[ \t]*\n\s*)+")  # as the request has them around its parts
_LIST_NUMBER = lazy_re(r"\d{1,2}[.)]\s+")


def judge(
    reply: SummaryReply, *, ground: Ground, instructions: str, input_tokens: int, max_tokens: int, count: TokenCounter
) -> str | Failed:
    """The summary in a reply, or why there is none."""
    said = _without_fence(_without_reasoning(clean(reply.text).strip()))
    if not said:
        return Failed(SummaryFailure.EMPTY)
    if (failed := _bad_text(said)) is not None:
        return failed
    written = normalised(said)
    if reply.is_cut_off:  # its last line may say half of what it should
        written = _without_last_line(written)
    bounded = _bounded(_without_repetition(written), input_tokens, max_tokens, count)
    if isinstance(bounded, Failed):
        return bounded
    if not ground.is_related(bounded, instructions):
        return Failed(SummaryFailure.UNRELATED, said[:_LONGEST_DETAIL])
    checked = ground.checked(bounded)
    if checked.struck > _MOST_STRUCK:
        return Failed(SummaryFailure.INVENTED, ", ".join(checked.invented)[:_LONGEST_DETAIL])
    if checked.struck:
        logger.info("struck from a model's summary, because nobody has said so: %.0f %%", 100 * checked.struck)
    return checked.text


def normalised(said: str) -> str:
    """The same text with headings and labels as ``notes`` writes them."""
    said = _RULES.sub("", said.removeprefix(SUMMARY_PREFIX.strip()).lstrip())
    return "\n".join(line for raw in said.splitlines() for line in _normal_lines(raw)).strip()


def _bad_text(said: str) -> Failed | None:
    """An error or a refusal in place of a summary. A text under our headings is neither."""
    if _HTML.match(said) or _is_json_error(said):
        return error_text(said)
    if _is_torn_json(said):
        return Failed(SummaryFailure.NOT_TEXT, said[:_LONGEST_DETAIL])
    if any(_heading(line) for line in said.splitlines()):
        return None
    first, _, _ = said.partition("\n")
    if _ERROR.match(first.strip()):
        return error_text(said)
    return Failed(SummaryFailure.REFUSED, said[:_LONGEST_DETAIL]) if _REFUSAL.match(first.strip()) else None


def _is_torn_json(said: str) -> bool:
    """JSON that breaks off, with or without a fence that was to hold it."""
    bare = _FENCE.sub("", said).strip()
    if not re.match(r'[{\[]\s*["{\[]', bare):
        return False
    try:
        json.loads(bare)
    except (ValueError, RecursionError):
        return not bare.endswith(("}", "]"))
    return False


def _is_json_error(said: str) -> bool:
    if not said.startswith("{"):
        return False
    try:
        data = json.loads(said)
    except (ValueError, RecursionError):
        return False
    if data.get("error") or data.get("errors") or "error" in (data.get("type"), data.get("object")):
        return True
    return {key.lower() for key in data} <= _ERROR_FIELDS


def _bounded(written: str, input_tokens: int, max_tokens: int, count: TokenCounter) -> str | Failed:
    tokens = count(SUMMARY_PREFIX + written)
    if not written:
        return Failed(SummaryFailure.TOO_LONG, "cut off within its first line")
    if (bare := count(written)) > input_tokens:  # the mark in front is ours, and of a short run it would be half
        return Failed(SummaryFailure.LONGER_THAN_INPUT, f"{bare} tokens for {input_tokens}")
    if tokens <= max_tokens:
        return written
    if tokens <= max_tokens * _MOST_OVER:
        kept = written
        while kept and count(SUMMARY_PREFIX + kept) > max_tokens:
            kept = _without_last_line(kept)
        if count(kept) >= max_tokens * _LEAST_KEPT:
            return kept
    return Failed(SummaryFailure.TOO_LONG, f"{tokens} tokens where {max_tokens} were allowed")


def _without_repetition(written: str) -> str:
    """Every longer line once: small models fall into a loop, and say the same until they are stopped."""
    seen: set[str] = set()
    kept: list[str] = []
    for line in written.split("\n"):
        if line not in seen:
            kept.append(line)
        if len(line) >= _LONG_LINE:
            seen.add(line)
    return "\n".join(kept)


def _without_last_line(written: str) -> str:
    lines = written.split("\n")[:-1]
    while lines and (not lines[-1].strip() or _heading(lines[-1])):
        lines.pop()
    return "\n".join(lines)


def _without_reasoning(said: str) -> str:
    while found := _REASONING.match(said):
        said = said[found.end() :]
    return _REASONING_END.sub("", said).strip()


def _without_fence(said: str) -> str:
    fences = list(_FENCE.finditer(said))
    if len(fences) < 2 or fences[0].start() != 0 or fences[-1].end() != len(said) or fences[0][1].lower() not in _PROSE:
        return said
    if len(fences) > 2 and not fences[1][1]:  # the first block ends before the text does
        return said
    return said[fences[0].end() : fences[-1].start()].strip()


def _normal_lines(raw: str) -> Iterator[str]:
    line = raw.rstrip()
    stripped = line.strip()
    if heading := _heading(stripped):
        yield heading
    elif (found := _HEADING_WITH_TEXT.fullmatch(stripped)) and found[1].casefold() in _heading_names():
        yield _heading_names()[found[1].casefold()]
        yield found[2]
    elif label := _LABEL.match(stripped):
        speaker = label[3] or label[2].lower()
        yield f"{label[1]} {speaker}: {stripped[label.end() :]}"
    else:
        yield stripped[bullet.end() :] if (bullet := _BULLET_NUMBER.match(stripped)) else line


def _heading(line: str) -> str:
    """The heading that a line is, as ``notes`` writes it; models write them in many ways."""
    line = line.strip()
    bare = _LIST_NUMBER.sub("", line.strip("#*_ \t"), count=1).strip("#*_:： \t")
    is_marked = line.startswith(("#", "*", "_")) or line.endswith((":", "：", "**")) or bool(_LIST_NUMBER.match(line))
    return _heading_names().get(bare.casefold(), "") if is_marked else ""


@cache
def _heading_names() -> dict[str, str]:
    names = [text(f"notes.{heading}", lang=lang) for heading in (*HEADINGS, "look_up") for lang in LANGUAGES]
    return {name.casefold(): f"## {name}" for name in names}
