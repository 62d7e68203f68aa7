# ruff: noqa: E501 - tables
"""How much of what agents say in secret goes, and how little of what they say openly: shares, not single cases."""

from __future__ import annotations

import pytest

from orihon.guard import Redactor
from tests.masking_corpus import look_alikes, mended, messages, provider_tokens, told

KEY = bytes(range(32))
SEEDS = range(3)
redactor = Redactor(KEY)

CODE = (
    "password = get_password()", "token: str", 'api_key=os.environ["X"]', "def login(password: str) -> Token:",
    "self.token = token", "password=password,", "secret: String,", 'token = request.headers["Authorization"]',
    "api_key: Optional[str] = None", "if token is None:", "the password is required", "The token is invalid or expired.",
    "passwordField = document.querySelector('#password')", "PASSWORD=${DB_PASSWORD}", "password: <your password>",
    "API_KEY=your-api-key-here", "token_count: 1024", "max_tokens=4096", "secret_name: db-credentials-v2",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b", "id: 123e4567-e89b-12d3-a456-426614174000",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "key = value", "for key, value in items:",
    "パスワードはBase64でエンコードされます", "トークンはJWTです", "パスワードは8文字以上にしてください", "トークン数は1024です",
    "password = self.settings.password", "const token = await getToken()", "--password is required", "tests pass: 12",
    'if (password !== confirmPassword) {', "PRIMARY KEY (id)", "key: [a, b]", "assert token == expected_token",
    "password = input('Password: ')", "password_hash = bcrypt.hash(password)", "SECRET_KEY = env('SECRET_KEY')",
    "secret: secretKeyRef", 'password: "{{ vault_password }}"', "/usr/lib/python3/dist-packages/numpy/core/multiarray",
)  # fmt: skip


def leaks(text: str, value: str) -> bool:
    """Is the value, or most of it, still there?"""
    masked = redactor.mask(text)
    width = max(4, len(value) * 2 // 3)
    return any(value[start : start + width] in masked for start in range(len(value) - width + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_nearly_all_tokens_of_providers_go(seed: int) -> None:
    tokens = [token for _, token in provider_tokens(seed)]
    left = [token for token in tokens if leaks(f"x {token} y", token)]
    assert len(left) <= 0.05 * len(tokens)


@pytest.mark.parametrize("half", ["known", "unseen"])
@pytest.mark.parametrize("seed", SEEDS)
def test_most_values_in_messages_go(half: str, seed: int) -> None:
    told = list(messages(half, seed))
    left = [text for text, value in told if leaks(text, value)]
    assert len(told) >= 80
    assert len(left) <= 0.15 * len(told), left


def test_code_and_talk_about_secrets_stay() -> None:
    assert [line for line in CODE if redactor.mask(line) is not line] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_most_of_several_values_in_one_message_go(seed: int) -> None:
    values = [(text, value) for text, values in told(seed) for value in values]
    left = [(text, value) for text, value in values if leaks(text, value)]
    assert len(values) >= 220
    assert len(left) <= 0.1 * len(values), left


@pytest.mark.parametrize("seed", SEEDS)
def test_no_form_that_was_mended_is_lost_again(seed: int) -> None:
    left = [text for text, values in mended(seed) for value in values if leaks(text, value)]
    assert left == []


@pytest.mark.parametrize("seed", SEEDS)
def test_what_only_looks_like_a_secret_stays(seed: int) -> None:
    touched = [text for text in look_alikes(seed) if redactor.mask(text) is not text]
    assert touched == []
