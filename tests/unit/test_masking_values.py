"""Secrets that are known by value, hidden from the eye, encoded, or remembered for the model."""

from __future__ import annotations

import json
import time
from base64 import b64encode

import pytest

from orihon import register_secret
from orihon.errors import InvalidSettings
from orihon.guard import Redactor
from orihon.guard.masking.known_values import LIVE, LiveValues, register_environment
from orihon.guard.masking.patterns import WINDOW
from tests.fuzzing import no_hang

KEY = bytes(range(32))
TOKEN = "ghp_" + "a1B2" * 9
redactor = Redactor(KEY)


def test_a_registered_value_goes_wherever_it_stands() -> None:
    register_secret("correct horse battery")
    masked = redactor.mask("xcorrect horse batteryx")
    assert masked.startswith("x[SECRET]#")
    assert "horse" not in masked
    assert "horse" not in redactor.mask("?q=correct%20horse%20battery")
    assert "horse" not in redactor.mask(b64encode(b"it is correct horse battery").decode())


def test_a_registered_key_keeps_the_placeholder_of_its_form() -> None:
    token = "ghp_" + "z9Y8" * 9
    before = redactor.mask(token)
    register_secret(token)
    assert redactor.mask(token) == before
    assert before in redactor.mask(f"abc{token}")


