"""Old texts of a view, compressed as documents. Tables are quoted from the design, in Japanese and in English."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.documents.sections import CompressionLevel, compress_document
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.strategies.toolbox import SectionFolds
from orihon.values.message.message import Message, Part
from orihon.values.records import Fold, Pin
from tests.pages import PICTURE, checked, message, pages_of, tokens_of, turned, views_with_aims

LIGHT, STANDARD, AGGRESSIVE = CompressionLevel
WORDS = "それはそれは長い説明がどこまでも続いていく。" * 12
WORDS_EN = "A long explanation goes on and on, and nobody reads it. " * 12
DOCUMENT = f"## Research\n\n{WORDS_EN}\n\n### Conclusion\nWe decided to use SQLite.\n\n## Errors\n\nE42: disk full\n"
EVERYTHING = Aim(0, keep_recent=0)


#: The line that says where all of it is.
MARK = re.compile(r"\n\[… shortened; all of it: message (\d+)\]\Z")


def shortened(text: str, level: CompressionLevel = STANDARD, role: str = "assistant") -> str:
    """What stands for a text in the view; the text itself where nothing does."""
    pages = pages_of([message(role, text, answers="a" if role == "tool" else None)])
    return MARK.sub("\n", text_after(pages, SectionFolds(level)))


def text_after(pages: Pages, sections: SectionFolds, aim: Aim = EVERYTHING) -> str:
    return turned(pages, checked(sections, pages, aim)).messages[0].text


# 圧縮対象（削除または要約）: what it is, what is done with it, a text, what stays, what goes.
@pytest.mark.parametrize(
    ("what", "how", "before", "kept", "gone"),
    [
        (
            "探索過程の詳細ログ",
            "結論のみ保持",
            f"## 調査ログ\n\n{WORDS}\n\n### 結論\nXで十分だ。\n",
            "Xで十分",
            "長い説明",
        ),
        (
            "却下された選択肢の詳細",
            "理由のみ保持",
            f"## 候補の比較\n\n{WORDS}Aは遅いため却下した。\n",
            "A（遅い）",
            "長い",
        ),
        (
            *("試行錯誤の履歴", "最終的なアプローチのみ保持"),
            f"## 試行\n\n### 試行1\nだめだった。\n\n### 試行2\n{WORDS}\n\n### 試行3\nYで成功した。\n",
            *("3 回の試行 → Yで成功", "だめだった"),
        ),
        (
            "冗長な説明",
            "箇条書きに変換",
            f"最初の文だ。{WORDS}必須の手順だ。\n",
            "- 最初の文だ。\n- 必須の手順だ。",
            "長い",
        ),
        (
            "exploration",
            "conclusion",
            f"## Research\n\n{WORDS_EN}\n\n### Conclusion\nX is enough.\n",
            "X is enough",
            "long",
        ),
        (
            "rejected",
            "reason",
            f"## Options\n\n{WORDS_EN}A was rejected because it is slow.\n",
            "A (it is slow)",
            "long",
        ),
        (
            *("trial and error", "final approach"),
            f"## Trials\n\n### Attempt 1\nNo.\n\n### Attempt 2\n{WORDS_EN}\n\n### Attempt 3\nWith Y it worked.\n",
            *("3 attempts → With Y it worked", "No."),
        ),
        (
            "verbose",
            "bullets",
            f"The first. {WORDS_EN}You must log out.\n",
            "- The first.\n- You must log out.",
            "long",
        ),
    ],
)
def test_what_is_compressed(what: str, how: str, before: str, kept: str, gone: str) -> None:
    after = shortened(before)
    assert kept in after, f"{what}: {how}"
    assert gone not in after


def test_of_intermediate_results_the_final_version_stays() -> None:
    """中間生成物 | 最終版のみ保持: code in between is cut in the middle, what was decided about it is not."""
    code = "```py\n" + "x = 1\n" * 60 + "```\n"
    after = shortened(f"## Draft\n\n{code}\n## 最終決定\n\nversion 3 of x\n")
    assert after.count("x = 1") < 12
    assert after.endswith("## 最終決定\n\nversion 3 of x\n")


# 保持対象（圧縮しない）: 最終決定事項, 重要な制約, 依存関係, Human承認内容, エラー情報.
@pytest.mark.parametrize(
    "title",
    [
        *("最終決定事項", "重要な制約", "依存関係", "Human承認内容", "エラー情報"),
        *("Final decisions", "Important constraints", "Dependencies", "Human approval", "Errors"),
    ],
)
@pytest.mark.parametrize("level", [STANDARD, AGGRESSIVE])
def test_what_is_kept(title: str, level: CompressionLevel) -> None:
    section = f"## {title}\n\n\n\n{WORDS}\n\n- a\n  - b\n\n### more\n\n{WORDS_EN}\n"
    after = shortened(f"## Notes\n\n{WORDS_EN * 9}\n\n{section}", level)
    assert section in after
    assert after.count("goes on and on") < 20


@pytest.mark.parametrize(
    ("level", "before", "after"),
    [
        # Level 1: 重複する説明を削除, 空行を削減, 長い引用を短縮
        (LIGHT, f"{WORDS}\n\n{WORDS}\n", f"{WORDS}\n\n"),
        (LIGHT, "one" + "\n" * 200 + "two\n", "one\n\ntwo\n"),
        (
            LIGHT,
            "> quoted words that go on\n" * 20,
            "> quoted words that go on\n" * 4 + "> […]\n> quoted words that go on\n",
        ),
        # Level 3: 決定事項のみ保持, 理由は1行に圧縮, コード例は省略
        (
            AGGRESSIVE,
            f"We decided to use SQLite because it is small. {WORDS_EN}\n\n```py\n{'x = 1' * 50}\n```\n",
            "- **Decision**: SQLite\n- **Reasons**: it is small\n",
        ),
    ],
)
def test_levels(level: CompressionLevel, before: str, after: str) -> None:
    assert shortened(before, level) == after


@pytest.mark.parametrize("level", CompressionLevel)
def test_a_text_that_gets_less_than_a_tenth_shorter_stays(level: CompressionLevel) -> None:
    kept = "## Decisions\n\n" + "We keep it. " * 200
    assert shortened(f"{kept}\n\n\n\nx\n", level) == f"{kept}\n\n\n\nx\n"


def test_results_of_tools_only_when_they_are_markdown() -> None:
    assert shortened(DOCUMENT, role="tool") == compress_document(DOCUMENT, STANDARD).text
    assert "long" not in shortened(f"# Title\n\nFirst. {WORDS_EN}\n", role="tool")
    for output in (f"# a comment\nimport os\n{WORDS_EN}\n", WORDS_EN, f"#!/bin/sh\n# {WORDS_EN}\n"):
        assert shortened(output, role="tool") == output


@pytest.mark.parametrize("role", ["system", "developer"])
def test_words_of_the_system_stay(role: str) -> None:
    pages = pages_of([message("user", "hello"), message(role, DOCUMENT)])
    assert SectionFolds().plan(pages, EVERYTHING) == NothingToFold("sections", WhyNot.NOTHING_OLD)


@pytest.mark.parametrize("level", CompressionLevel)
def test_words_of_users_stay_and_what_they_pasted_does_not(level: CompressionLevel) -> None:
    texts = (DOCUMENT * 2, DOCUMENT * 20, DOCUMENT * 20)
    pages = pages_of([message("user", text) for text in texts])
    assert [fold.start_seq for fold in checked(SectionFolds(level), pages, EVERYTHING)] == [2], "3 was said last"


def test_of_a_message_with_tool_calls_only_the_text_gets_shorter() -> None:
    calling = message("assistant", DOCUMENT, calls=["a"])
    pages = pages_of([calling, message("tool", "ok", answers="a")])
    after = turned(pages, checked(SectionFolds(), pages, EVERYTHING)).messages[0]
    assert MARK.search(after.text)
    assert replace(after, content=MARK.sub("\n", after.text)) == replace(
        calling, content=compress_document(DOCUMENT, STANDARD).text
    )


def test_messages_with_pictures_stay() -> None:
    text = Part.of({"type": "text", "text": DOCUMENT})
    pages = pages_of([Message("assistant", parts=(text, PICTURE)), Message("assistant", parts=(text,))])
    assert [fold.start_seq for fold in checked(SectionFolds(), pages, EVERYTHING)] == [2]


def test_pinned_lines_stay_word_for_word_or_nothing_changes() -> None:
    pages = pages_of([message("assistant", DOCUMENT)], [Pin(1, "E42: disk full")])
    assert "long" not in text_after(pages, SectionFolds())
    pages = pages_of([message("assistant", DOCUMENT)], [Pin(1, "nobody reads it")])
    assert SectionFolds().plan(pages, EVERYTHING) == NothingToFold("sections", WhyNot.NO_GAIN)


def test_own_patterns_protect_own_headings() -> None:
    pages = pages_of([message("assistant", f"## Research\n\n{WORDS_EN}\n\n## Poems\n\n{WORDS_EN}\n")])
    assert text_after(pages, SectionFolds()).count("goes on and on") < 3
    assert f"## Poems\n\n{WORDS_EN}" in text_after(pages, SectionFolds(preserved_patterns=("## Poems",)))


def test_the_oldest_first_until_the_goal_is_reached() -> None:
    pages = pages_of([message("assistant", f"{number}\n\n{DOCUMENT}") for number in range(5)])
    saved = tokens_of(pages, 0) - pages.preview_tokens(0, text_after(pages, SectionFolds()))

    def seqs(aim: Aim) -> list[int]:
        return [fold.start_seq for fold in checked(SectionFolds(), pages, aim)]

    assert seqs(Aim(pages.tokens - saved - 1, 0)) == [1, 2]
    assert seqs(Aim(pages.tokens - saved, 0)) == [1]
    assert seqs(Aim(pages.tokens, 0)) == []
    assert seqs(Aim(0, 3)) == [1, 2]
    assert seqs(Aim(0, 0, hands_off=((1, 3),))) == [4, 5]


@pytest.mark.parametrize(
    ("reason", "level", "again"),
    [
        ("sections:light", LIGHT, False),
        ("sections:light", STANDARD, True),
        ("sections:standard", STANDARD, False),
        ("sections:standard", LIGHT, False),
        ("sections:standard", AGGRESSIVE, True),
        ("sections:aggressive", STANDARD, False),
        ("offload", AGGRESSIVE, False),
        ("", AGGRESSIVE, False),
    ],
)
def test_previews_are_compressed_again_only_at_a_stronger_level(
    reason: str, level: CompressionLevel, again: bool
) -> None:
    made = Fold(1, 1, 1, DOCUMENT + "\n\n\n\n" * 200, 0, 0, "preview", reason=reason)
    pages = turned(pages_of([message("assistant", DOCUMENT * 3)]), [made])
    plan = SectionFolds(level).plan(pages, EVERYTHING)
    assert isinstance(plan, FoldPlan) == again
    if isinstance(plan, FoldPlan):
        assert plan.folds[0].reason == f"sections:{level.name.lower()}"


def test_level_after_level_is_as_good_as_the_last_at_once() -> None:
    pages = pages_of([message("assistant", f"{DOCUMENT}\n\n\n\n\n\n{DOCUMENT}" + "\n" * 99)])
    step_by_step = pages
    for level in CompressionLevel:
        folds = checked(SectionFolds(level), step_by_step, EVERYTHING)
        step_by_step = turned(step_by_step, folds)
    assert step_by_step.messages[0].text == text_after(pages, SectionFolds(AGGRESSIVE))


@settings(deadline=None)
@given(views_with_aims(), st.sampled_from(CompressionLevel))
def test_any_view(case: tuple[Pages, Aim], level: CompressionLevel) -> None:
    pages, aim = case
    sections = SectionFolds(level)
    folds = checked(sections, pages, aim)
    after = turned(pages, folds)
    for fold in folds:
        place = pages.view.index_of(fold.start_seq)
        before, now = pages.messages[place], after.messages[place]
        assert (fold.form, fold.reason) == ("preview", f"sections:{level.name.lower()}")
        assert pages.count(fold.text) <= 0.9 * pages.count(before.text)
        assert now == replace(before, content=fold.text, parts=None)
        whole = compress_document(before.text, level)
        if level is LIGHT:
            assert fold.text == whole.text
        else:
            assert (marked := MARK.search(fold.text)) is not None
            assert int(marked[1]) == fold.start_seq
            assert MARK.sub("", fold.text) == whole.text.rstrip("\n")
    if after.tokens > aim.goal:
        assert not checked(sections, after, aim)
    elif folds:
        assert pages.tokens_after(folds[:-1]) > aim.goal


def test_who_has_the_tool_is_told_its_name() -> None:
    pages = replace(pages_of([message("assistant", DOCUMENT)]), has_recall=True)
    assert text_after(pages, SectionFolds()).endswith("all of it: context_read 1]")
