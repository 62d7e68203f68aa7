# ruff: noqa: E501 - tables
"""Findings of the review on masking, each as it was shown, through the real sinks: what lies on the disk afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon import TaskContextManager, import_transcripts, list_grants, new_grant
from orihon.errors import InvalidInput
from orihon.guard import Redactor
from orihon.settings import load_settings
from orihon.store.factory import make_redactor
from orihon.values.message.message import Message, ToolCall
from orihon.values.message.strings import map_json_text
from orihon.values.task import TaskKey
from tests.helpers import refused
from tests.integration.test_secret_sinks import leaking

KEY = TaskKey("test", "a", "b", "issue", "1")
SETTINGS = load_settings({}, environ={})
GITHUB = "ghp_" + "a1B2" * 9
redactor = Redactor(bytes(range(32)))
Json = Any


def write(base: Path, *messages: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages in a task, and what the model sees of them."""
    with TaskContextManager(base, KEY, SETTINGS) as context:
        for message in messages:
            context.message_store.append(Message.from_chat(message))
        return context.message_store.get_messages_for_llm()


def call(arguments: Any) -> dict[str, Any]:
    function = {"name": "run", "arguments": arguments}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
    }


def test_a_token_of_ours_in_a_message_does_not_reach_the_disk(tmp_path: Path) -> None:
    """H1"""
    token = new_grant(tmp_path, SETTINGS, user="ann", role="admin").token
    base = tmp_path / "base"
    [said] = write(base, {"role": "user", "content": f"I ran the server with {token} and it works"})
    assert "[ORIHON_TOKEN]#" in said["content"]
    assert leaking(base, token) == []


def test_no_token_of_ours_is_left_by_chance(tmp_path: Path) -> None:
    """H1"""
    tokens = [new_grant(tmp_path, SETTINGS, user="ann", role="read").token for _ in range(100)]
    assert [token for token in tokens if token in redactor.mask(f"see {token} there")] == []


@pytest.mark.parametrize("length", [15, 74, 100, 300_000])
@pytest.mark.parametrize("letter", "Aax_-0")
def test_a_run_of_one_letter_is_no_token(letter: str, length: int) -> None:
    """L2"""
    run = letter * length
    for text in (run, f"padding {run} end", f"ghp_{run}", f"sk-{run}", f"AIza{run}"):
        assert redactor.mask(text) is text


@pytest.mark.parametrize(
    "reference",
    ["vault:secret/data/app#password", "vault:v1:8SDd3WHDOjf7mq69CyCqYjBXAiQQAVZRkFM13ok481zoCmHnSeDX9vyf7w==",
     "op://Private/db/password", "ssm:/prod/db/password1", "sops:db.yaml#pass1", "keyring:db/app1"],
)  # fmt: skip
def test_a_reference_to_a_secret_is_none(reference: str) -> None:
    """L3"""
    for text in (f"password: {reference}", f'{{"password": "{reference}"}}', f"DB_PASSWORD={reference}"):
        assert redactor.mask(text) is text


def test_a_grant_whose_user_is_a_secret_is_refused(tmp_path: Path) -> None:
    """L4"""
    with refused(InvalidInput, "secret_in_grant") as caught:
        new_grant(tmp_path, SETTINGS, user=f"bob {GITHUB}", role="read")
    assert GITHUB not in str(caught.value)
    assert list_grants(tmp_path, SETTINGS) == []
    assert leaking(tmp_path, GITHUB) == []


