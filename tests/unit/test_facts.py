"""Facts are found in English, Japanese, Chinese and code, word for word."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.compression.notes.facts import PIECE, FactKind, line_kinds, names_in


def found(text: str, kind: FactKind, role: str = "") -> list[str]:
    return [said for one, said in facts(text, role) if one is kind]


def facts(text: str, role: str = "") -> list[tuple[FactKind, str]]:
    lines = [line.strip() for line in text.splitlines()]
    names = (name for line in lines for piece in PIECE.findall(line) for name in names_in(piece))
    return [*((kind, line) for line in lines for kind in line_kinds(line, role)), *names]


@pytest.mark.parametrize(
    ("text", "kind", "names"),
    [
        ("See https://example.org/a?b=1 for it", FactKind.URL, ["https://example.org/a?b=1"]),
        ("open src/shop/cart.py, then ~/notes/today.md", FactKind.PATH, ["src/shop/cart.py", "~/notes/today.md"]),
        ("設定は/etc/shop/config.yamlにあります", FactKind.PATH, ["/etc/shop/config.yaml"]),
        ("配置在 conf/app.ini 里", FactKind.PATH, ["conf/app.ini"]),
        ("call add_item(cart) of ShopCart", FactKind.IDENTIFIER, ["add_item", "ShopCart"]),
        ("MAX_ITEMS と shop.cart.total を使う", FactKind.IDENTIFIER, ["MAX_ITEMS", "shop.cart.total"]),
        ("run it with --dry-run", FactKind.IDENTIFIER, ["--dry-run"]),
        ("commit 3f2a9bc1d of the branch", FactKind.HASH, ["3f2a9bc1d"]),
        ("費用は1,200円、期限は2031-04-05", FactKind.NUMBER, ["1,200", "2031-04-05"]),
    ],
)
def test_names_are_found_word_for_word(text: str, kind: FactKind, names: list[str]) -> None:
    assert found(text, kind) == names


@pytest.mark.parametrize(
    "line",
    ["ValueError: no price", "make: *** build failed", "接続エラーが発生しました", "文件找不到", "Permission denied"],
)
def test_lines_that_report_errors(line: str) -> None:
    assert found(f"all is well\n  {line}  \nbye", FactKind.ERROR, "tool") == [line]


@pytest.mark.parametrize(
    "line", ["You must never touch the prices.", "価格は必ず税込みにしてください。", "不要修改价格。"]
)
def test_a_users_constraints(line: str) -> None:
    assert found(line, FactKind.CONSTRAINT, "user") == [line]
    assert found(line, FactKind.CONSTRAINT, "tool") == []


@pytest.mark.parametrize("line", ["We decided on SQLite.", "SQLite を採用することにした。", "我们决定采用 SQLite。"])
def test_decisions(line: str) -> None:
    assert found(line, FactKind.DECISION, "assistant") == [line]
    assert found(line, FactKind.DECISION, "tool") == []


@given(st.text(max_size=400))
def test_every_fact_stands_in_its_text(text: str) -> None:
    assert all(said in text for _, said in facts(text))


def test_time_is_linear_in_hostile_text() -> None:
    started = time.process_time()
    for hostile in ("a." * 100_000, "a/" * 100_000, "_" * 200_000, "1," * 100_000, "aB" * 100_000, "a-" * 100_000):
        facts(hostile)
    assert time.process_time() - started < 5