@pytest.mark.parametrize("value", ["", "abc", "  abcde "])
def test_a_short_value_is_refused(value: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        register_secret(value)
    assert caught.value.reason == "short_secret"


def test_keys_of_the_environment_are_known_and_ordinary_words_are_not() -> None:
    register_environment(
        {"CANARY_API_KEY": "zq7Fh2Lk9Pw4", "DB_PASSWORD": "postgres", "PATH": "/usr/x9y8z7w6v5", "EMPTY_TOKEN": ""}
    )
    assert "zq7Fh2Lk9Pw4" not in redactor.mask("sent zq7Fh2Lk9Pw4 there")
    assert redactor.mask("we use postgres and /usr/x9y8z7w6v5") == "we use postgres and /usr/x9y8z7w6v5"


def test_many_values_are_found_as_few_are() -> None:
    values = LiveValues()
    many = [f"value-{number:05}-{number * 7919 % 99991:05}" for number in range(500)]
    values.add(many)
    for place in range(8):
        text = "." * place + many[17] + " 日本 " + many[499]
        assert {text[start:end] for start, end, _ in values.places(text, 0, len(text))} == {many[17], many[499]}
    assert values.places("nothing of it here, value-only", 0, 30) == []
    assert LIVE is not values


@pytest.mark.parametrize("before", range(8))
def test_of_many_values_the_shortest_are_found_at_every_place(before: int) -> None:
    values = LiveValues()
    values.add(f"{number:06}" for number in range(100, 140))
    text = "." * before + "000117" + "\ud800."
    assert values.places(text, 0, len(text)) == [(before, before + 6, "000117")]


@pytest.mark.parametrize("hidden", ["\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad"])
def test_invisible_characters_hide_nothing(hidden: str) -> None:
    split = hidden.join((TOKEN[:7], TOKEN[7:20], TOKEN[20:]))
    assert redactor.mask(f"日本 {split} です") == f"日本 {redactor.mask(TOKEN)} です"


@pytest.mark.parametrize("value", ["pwd" + "1" * 200, "pwd1" + "id" * 100, "insert" + "me" * 60, "set" + "a" * 200])
def test_no_value_takes_long_to_judge(value: str) -> None:
    start = time.thread_time()
    with no_hang():  # the wrong expression takes longer than anybody waits
        redactor.mask(f"password={value}! password='{value}#1'")
    assert time.thread_time() - start < 2


def test_a_long_run_behind_a_name_that_says_nothing_hides_no_value() -> None:
    value = "a1B2c3D4e5F6" * 5
    assert value not in redactor.mask(f"keyは\u200bAPI_KEY={value}")
    assert value not in redactor.mask(f"token--API_KEY={value}")


def test_a_value_is_judged_for_each_sort_of_name_by_itself() -> None:
    masked = redactor.mask("password: dragonfly1-x token: dragonfly1-x the password is 'dragonfly' token = 'dragonfly'")
    assert masked.count("[PASSWORD]#") == 2
    assert masked.endswith("token = 'dragonfly'")


def test_base64_of_a_secret_goes_whole_and_other_base64_stays() -> None:
    encoded = b64encode(f"password=hunter2-{TOKEN}".encode()).decode()
    assert redactor.mask(f"data: {encoded}").startswith("data: [BASE64_SECRET]#")
    twice = b64encode(encoded.encode()).decode()
    assert twice[4:40] not in redactor.mask(twice)
    clean = b64encode(b"a sentence about nothing in particular").decode()
    assert redactor.mask(clean) is clean


def test_a_name_says_what_its_value_is_in_data_too() -> None:
    cleaned = redactor.clean({"password": "hunter2", "n": 1, "nested": [{"api_key": "0a1b2c3d4e5f6a7b"}]})
    assert "hunter2" not in json.dumps(cleaned)
    assert "0a1b2c3d" not in json.dumps(cleaned)
    assert redactor.clean({"password": "required"}) == {"password": "required"}


def test_a_vault_gives_back_what_it_has_masked() -> None:
    keeping = Redactor(KEY, vault=True)
    said = "the key is ghp_" + "q5W6" * 9
    masked = keeping.mask(said)
    assert keeping.vault is not None
    assert keeping.vault.restored_json(masked) == said
    body = json.dumps({"content": keeping.mask("password='a\tb' " + said)})
    assert said in json.loads(keeping.vault.restored_json(body))["content"]
    assert keeping.vault.restored_json("[GITHUB_TOKEN]#000000000000") == "[GITHUB_TOKEN]#000000000000"
    assert redactor.vault is None


def test_a_pattern_that_never_ends_is_stopped_and_leaks_nothing() -> None:
    slow = Redactor(KEY, patterns={"SLOW": "(a|a|ab)(a|a|b)(a|aa)(a|aa)*b{2,9}c"})
    catastrophic = Redactor(KEY, patterns={"SLOW": "(x|xx){1,40}y"})
    assert slow.mask("nothing") == "nothing"
    masked = catastrophic.mask("x" * WINDOW)
    assert "x" * 64 not in masked


def test_a_text_that_was_clean_is_looked_at_again_once_its_value_is_registered() -> None:
    redactor = Redactor(bytes(32))
    text = "wombat quokka dingo"
    assert redactor.mask(text) is text
    assert redactor.mask(text) is text
    register_secret("quokka dingo")
    assert redactor.mask(text).startswith("wombat [SECRET]#")


def test_of_much_encoded_text_only_what_hides_a_secret_goes() -> None:
    redactor = Redactor(bytes(32))
    runs = [b64encode(f"chapter {number} of a story".encode()).decode() for number in range(9)]
    hidden = b64encode(b"password=canaryEnc333").decode()
    masked = redactor.mask(" ".join([*runs[:5], hidden, *runs[5:]]))
    assert hidden.rstrip("=") not in masked
    assert all(run.rstrip("=") in masked for run in runs)


def test_a_name_in_angle_brackets_stands_for_a_value_unless_it_is_closed() -> None:
    redactor = Redactor(bytes(32))
    template = "Authorization: Bearer <token>\nlaughs_1234567"
    assert redactor.mask(template) is template
    assert "hunter2xyz" not in redactor.mask("<password>\n  hunter2xyz\n</password>")


@pytest.mark.parametrize("text", ["--password hunt2,.", "run --token a1b2c", "--db-password hunt2"])
def test_the_value_of_a_flag_may_be_short(text: str) -> None:
    assert "]#" in redactor.mask(text)
    assert redactor.mask(text.replace("--", "")) == text.replace("--", "")


@pytest.mark.parametrize(
    "text",
    [
        "services:\n  db:\n    environment:\n      MYSQL_ROOT_PASSWORD: {}\n      MYSQL_DATABASE: shop\n",
        "environment:\n  - MYSQL_ROOT_PASSWORD={}\n",
        "docker run -e MYSQL_ROOT_PASSWORD={} -d mysql:8",
        "DB_PASSWORD={}\n",
    ],
)
def test_behind_the_name_of_a_password_in_capitals_a_word_with_a_number_is_a_value(text: str) -> None:
    assert redactor.mask(text.format("tanuki_88")) == text.format(redactor.mask("DB_PASSWORD=tanuki_88")[12:])
    for name in ("db_password_12", "field_12", "test_12"):
        assert redactor.mask(text.format(name)) == text.format(name)
    variable = "login(MYSQL_ROOT_PASSWORD: tanuki_88) mysql_password: tanuki_88"
    assert redactor.mask(variable) is variable


@pytest.mark.parametrize("text", ["パスワードは Tanuki=88x です", "パスワード: tanuki=88", "パスワード（ABC-1234）"])
def test_a_password_may_look_like_a_field_or_a_ticket(text: str) -> None:
    assert "[PASSWORD]#" in redactor.mask(text)


def test_cookies_of_a_text_are_read_once_and_all_of_them() -> None:
    masked = redactor.mask(
        "Cookie: theme=dark; sid=a1b2c3d4e5f6; cookie=x; token=0f9e8d7c6b5a\nCookie: sid=9z8y7x6w5v4u"
    )
    assert masked.count("[COOKIE]#") == 3
    assert "theme=dark" in masked
