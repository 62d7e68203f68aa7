# ruff: noqa: E501 - tables
"""Masking: what goes, what stays, and how fast.

    python -m benchmarks.masking [FOLDER]

Prints the share of provider tokens and of values in messages that are masked (``tests/masking_corpus.py``; the half
"unseen" was not used to write the rules), the share of the lines of clean transcripts below FOLDER that are touched,
and the speed on them and on texts that are made to be slow.
"""

from __future__ import annotations

import json
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from orihon.guard import Redactor
from tests.masking_corpus import messages, provider_tokens

SEEDS = range(20)
ROUNDS = 3
SHOWN = 3
NASTY = (
    "_", "-", "A", ".", "sk-", "sk_", "hf_", "ghp_a1b2c3 ", "eyJ", "://u:p@", "key=", "password=", "token ", "secret: a",
    "pass for a ", "a1B2" * 8 + " ", "cookie: a=1; ", "[A]#12345678 ghp_a1b2c3 ", "パスワードは", "トークンはa1", "\u200b", "@a.", " -p a",
    "-----BEGIN PRIVATE " + "KEY-----", "QUJD" * 8 + " ", "\"password\": \"a1\", ", "basic YTpi ", "sig=", "figd_", "xapp-", "hvs.",
    "PASS=a\n", "pass\\", "secret for the a ", "password is a ", "api_key = ", "\ufe0fpass ", "eyJa.eyJ", "curl -u a:b ", "a1B2c3D4e5F6g7H8i9J0/",
    "AKIA", "1//0", "秘密は", "PIN is 1", "signature=", "=", "~", "password=password=", "://a:b://", "cookie=x=1;", " -p abcd", "mysql -p abcde ",
    "identified by 'aaaa' ", "token='", "key:\n", "apikey:\n", "pass pass1 ", "token token1 ", "auth: \"a\n", "credentials: a / ", "dp.pt.", "eyJaaaaaaaa.",
    "\u00ad", "\u200bA", "\ufe0fkey=a ", "\ufe0ftoken ", "秘密", "PINは1", "合言葉は", "トークン", "a" * 15 + " ", "aB1" * 8 + "/", "." + "a" * 27,
    "password=hunter2x\n", "PASSWORD=hunter2x\n", "api_key=a1b2c3d4e5f6\n", "the password is hunter2x. ", "[A]#12345678password=a1b2c3 ",
    b64encode(b"password=hunter2x").decode() + " ", b64encode(b64encode(b"a sentence, and nothing else")).decode() + " ",
    "password=hunter%dx\n", "api_key=a1b2c3d4%d ", "pw=foo_bar%d ", "passw0rd!%d\u200bPASSWORD=", "token: a.b%d\u00adkey=c ",
    "\ufe0aaccess_key --password=TOKEN=hvb.;keY値", "\ufe0a -password=fm1_=ビスキー", "rubygms_\ufe0aapikey -password=a:fm1_=合言葉",
    "</b>.**AKCa\ufeff -p ,passaAUTH*\\ --password=", "sAuTh\ufe01 -p !;mysql -p ", "mysql -p \u2064pwd「tvly-psk=seretpwdい言葉2",
    "秘密passwd --password=\ufeffdt0s16.pass*figr__hash", "password=pwd" + "1" * 40 + "! ", "password=insert" + "me" * 20 + "# ",
    "AKIAABCDEFGHIJKLMN%d ", "echo a1b2c3 | ", "echo 'a:b1c2d3' | chpasswd\n", "net use \\\\a ", "htpasswd -b a ", "freerdp ", "redis-cli ", "chpasswd ",
    " as the password ", "hunter%dx as the password. ", "a1b2c3%d (passphrase) ", "secrets:\n a: b%dc2d3e4\n", "secrets:", "secrets: {\"a\": \"b%dc2d3\"}, ",
    "user,password\nbob,hunter%dx!\n", ",password", "password,\n", "ghp_\na1b2c3\n", "ghp_a1b2%d\nc3d4e5f6g7h8i9j0k1l2m3n4\n", "{\"password\": %d12345678}\n",
    "ｇｈｐ＿ａ１ｂ２ｃ３%d ", "pаssword=hunter%dx ", "password='a b1c2 %d' ", "db_password: |\n  a1b2c3d4%d\n", "password from a to b1c2d3%d ", "Password (root): a1b2c%d ",
    "| password |\n|---|\n| a1b2c3d4! |\n", "password from hunter%dx to hunter%dy! ", "zip -P a1b2c%d ", "PASSWORD: tanuki_%d\n",
    "密码为1", "cat pass", "clé : a1b2 ", "ключ 1 - - - - ", "senha to to to 1 ", "backup code", "ackup code aaaa1-aaaa1 ", "passphrase \"", "base64 -d\na1b2c%d\n",
    "1234 is your ", "new value a1b2 token ", "account a / b%d ", "password\nAb1cdefgh%d\n\n", "パスはabcdefgh", "secret: []byte(\"a\") ",
)  # fmt: skip


def texts_below(folder: Path) -> Iterator[str]:
    """The contents of the messages of all transcripts."""
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            content = json.loads(line).get("content")
            if isinstance(content, str):
                yield content


def speed(texts: list[str]) -> float:
    """Megabytes per second of processor time, the best of some rounds, none of which knows the texts from another."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    best = float("inf")
    for _ in range(ROUNDS):
        redactor = Redactor(bytes(32))
        start = time.process_time()
        for text in texts:
            redactor.mask(text)
        best = min(best, time.process_time() - start)
    return size / 1e6 / best


def hostile(unit: str) -> str:
    """A text of such units; a ``%d`` in them becomes a running number, so that no two are alike."""
    count = 200_000 // len(unit)
    return "".join(unit.replace("%d", str(number)) for number in range(count)) if "%d" in unit else unit * count


def leaks(redactor: Redactor, text: str, value: str) -> bool:
    """Is the value, or most of it, still there?"""
    masked = redactor.mask(text)
    width = max(4, len(value) * 2 // 3)
    return any(value[start : start + width] in masked for start in range(len(value) - width + 1))


def main() -> None:
    redactor = Redactor(bytes(32))
    tokens = [token for seed in SEEDS for _, token in provider_tokens(seed)]
    share = sum(not leaks(redactor, f"x {token} y", token) for token in tokens) / len(tokens)
    print(f"provider tokens masked: {share:.1%} of {len(tokens)}")
    for half in ("known", "unseen"):
        told = [pair for seed in SEEDS for pair in messages(half, seed)]
        share = sum(not leaks(redactor, text, value) for text, value in told) / len(told)
        print(f"values in messages masked ({half}): {share:.1%} of {len(told)}")
    if len(sys.argv) > 1:
        contents = list(texts_below(Path(sys.argv[1])))
        lines = [line for text in contents for line in text.splitlines()]
        touched = sum(redactor.mask(line) is not line for line in lines)
        print(f"clean lines touched: {touched / len(lines):.2%} of {len(lines)}")
        print(f"ordinary text, one piece: {speed([chr(10).join(contents)]):.0f} MB per CPU second")
        print(f"ordinary text, by messages: {speed(contents):.0f} MB per CPU second")
    slowest = sorted((speed([hostile(unit)]), unit) for unit in NASTY)[:SHOWN]
    print(
        "slowest hostile texts:",
        ", ".join(f"{figure:.1f} ({unit[:24]!r})" for figure, unit in slowest),
        "MB per CPU second",
    )


if __name__ == "__main__":
    main()
