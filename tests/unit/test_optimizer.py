"""Texts that cost less and mean the same."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from orihon.classic.documents import TokenOptimizer
from orihon.texts import set_language

PYTHON = '''#!/usr/bin/env python
# a remark
import os  # why


def f(a: int) -> str:
    """Docs # stay.

    and blank lines in them
    """
    text = "# not a comment"  # one

    # only remarks
    return text + f"{a}#"  # noqa: S101
'''


def fenced(code: str, language: str = "python") -> str:
    return f"before # stays\n\n```{language}\n{code}```\n\nafter\n"


def code_of(content: str) -> str:
    return content.split("```")[1].partition("\n")[2]


def test_python_loses_comments_and_blank_lines_and_keeps_strings() -> None:
    smaller = TokenOptimizer().compress_code_blocks(fenced(PYTHON))
    code = code_of(smaller)
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(PYTHON))
    assert "a remark" not in code
    assert "# why" not in code
    assert code.startswith("#!/usr/bin/env python\nimport os\ndef f")
    assert '    """Docs # stay.\n\n    and blank lines in them\n    """\n' in code
    assert '    text = "# not a comment"\n    return text + f"{a}#"  # noqa: S101\n' in code
    assert smaller.startswith("before # stays\n\n```python\n")
    assert smaller.endswith("```\n\nafter\n")


def test_python_that_cannot_be_read_stays() -> None:
    for broken in ("def f(:\n    # x\n", "if x:\n    # only this\n", "print 'x'  # two\n", "x = '''\n# no\n"):
        assert TokenOptimizer().compress_code_blocks(fenced(broken)) == fenced(broken)


def test_other_languages_lose_whole_lines_only_where_that_is_safe() -> None:
    optimizer = TokenOptimizer()
    shell = "#!/bin/sh\n# remark\n\nls # tail stays\n"
    assert optimizer.compress_code_blocks(fenced(shell, "bash")) == fenced("#!/bin/sh\nls # tail stays\n", "bash")
    go = "// remark\n//go:build linux\n\npackage a\n"
    assert optimizer.compress_code_blocks(fenced(go, "go")) == fenced("//go:build linux\npackage a\n", "go")
    sql = "-- remark\nSELECT 1;\n"
    assert optimizer.compress_code_blocks(fenced(sql, "sql")) == fenced("SELECT 1;\n", "sql")
    for code, language in [
        ("cat <<EOF\n# text\nEOF\n", "sh"),
        ("a: |\n  # text\n", "yaml"),
        ("x = `\n// text\n`\n", "js"),
        ("echo 'a\n# text\n'\n", "sh"),
        ("# heading?\n\ntext\n", ""),
        ("# heading\n\ntext\n", "markdown"),
    ]:
        assert optimizer.compress_code_blocks(fenced(code, language)) == fenced(code, language)


@given(st.text(alphabet="#'\"\n \\ax=():`~", max_size=60))
def test_python_always_means_the_same(code: str) -> None:
    content = f"`````py\n{code}\n`````\n"
    smaller = TokenOptimizer().compress_code_blocks(content)
    assert len(smaller) <= len(content)
    try:
        meant = ast.dump(ast.parse(code + "\n"))
    except (SyntaxError, ValueError):
        assert smaller == content or "`````" in code
    else:
        assert ast.dump(ast.parse(smaller.removeprefix("`````py\n").removesuffix("`````\n"))) == meant


def test_a_long_text_becomes_a_reference() -> None:
    optimizer = TokenOptimizer()
    assert optimizer.use_reference_instead_of_full_content("short", message_id=41) == "short"
    content = "head of the file\n" + "x" * 5000 + "\nits tail"
    reference = optimizer.use_reference_instead_of_full_content(content, message_id=42)
    assert len(reference) <= 1000
    assert reference.startswith("head of the file\n")
    assert reference.endswith("\nits tail")
    assert "see message #42" in reference
    assert str(len(content)) in reference
    assert optimizer.last_full_content_id == 42
    assert "message #42" in optimizer.use_reference_instead_of_full_content(content, 10)
    set_language("ja")
    try:
        assert "メッセージ #42 を参照" in optimizer.use_reference_instead_of_full_content(content)
    finally:
        set_language(None)