# Arguments, and what must not be found of them.
ARGUMENTS: dict[str, tuple[Json, str]] = {
    "number": ({"user": "bob", "password": 80312497, "retries": 3}, "80312497"),
    "string": ({"password": "hunter2x!", "n": [1, None, True]}, "hunter2x!"),
    "key over several strings": (
        {"lines": ["-----BEGIN PRIVATE " + "KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "-----END PRIVATE " + "KEY-----"]},
        "MIIEvQIBADANBgkqhkiG9w0B",
    ),
    "name and value": ({"env": [{"name": "DB_PASSWORD", "value": "Heron+Slate41"}]}, "Heron+Slate41"),
    "below secrets": ({"secrets": {"db": "Heron+Slate41", "mail": {"value": "x"}}}, "Heron+Slate41"),
    "pairs below secrets": ({"secrets": [{"name": "db", "value": "Heron+Slate41"}]}, "Heron+Slate41"),
    "escaped": ({"cmd": 'curl -H "Authorization: Bearer a1b2c3d4e5f6g7h8"\n'}, "a1b2c3d4e5f6g7h8"),
    "in a string of JSON": ({"body": json.dumps({"password": 80312497, "n": 1})}, "80312497"),
}


def shape(value: Json) -> Json:
    """What masking must keep: lists, fields and their order, strings; a number or a word may become a string."""
    if isinstance(value, dict):
        return [shape(entry) for entry in value.values()]
    if isinstance(value, list):
        return tuple(shape(item) for item in value)
    return str


@pytest.mark.parametrize(("arguments", "secret"), ARGUMENTS.values(), ids=ARGUMENTS)
@pytest.mark.parametrize("way", ["text", "indented", "object"])
def test_arguments_of_a_call_keep_their_shape(tmp_path: Path, arguments: Json, secret: str, way: str) -> None:
    """Masking: JSON stays JSON, with the same fields"""
    given = arguments if way == "object" else json.dumps(arguments, indent=2 if way == "indented" else None)
    base = tmp_path / "base"
    [said] = [one for one in write(base, call(given)) if "tool_calls" in one]
    kept = said["tool_calls"][0]["function"]["arguments"]
    kept = json.loads(kept) if isinstance(kept, str) else kept
    assert shape(kept) == shape(arguments)
    assert list(kept) == list(arguments)
    assert leaking(base, secret) == []
    if "n" in arguments:
        assert kept["n"] == arguments["n"]


@pytest.mark.parametrize(("result", "secret"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_the_json_that_a_tool_answers_keeps_its_shape(tmp_path: Path, result: Json, secret: str) -> None:
    """Masking: JSON in messages, in records of tools, and on lines"""
    base = tmp_path / "base"
    texts = [json.dumps(result), json.dumps(result, indent=2), f"{json.dumps(result)}\n{json.dumps({'ok': 1})}\n"]
    said = write(base, call({}), {"role": "tool", "tool_call_id": "c1", "content": texts[0]},
                 *({"role": "user", "content": text} for text in texts[1:]))  # fmt: skip
    for text in (said[1]["content"], said[2]["content"], said[3]["content"].split("\n")[0]):
        assert shape(json.loads(text)) == shape(result)
    with TaskContextManager(base, TaskKey("test", "a", "b", "issue", "2"), SETTINGS) as context:
        context.tool_store.add_tool_call("run", result, {"answer": result})
        [record] = context.tool_store.get_tool_calls()
    assert shape(record["arguments"]) == shape(result)
    assert leaking(base, secret) == []


def test_a_number_in_json_inside_another_text_gets_quotes() -> None:
    masked = redactor.mask('It answered:\n```json\n{"password": 80312497, "n": 5}\n```\n')
    inside = json.loads(masked.split("```")[1].removeprefix("json"))
    assert inside["password"].startswith("[PASSWORD]#")
    assert inside["n"] == 5


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=12),
    st.sampled_from([GITHUB, "hunter2x!", "password=hunter2x", "-----BEGIN PRIVATE " + "KEY-----", "-----END PRIVATE " + "KEY-----",
                     "https://u:p4ss@host/", "the password is", "\\", 'a"b', "\npm_" + "a1" * 18, "MIIEvQIBADANBgkqhkiG", 80312497]),
)  # fmt: skip
names = st.one_of(
    st.sampled_from(["password", "api_key", "name", "value", "secrets", "token", "n", "PIN", "cookie"]),
    st.text(max_size=6),
)
documents = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=16,
)
greedy = Redactor(
    bytes(32), email=True, ssn=True, patterns={"ANY": r"[\":,\[{]{2}.", "WORD": "tru|ul|[0-9]{3}", "CUT": "n|u00"}
)


@given(documents, st.sampled_from([None, 1]), st.booleans())
def test_any_json_document_keeps_its_shape(document: Json, indent: int | None, ascii_only: bool) -> None:
    """Masking: whatever is found, also by patterns that go over quotes, halves of escapes and parts of numbers"""
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    for guard in (redactor, greedy):
        assert shape(json.loads(map_json_text(text, guard.mask))) == shape(document)
        if isinstance(document, dict | list):
            masked = guard.mask(text)
            assert shape(json.loads(masked)) == shape(document)
            assert GITHUB not in masked
    assert shape(redactor.clean(document)) == shape(document)


@given(documents)
def test_arguments_of_any_shape_keep_it(document: Json) -> None:
    before = ToolCall.from_chat({"function": {"name": "f", "arguments": json.dumps(document)}})
    assert shape(json.loads(before.map_strings(redactor.mask).arguments)) == shape(document)


@pytest.mark.parametrize("cut", [2, 4, 9, 20, 38])
def test_a_key_split_over_two_parts_does_not_reach_the_disk(tmp_path: Path, cut: int) -> None:
    """Masking: a secret over two parts of a message"""
    base = tmp_path / "base"
    texts = [f"see {GITHUB[:cut]}", f"{GITHUB[cut:]} there"]
    [said] = write(base, {"role": "user", "content": [{"type": "text", "text": text} for text in texts]})
    kept = [part["text"] for part in said["content"]]
    assert kept[0].startswith("see [GITHUB_TOKEN]#")
    assert kept[1] == " there"
    longer = max(GITHUB[:cut], GITHUB[cut:], key=len)  # two letters stand in any file by chance
    assert leaking(base, longer) == []


def test_a_name_and_its_value_in_two_parts(tmp_path: Path) -> None:
    """Masking: the same for a password"""
    base = tmp_path / "base"
    texts = ["Hello. The password is", "hunter2x! and that was it", "bye"]
    [said] = write(base, {"role": "user", "content": [{"type": "text", "text": text} for text in texts]})
    kept = [part["text"] for part in said["content"]]
    assert (kept[0], kept[2]) == (texts[0], "bye")
    assert kept[1].startswith("[PASSWORD]#")
    assert kept[1].endswith(" and that was it")
    assert leaking(base, "hunter2x!") == []


@pytest.mark.parametrize("cut", [4, 9, 20, 38])
@pytest.mark.parametrize("line", ["\n", "\r\n", "\\\n", "\n    "])
def test_a_key_split_over_two_lines_goes_whole(line: str, cut: int) -> None:
    """Masking: a secret over two lines"""
    masked = redactor.mask(f"see\n{GITHUB[:cut]}{line}{GITHUB[cut:]}\nthere")
    assert masked.startswith("see\n[GITHUB_TOKEN]#")
    assert masked.endswith("\nthere")
    assert GITHUB[-8:] not in masked


def test_two_keys_on_two_lines_stay_two() -> None:
    other = "ghp_" + "c3D4" * 9
    assert redactor.mask(f"{GITHUB}\n{other}\n") == f"{redactor.mask(GITHUB)}\n{redactor.mask(other)}\n"


@pytest.mark.parametrize(
    "letters", [{"p": "р"}, {"a": "а", "B": "В"}, {chr(code): chr(code + 0xFEE0) for code in range(0x21, 0x7F)}]
)
def test_letters_that_look_like_others_hide_nothing(tmp_path: Path, letters: dict[str, str]) -> None:
    """Masking: wide letters and those of other scripts"""
    hidden = "".join(letters.get(letter, letter) for letter in GITHUB)
    assert hidden != GITHUB
    base = tmp_path / "base"
    [said] = write(base, {"role": "user", "content": f"使って {hidden} です"})
    assert said["content"] == f"使って {redactor_of(base).mask(GITHUB)} です"
    assert leaking(base, hidden) == []


def redactor_of(base: Path) -> Redactor:
    return make_redactor(SETTINGS, base)


@pytest.mark.parametrize(
    "text",
    ["Пароль хранится в базе, key и token отдельно", "２０２４年度のＡＰＩ仕様書（第１版）", "α-β pruning, μs, Δt=5"],
)
def test_other_scripts_stay_as_they_are(text: str) -> None:
    assert redactor.mask(text) is text


def test_a_secret_in_an_imported_transcript_stays_outside(tmp_path: Path) -> None:
    """H1 and the others, through an import"""
    base, file = tmp_path / "base", tmp_path / "chat.jsonl"
    token = new_grant(tmp_path, SETTINGS, user="ann", role="read").token
    texts = [f"we use {token}", 'db_password: |\n  "Heron Slate 41!"\n', "user,password\nbob,Heron+Slate41\n"]
    messages = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": text} for number, text in enumerate(texts)
    ]
    file.write_text(json.dumps({"messages": messages}) + "\n", encoding="utf-8")
    import_transcripts(base, SETTINGS, [file])
    assert leaking(base, token) == leaking(base, "Heron+Slate41") == []
