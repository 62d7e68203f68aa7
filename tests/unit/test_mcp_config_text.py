"""A server more in a client's file: everything else stays as it is, or the file is left alone."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.mcp.config_text import CannotMerge, json_with, toml_with

ENTRY = {"command": "/opt/orihon", "args": ["--base-dir", '/a "b" \\ 漢字', "mcp"]}
COMMENTED = """\
// mine
{
    /* servers { "servers": 1 } */
    "servers": {
        "other": {"command": "x"}, // the first
        "last": {"args": ["//no comment", "/* nor this */"]} // the last
        // and nothing else
    },
    "inputs": [1, 2.5e3, -1, true, null,], // a comma too much
}
// the end
"""


def added(text: str, **more: Any) -> str:
    return json_with(text, "servers", "orihon", ENTRY, **more)


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        COMMENTED.replace("\n", "\r\n"),
        "\ufeff" + COMMENTED,
        "{}",
        '{"servers": {}}',
        '{"servers":{"a":{}}}',
        '{\n\t"servers": {\n\t\t"a": {}\n\t}\n}\n',
        '{"other": 1, // x\n}',
        '{"a": {"servers": 1}}',
        "",
        "\n",
        "// only this\n",
    ],
)
def test_every_line_of_a_file_stays(text: str) -> None:
    made = added(text)
    rest = iter(made.splitlines())
    for line in text.splitlines():
        bare = line.strip().rstrip("{},").rstrip().replace(",", "")
        assert not bare or any(bare in other.replace(",", "") for other in rest), line
    assert added(made) == made
    assert '"/a \\"b\\" \\\\ 漢字"' in made
    assert ("\r\n" in made) is ("\r\n" in text)


def test_the_whole_is_json_where_it_was() -> None:
    known = {"servers": {"a": {"command": "x"}}, "b": [1, {"c": None}]}
    for indent in (None, 2, 4):
        made = json.loads(added(json.dumps(known, indent=indent)))
        assert made == {**known, "servers": {**known["servers"], "orihon": ENTRY}}  # type: ignore[dict-item]


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=5)))
def test_whatever_stands_there(known: dict[str, Any]) -> None:
    known.pop("servers", None)
    text = json.dumps(known, ensure_ascii=False, indent=1)
    assert json.loads(added(text)) == {**known, "servers": {"orihon": ENTRY}}


@pytest.mark.parametrize(
    ("text", "reason", "place"),
    [
        ("[]", "shape", "servers"),
        ('{"servers": []}', "shape", "servers"),
        ('{"servers": {"a": 1, "a": 2}}', "twice", "1"),
        ('{\n"servers": {"a": }\n}', "syntax", "2"),
        ('{"servers": {}', "syntax", "1"),
        ('{"servers": {}} x', "syntax", "1"),
        ("{'servers': {}}", "syntax", "1"),
        ('{"a": 1 "b": 2}', "syntax", "1"),
        ('{"a": "open\n}', "syntax", "1"),
        ('{"a": NaN2}', "syntax", "1"),
        ("[" * 100_000, "syntax", "1"),
        ("{", "syntax", "1"),
        ('{"servers": {"orihon": {"command": "another"}}}', "other", "orihon"),
    ],
)
def test_what_cannot_be_merged_is_left_alone(text: str, reason: str, place: str) -> None:
    with pytest.raises(CannotMerge) as failure:
        added(text)
    assert (failure.value.reason, failure.value.place) == (reason, place)


def test_another_server_of_our_name_is_replaced_only_when_told() -> None:
    text = added(COMMENTED).replace("/opt/orihon", "/old")
    assert added(text, replace=True) == added(COMMENTED)


TOML = """\
# mine
model = "gpt-5" # yes

[mcp_servers.other]
command = "x" # the first

[profiles.fast]
model = "small"
"""


def in_toml(text: str, **more: Any) -> str:
    return toml_with(text, "mcp_servers", "orihon", ENTRY, **more)


@pytest.mark.parametrize("text", [TOML, TOML.replace("\n", "\r\n"), "", "# only this", "[mcp_servers]\n"])
def test_toml_gets_a_table_at_its_end(text: str) -> None:
    made = in_toml(text)
    assert made.startswith(text.rstrip())
    known = tomllib.loads(text)
    assert tomllib.loads(made) == {**known, "mcp_servers": {**known.get("mcp_servers", {}), "orihon": ENTRY}}
    assert in_toml(made) == made


def test_a_table_of_our_name_is_replaced_only_when_told() -> None:
    old = '[mcp_servers.orihon]\ncommand = "old"\n\n[mcp_servers."orihon".env]\nA = "1"\n\n'
    text = TOML.replace("[profiles", old + "[profiles")
    with pytest.raises(CannotMerge, match="other"):
        in_toml(text)
    made = in_toml(text, replace=True)
    assert made == in_toml(TOML)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mcp_servers = {}\n", "shape"),
        ("mcp_servers = 1\n", "shape"),
        ("a = \n", "syntax"),
        ("a = 1\na = 2\n", "syntax"),
        ('mcp_servers = {orihon = {command = "old"}}\n', "other"),
    ],
)
def test_toml_that_cannot_be_merged_is_left_alone(text: str, reason: str) -> None:
    with pytest.raises(CannotMerge) as failure:
        in_toml(text)
    assert failure.value.reason == reason


def test_a_table_in_a_text_is_no_table() -> None:
    text = 'note = """\n[mcp_servers.orihon]\n"""\n[mcp_servers.orihon]\ncommand = "old"\n'
    with pytest.raises(CannotMerge):  # what would be made is not what is meant
        in_toml(text, replace=True)
