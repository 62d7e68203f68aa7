"""Masking: what goes, what stays, that it is stable, and that no text makes it slow.

The secrets are put together at run time so that secret scanners have nothing to find in this file.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orihon.errors import DamagedStore, InvalidMessage, InvalidSettings, StorageUnavailable
from orihon.guard import Redactor, load_key
from orihon.guard.masking.patterns import WINDOW, WINDOW_OVERLAP

KEY = bytes(range(32))
PLACEHOLDER = re.compile(r"\[[A-Z_]+\]#[0-9a-f]{8,}")

BASE64_LINE = "MIIEpAIBAAKCAQEA7b" + "q9Zk" * 11 + "aa"
PEM = "\n".join(["-----BEGIN RSA " + "PRIVATE KEY-----", *[BASE64_LINE] * 6, "-----END RSA " + "PRIVATE KEY-----"])
JWT = ".".join(["ey" + "JhbGciOiJIUzI1NiJ9", "ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0", "dozjgNryP4J3jVmNHl0w5N"])

# Secrets that are recognised by their own form.
KEYS = {
    "github classic": ("GITHUB_TOKEN", "gh" + "p_" + "a1B2" * 9),
    "github app": ("GITHUB_TOKEN", "gh" + "s_" + "c3D4" * 9),
    "github app, new form": ("GITHUB_TOKEN", "gh" + "s_" + "123456_" + JWT),
    "github user": ("GITHUB_TOKEN", "gh" + "u_" + "e5F6" * 9),
    "github refresh": ("GITHUB_TOKEN", "gh" + "r_" + "g7H8" * 19),
    "github fine-grained": ("GITHUB_TOKEN", "github" + "_pat_" + "11ABCDEFG0" * 2 + "_" + "i9J0" * 14),
    "github oauth": ("GITHUB_OAUTH_TOKEN", "gh" + "o_" + "k1L2" * 9),
    "openai plain": ("OPENAI_KEY", "sk" + "-" + "Ab3d" * 12),
    "openai project": ("OPENAI_KEY", "sk" + "-proj-" + "Ab3_" * 12 + "-" + "x9Yz" * 12),
    "openai service": ("OPENAI_KEY", "sk" + "-svcacct-" + "Ab3-" * 20),
    "openrouter": ("OPENROUTER_KEY", "sk" + "-or-v1-" + "0a1b" * 16),
    "anthropic": ("ANTHROPIC_KEY", "sk" + "-ant-" + "api03-" + "Ab3_" * 20 + "-AA"),
    "gitlab": ("GITLAB_TOKEN", "gl" + "pat-" + "aB3-_" * 4),
    "gitlab routable": ("GITLAB_TOKEN", "gl" + "pat-" + "aB3d" * 7 + ".01." + "0a1b2c3d4"),
    "aws id": ("AWS_ACCESS_KEY", "AK" + "IA" + "Q3EG" * 4),
    "aws temporary id": ("AWS_ACCESS_KEY", "AS" + "IA" + "Q3EG" * 4),
    "google": ("GOOGLE_API_KEY", "AI" + "za" + "SyA-_" * 7),
    "slack": ("SLACK_TOKEN", "xo" + "xb-" + "123456789012-" + "aBcD" * 6),
    "stripe": ("STRIPE_KEY", "sk" + "_live_" + "4eC3" * 6),
    "stripe restricted": ("STRIPE_KEY", "rk" + "_live_" + "4eC3" * 6),
    "hugging face": ("HUGGINGFACE_TOKEN", "hf" + "_" + "aBcDe" * 7),
    "npm": ("NPM_TOKEN", "np" + "m_" + "a1B2" * 9),
    "pypi": ("PYPI_TOKEN", "py" + "pi-" + "AgEIcHlwaS5vcmc" + "aB3_" * 20),
    "private key": ("PRIVATE_KEY", PEM),
    "jwt": ("JWT", JWT),
}
AWS_SECRET = "wJal" + "rXUtnFEMI/K7" * 3
# Secrets that are recognised by what stands beside them: kind, text with a gap, secret.
VALUES = {
    "aws ini": ("AWS_SECRET_KEY", "aws_secret_access_key = {}\n", AWS_SECRET),
    "aws environment": ("AWS_SECRET_KEY", "export AWS_SECRET_ACCESS_KEY='{}'", AWS_SECRET),
    "aws json": ("AWS_SECRET_KEY", '"SecretAccessKey": "{}"', AWS_SECRET),
    "aws quoted json": ("AWS_SECRET_KEY", r"{{\"secretAccessKey\":\"{}\"}}", AWS_SECRET),
    "aws xml": ("AWS_SECRET_KEY", "<SecretAccessKey>{}</SecretAccessKey>", AWS_SECRET),
    "aws command": ("AWS_SECRET_KEY", "aws configure set aws_secret_access_key {}", AWS_SECRET),
    "bearer header": ("BEARER_TOKEN", "Authorization: Bearer {}", "mF_9.B5f-4.1JqM"),
    "bearer, small letters": ("BEARER_TOKEN", "curl -H 'authorization: bearer {}'", "0a1b2c3d4e5f"),
    "bearer in Japanese": ("BEARER_TOKEN", "ヘッダーは「Bearer {}」です", "AbCdEf123456=="),
    "database address": ("URL_PASSWORD", "postgres://app:{}@db.example:5432/main", "s3cr3t!p@ss"),
    "address without user": ("URL_PASSWORD", "redis://:{}@localhost:6379/0", "hunter2"),
    "address in Japanese": ("URL_PASSWORD", "接続先はhttps://user:{}@example.jp/です", "パス8"),
}
CLEAN = (
    "task-12", "sk-learn", "ask-me", "risk-free-investment-of-2024", "sk-container-id-1", "sk-abc", "sk-",
    "sk-proj-", "sk-proj-your-key", "desk-proj-a1b2c3d4", "task-" + "a1b2" * 10, "ghp_", "ghp_token",
    "laughs_1234567", "gho_id", "glpat-", "xoxb-your-token-here", "hf_hub_download", "npm_config_cache",
    "pypi-server", "AKIA", "ASIA", "ASIAN", "AIza", "eyJ", "eyJhbGciOiJIUzI1NiJ9", "aws_secret_access_key",
    "aws_secret_access_key = os.environ['X']", "secret_access_key: ${SECRET}", "Bearer token",
    "Authorization: Bearer <token>", "Bearer {api_key}", "https://example.com:8080/a@b",
    "https://user@example.com/", "https://user:${PASSWORD}@example.com", "http://{user}:{password}@host",
    "git@github.com:a/b.git", "-----BEGIN CERTIFICATE-----\n" + BASE64_LINE,
    'if "-----BEGIN PRIVATE ' + 'KEY-----" in text:', "dev@example.com", "123-45-6789", "[OPENAI_KEY]", "ー",
    "秘密鍵", "認証トークンは sk- で始まります", "--skip-" + "a1" * 20, "sk_live_",
    "def get_secret_access_key(self):",
    '"-----BEGIN PRIVATE ' + 'KEY-----", "-----END PRIVATE KEY-----"', "sk-" + "estimator" * 3,
)  # fmt: skip

# What may stand directly before and after a secret.
GLUE_BEFORE = ["", " ", "\n", '"', "'", "=", ":", "/", "@", *"は「（。", "\\n", "\\u003e", "%3D", "\x1b[32m"]
GLUE_AFTER = ["", " ", "\n", '"', "'", ",", ";", ")", "。", "」", "です", "\\n", "&", "\x1b[0m", "<", "["]

redactor = Redactor(KEY)
full_redactor = Redactor(KEY, email=True, ssn=True, patterns={"ACME": r"acme-[a-z0-9]+", "HEX": "[0-9a-f]{6,}"})

plain_keys = st.sampled_from([secret for _, secret in KEYS.values()])
fragments = st.one_of(
    plain_keys,
    st.sampled_from([template.format(secret) for _, template, secret in VALUES.values()]),
    st.sampled_from(CLEAN),
    st.sampled_from([*GLUE_BEFORE, *GLUE_AFTER, "-----", "://a:", "Bearer ", "a1b2c3d4", "acme-x1", "x@", "@x.jp"]),
    st.sampled_from(["[GITHUB_TOKEN]#0123456789ab", "[X]#deadbeef", "]#", "[A]#"]),
    st.text(max_size=8),
)
dirty_texts = st.lists(fragments, max_size=12).map("".join)


def placeholders(text: str) -> list[str]:
    return PLACEHOLDER.findall(text)


@pytest.mark.parametrize(("kind", "secret"), KEYS.values(), ids=KEYS)
def test_keys_go_whole(kind: str, secret: str) -> None:
    masked = redactor.mask(f"Use {secret} here, 鍵は{secret}です。")
    assert re.fullmatch(rf"Use (\[{kind}\]#[0-9a-f]{{8,}}) here, 鍵は\1です。", masked)


@pytest.mark.parametrize(("kind", "template", "secret"), VALUES.values(), ids=VALUES)
def test_values_go_and_their_names_stay(kind: str, template: str, secret: str) -> None:
    masked = redactor.mask(template.format(secret))
    [placeholder] = placeholders(masked)
    assert placeholder.startswith(f"[{kind}]#")
    assert masked == template.format(placeholder)


def test_what_only_resembles_a_secret_stays() -> None:
    assert [text for text in CLEAN if redactor.mask(text) is not text] == []


def test_sensitive_data_masking() -> None:
    """The test of 000 §11.1, on the guard."""
    token, key = "gh" + "p_1234567890abcdef", "sk" + "-proj-abc123"
    masked = redactor.mask(f"Use token {token} and key {key}")
    assert "ghp_" not in masked
    assert "sk-" not in masked
    assert "[GITHUB_TOKEN]#" in masked
    assert "[OPENAI_KEY]#" in masked


def test_the_lines_of_a_cut_off_private_key_go() -> None:
    head = "\n".join(PEM.splitlines()[:4])
    masked = redactor.mask(f"$ head -4 id_rsa\n{head}\n$ ls\nid_rsa\n")
    assert re.fullmatch(r"\$ head -4 id_rsa\n\[PRIVATE_KEY\]#[0-9a-f]+\n\$ ls\nid_rsa\n", masked)


def test_a_key_inside_an_address_keeps_its_kind() -> None:
    secret = KEYS["gitlab"][1]
    assert "oauth2:[GITLAB_TOKEN]#" in redactor.mask(f"https://oauth2:{secret}@gitlab.example/a.git")


def test_the_key_decides_the_placeholder() -> None:
    secret = KEYS["openai plain"][1]
    other = Redactor(bytes(32))
    assert redactor.mask(secret) == Redactor(KEY).mask(secret)
    assert redactor.mask(secret) != other.mask(secret)
    assert redactor.mask(secret) != redactor.mask(secret + "x")


def test_email_and_ssn_are_opt_in() -> None:
    text = "Mail dev.team+x@mail.example.co.jp or 田中 <a@b.org>, SSN 123-45-6789、番号123-45-6789です"
    assert redactor.mask(text) is text
    masked = Redactor(KEY, email=True, ssn=True).mask(text)
    assert re.fullmatch(
        r"Mail \[EMAIL\]#\w+ or 田中 <\[EMAIL\]#\w+>, SSN (\[SSN\]#\w+)、番号\1です",
        masked,
    )
    assert Redactor(KEY, email=True).mask("2024-123-45-6789 x@localhost @decorator a@b").count("#") == 0


def test_the_shortest_texts_with_a_secret() -> None:
    assert re.fullmatch(r"://:\[URL_PASSWORD\]#\w+@", redactor.mask("://:p@"))
    assert re.fullmatch(r"\[EMAIL\]#\w+", Redactor(KEY, email=True).mask("a@b.jp"))
    assert re.fullmatch(r"\[ONE\]#\w+", Redactor(KEY, patterns={"ONE": "鍵"}).mask("鍵"))


def test_a_masked_address_survives_email_masking() -> None:
    masked = redactor.mask("https://user:" + "hunter2" + "@example.com")
    assert Redactor(KEY, email=True).mask(masked) == masked


def test_user_patterns_and_the_allow_list() -> None:
    secret = KEYS["aws id"][1]
    custom = Redactor(KEY, patterns={"badge": r"社員番号\d{6}"}, allow=[secret, r"社員番号0+"])
    assert custom.mask(f"{secret} 社員番号000000") == f"{secret} 社員番号000000"
    assert re.fullmatch(r"x\[BADGE\]#\w+ \[AWS_ACCESS_KEY\]#\w+", custom.mask(f"x社員番号123456 {secret}7"))


def test_overlapping_secrets_become_one_placeholder() -> None:
    custom = Redactor(KEY, patterns={"FIRST": "uvwx", "SECOND": "wxyz", "LONGER": "uvwxy"})
    assert re.fullmatch(r"<\[LONGER\]#[0-9a-f]+>", custom.mask("<uvwxyz>"))
    assert custom.mask("<uvwxyz>") != custom.mask("<uvwxy>")


def test_a_user_pattern_that_matches_nothing_masks_nothing() -> None:
    assert Redactor(KEY, patterns={"EMPTY": "x*"}).mask("abc") == "abc"


@pytest.mark.parametrize("before", [0, 1, WINDOW - WINDOW_OVERLAP, WINDOW - 20, WINDOW - 1, WINDOW, 3 * WINDOW - 7])
def test_user_patterns_find_secrets_wherever_they_lie(before: int) -> None:
    custom = Redactor(KEY, patterns={"ACME": "acme-[a-z0-9]+"})
    secret = "acme-" + "a1" * 300
    assert custom.mask("." * before + secret + "." * WINDOW) == "." * before + custom.mask(secret) + "." * WINDOW


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "(?P<a>x)(?P<a>y)"])
def test_a_broken_user_pattern_is_named(pattern: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Redactor(KEY, patterns={"MINE": pattern})
    assert caught.value.reason == "bad_pattern"
    assert "MINE" in str(caught.value)
    with pytest.raises(InvalidSettings):
        Redactor(KEY, allow=[pattern])


@pytest.mark.parametrize("name", ["", "1A", "A B", "名前", "a]#"])
def test_a_name_that_would_not_make_a_placeholder_is_refused(name: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Redactor(KEY, patterns={name: "x"})
    assert caught.value.reason == "bad_pattern_name"
    assert "'_'" in caught.value.remedy


@pytest.mark.parametrize("pattern", ["(a+)+$", "(?:x*y)*", r"((\w+)-)+", "([a-z]+,){2,}", "(a|b(c+)d)*"])
def test_user_patterns_with_nested_repeats_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Redactor(KEY, patterns={"SLOW": pattern})
    assert caught.value.reason == "slow_pattern"
    assert pattern in str(caught.value)


@pytest.mark.parametrize("pattern", ["(a++)+", "(?:a+b)?c+", r"(\(a+\))[+*)]", "(a{1,4}-)+", "(?=.*x)[a-z]+", "[(+)]+"])
def test_user_patterns_without_nested_repeats_are_taken(pattern: str) -> None:
    assert Redactor(KEY, patterns={"FINE": pattern}).mask("日本") == "日本"


def test_switched_off_it_changes_nothing() -> None:
    off = Redactor(KEY, enabled=False)
    text = f"key {KEYS['github classic'][1]}"
    value = {"content": text}
    assert off.mask(text) is text
    assert off(text) is text
    assert off.clean(value) is value


def test_clean_masks_values_and_keys_at_any_depth() -> None:
    secret = KEYS["anthropic"][1]
    masked = redactor(secret)
    value = {"a": [1, None, {"b": ("x", secret)}], secret: True, "c": 1.5, "d": ["日本"]}
    cleaned = redactor.clean(value)
    assert cleaned == {"a": [1, None, {"b": ("x", masked)}], masked: True, "c": 1.5, "d": ["日本"]}
    assert list(cleaned) == ["a", masked, "c", "d"]
    assert cleaned["d"] is value["d"]
    assert value["a"] == [1, None, {"b": ("x", secret)}]


def test_clean_returns_the_same_object_when_nothing_changed() -> None:
    value = {
        "role": "user",
        "content": [{"type": "text", "text": "task-12 は完了"}],
        "n": [1, (2, None)],
        "t": True,
    }
    assert redactor.clean(value) is value


def test_clean_refuses_what_is_nested_without_end() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(InvalidMessage):
        redactor.clean(value)


def test_lone_surrogates_and_nul_bytes_are_no_obstacle() -> None:
    masked = redactor.mask("https://u:\udcff\x00pw@host \ud800")
    assert re.fullmatch("https://u:\\[URL_PASSWORD\\]#\\w+@host \ud800", masked)


@given(
    before=st.text(),
    glue=st.sampled_from(GLUE_BEFORE),
    secret=plain_keys,
    tail=st.sampled_from(GLUE_AFTER),
    after=st.text(),
)
def test_no_surroundings_hide_a_secret(before: str, glue: str, secret: str, tail: str, after: str) -> None:
    # With nothing between them, a letter before or after would make another word of it.
    text = (before + glue if glue else "") + secret + (tail + after if tail else "")
    assert secret not in redactor.mask(text)


@given(st.text(alphabet=st.characters(exclude_characters="_-AJe:@")))
def test_text_without_any_anchor_is_unchanged(text: str) -> None:
    assert Redactor(KEY, email=True, ssn=True).mask(text) is text


# On lines of their own: behind a blank, "token desk-1a2b3c4d" would say that this is one.
@given(st.lists(st.sampled_from([word for word in CLEAN if "BEGIN" not in word])).map("\n".join))
def test_clean_words_stay_clean_together(text: str) -> None:
    assert redactor.mask(text) is text


@given(dirty_texts)
@example("123-45-6789" + KEYS["github classic"][1])
def test_masking_is_idempotent(text: str) -> None:
    for guard in (redactor, full_redactor):
        once = guard.mask(text)
        assert guard.mask(once) == once


@given(dirty_texts)
def test_placeholders_that_were_there_stay(text: str) -> None:
    placeholder = "[GITHUB_TOKEN]#0123456789ab"
    assert placeholder in full_redactor.mask(f"{text} {placeholder} {text}")


@given(secret=plain_keys, first=st.text(), second=st.text())
def test_a_secret_has_one_placeholder_wherever_it_stands(secret: str, first: str, second: str) -> None:
    placeholder = redactor.mask(secret)
    assert placeholder in redactor.mask(f"{first} {secret} {second}")


@given(st.lists(dirty_texts, max_size=4), st.sampled_from([True, False]))
def test_json_in_a_string_stays_json(texts: list[str], ascii_only: bool) -> None:
    quoted = json.dumps({"arguments": json.dumps(texts, ensure_ascii=ascii_only)}, ensure_ascii=ascii_only)
    assert len(json.loads(json.loads(redactor.mask(quoted))["arguments"])) == len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "\npm_" + "a1" * 18,
        "\rk_live_" + "a1" * 10,
        "\nobody@example.com",
        "secret_access_key=\n" + "a1" * 20,
        "https://user:\nname@example.com",
    ],
)
def test_an_escape_in_quoted_text_is_never_cut(text: str) -> None:
    quoted = json.dumps(text)
    assert json.loads(full_redactor.mask(quoted))[0] == text[0]


NASTY = (
    "_", "-", "A", "J", "@", "earer", "://", "sk-", "sk-a", "task-", "ghp_", "ghp_a1b2c3 ", "eyJ",
    "eyJaaaaaaaaa.", "://a:", "://u:p@", "Bearer ", "Bearer a", "bearer 1", "secret_access_key = ", "AKIA",
    "AIza-", "a@", "a@b.", "@a.", "a" * 64 + "@", "123-45-", "[A]#12345678",
    "[A]#12345678 ghp_a1b2c3 ", "[0msk-", "\\nsk-", "xoxb-", "glpat-aaa", "pypi-Ag", "_eyJ", " ", "日",
    "-----BEGIN ", "-----BEGIN PRIVATE " + "KEY-----", "-----BEGIN PRIVATE " + "KEY-----\n" + BASE64_LINE,
    "cookie=x=1;", "identified by 'aaaa' ", "password=hunter2x\n", " -p abcd", "dp.pt.", "\u200bpass ",
    ",password", "AKIAABCDEFGHIJKLMNOP ", "secrets:", "echo a1b2c3 | ", "ghp_\na1b2c3\n", " as the password ",
    "freerdp ", "ｇｈｐ＿ａ１ｂ２ ", "pаssword=a1b2c3 ", "password='a b1c2 ",
    "{\"password\": 12345678}\n", "secrets: {\"a\": ", "\\",
    "密码为1", "cat pass", "clé : a1b2 ", "backup code", "passphrase \"", "new value token ", "1234 is your ",
    "login a / ",
    "パスワードはa1b2c3", "a" * 15 + " ", "." + "a" * 27, b64encode(b"password=hunter2x").decode() + " ",
)  # fmt: skip


def test_time_grows_with_the_text_and_not_faster() -> None:
    guard = Redactor(KEY, email=True, ssn=True)

    def seconds(unit: str, length: int, looks: int) -> float:
        text = (unit * (length // len(unit) + 1))[:length]
        runs = []
        for _ in range(looks):
            start = time.thread_time()
            guard.mask(text)
            runs.append(time.thread_time() - start)
        return min(runs)

    def grows_faster(unit: str) -> bool:
        # One look clears most of them; who seems to be slow gets more.
        return all(
            seconds(unit, 200_000, looks) >= 8 * seconds(unit, 50_000, looks) + 0.002 for looks in (1, 3, 3, 3, 3)
        )

    # Four times the text: quadratic work would take sixteen times as long, whenever the machine has other things to do.
    assert [unit for unit in NASTY if grows_faster(unit)] == []


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    base = tmp_path / "base"
    path = base / "mask.key"
    old = os.umask(0)
    try:
        key = load_key(base)
    finally:
        os.umask(old)
    assert len(key) == 32
    assert load_key(base) == key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    copy = base / "mask.key.copy"
    assert sorted(path.parent.iterdir()) == [path, copy]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_processes_that_start_together_agree_on_one_key(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from orihon.guard import load_key\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "print(*(load_key(Path(sys.argv[1], str(n))).hex() for n in range(20)))"
    )
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.stdin = None
    [keys] = {worker.communicate(timeout=300)[0] for worker in workers}
    assert len(set(keys.split())) == 20


@pytest.mark.parametrize("content", [b"", b"ab\n", b"g" * 64, b"a" * 66, b"\xff" * 32, b"a" * 64 + b"\n\n"])
def test_a_damaged_key_file_is_reported_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mask.key"
    path.write_bytes(content)
    with pytest.raises(DamagedStore) as caught:
        load_key(tmp_path)
    assert caught.value.reason == "mask_key"
    assert str(path) in caught.value.cause
    assert path.read_bytes() == content


def test_a_key_file_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageUnavailable):
        load_key(tmp_path / "file")
    (tmp_path / "mask.key").mkdir()
    with pytest.raises(DamagedStore):
        load_key(tmp_path)
