"""Secrets that people tell each other in Japanese: 「パスワードは … です」; and behind some other words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from orihon.guard.masking.anchors import Anchor, SecretSpan, Views
from orihon.guard.masking.values import OPEN, Judge, changed_to, phrase_at, quoted, secret_in, told, with_value

# A kind of secret, the ends of the names that announce it, and what may follow those.
_NAMES = (
    ("SECRET", "シークレット", "(?!キー)"),
    ("SECRET", "秘密", "(?:鍵|キー|の鍵|のキー|の値)?"),
    ("SECRET", "共有鍵 暗号鍵 認証鍵 署名鍵 Iの鍵", ""),
    ("PASSWORD", "パスワード パスフレーズ パスコード パスキー 認証情報 合言葉 い言葉", ""),
    # In other languages, where a mark says that a value follows.
    (
        "PASSWORD",
        "密码 密碼 口令 비밀번호 암호 пароль Пароль contraseña Contraseña",
        "(?=[ \t]{0,2}[:=：是]|(?:은|는) )",
    ),
    ("PASSWORD", "senha Senha kennwort Kennwort wachtwoord Wachtwoord asło", "(?=[ \t]{0,2}[:=])"),
    ("PASSWORD", "passe", "(?<=de passe)(?=[ \t]{0,2}[:=])"),
    ("PIN", "認証コード 確認コード ピンコード INコード イムコード ティコード 暗証番号", ""),
    ("PIN", "PIN", "(?<![A-Za-z]PIN)(?:番号)?(?=[はをが：])"),
    ("RECOVERY_CODE", "リーコード ップコード 復旧コード", ""),
    ("TOKEN", "トークン", ""),
    (
        "API_KEY",
        "PIキー セスキー 認証キー ンスキー 号化キー 署名キー ントキー ビスキー ターキー ットキー Iのキー",
        "",
    ),
)
# Between name and value: a few words, but not those after which a figure or a format is named.
_BOUND = with_value(
    r"(?P<words>[^\x00-\x7f\n。]{0,16}?)[ \t*]{0,4}"
    r"(?:。[ \t]?新しい(?:の|もの|方|ほう|やつ)は、?[ \t]{0,4})?"
    r"(?:(?:以下|下記|次の)[^\x00-\x7f\n。：]{0,10}[。：:]?[ \t]{0,2}\n{1,2}(?:```\w{0,12}\n)?[ \t]{0,8})?"
    r"(?:(?:\\{0,4}[\"'`][ \t]{0,4})?[:=：＝→(（][ \t*]{0,4}\n?[ \t]{0,4})?(?P<quote>\\{0,4}[「『\"'`“])?(?=[!-~])"
)
# A value begins with that, so far from its name at most: a quick look before the closer one.
_VALUE = re.compile("[!-~]")
_REACH = 48
# 「ユーザー名とパスワードは admin / … です」
_BEFORE_PAIRS = re.compile(r"[と/／・&][ \t]?パスワード\Z")
_LONGEST_NAME = 8
_SECOND = with_value(rf"[A-Za-z][\w.@-]{{1,31}}[ \t]?[/／][ \t]?{OPEN}")
_PIN = re.compile(r"[0-9][0-9-]{3,9}(?![0-9A-Za-z])")
_PASSWORD: Judge = partial(told, 5, ".,;:)]}?")
_SECRET: Judge = partial(told, 8, ".,;:)]}?")
_OTHER_THINGS = re.compile(
    "期限|形式|長さ|文字|件数|個数|方式|種類|アルゴリズム|ハッシュ|更新日|ファイル|変数|環境|名前|数は|数が|上限|最大|最小|使用量"
    "|消費|単価|予算|条件|要件|規則|ルール|ポリシー|仕様|制約|時間|回数|桁数|権限|スコープ"
    "|正規表現|指紋|フィンガープリント|関連|(?:エラー|失敗)$"
)
# Fields of a log and numbers of tickets: 「トークンが無効です (code=401)」、「パスワード変更 (PROJ-1234)」.
_FIELD = re.compile(r"[A-Za-z][A-Za-z_]{1,23}=[0-9A-Za-z]")
# A password may look like these, where it follows its name.
_BRACKETS = "(（"
_BEFORE_FIELDS = "(（:："
_TICKET = re.compile(r"[A-Z]{2,8}-[0-9]{1,6}(?![!-(*-~])")
_BEFORE_VALUES = "はがをに値"
# What follows a place or a method, and no value.
_NO_VALUE = re.compile(
    r"[」』\"'`”]?[ \t]?"
    r"(?:を(?:ご)?参照|に(?:記載|保存|格納|送信|あり|ある)|で(?:導出|ハッシュ)|から(?:取得|読)|テーブル|ヘッダー|カラム)"
)
# 「…ですが、本番は … に変えてあります」
_OTHER = with_value(
    r"[」』\"'`”]?[ \t]?(?:です|でした|だった)(?:が|けど|けれど)、?[ぁ-ヿ一-鿿]{1,12}?は、?[ \t]{0,4}"
    r"(?P<quote>[「『\"'`“])?(?=[!-~])"
)
_SETTLED = re.compile(r"[」』\"'`”]?[ \t]?(?:に変|に設定|にし|です|でした|を使)")


@dataclass(frozen=True, slots=True)
class JapaneseValues:
    """Values that follow some Japanese names; the places are those of their ends."""

    kind: str
    anchors: tuple[Anchor, ...]
    rest: re.Pattern[str]

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        for place in places:
            name = self.rest.match(views.text, place, end) if start <= place else None
            span = None if name is None else _value_of(views, self.kind, name.end(), end)
            if name is not None and span is not None:
                spans.append(span)
                new = changed_to(views, name.end(), span, end) or _other_value(views, span, end)
                if new is not None:
                    spans.append(new)
        return spans


def japanese_values() -> tuple[JapaneseValues, ...]:
    """One for each row."""
    return tuple(
        JapaneseValues(kind, tuple(Anchor(name, len(name)) for name in names.split()), re.compile(rest))
        for kind, names, rest in _NAMES
    )


def _value_of(views: Views, kind: str, after: int, end: int) -> SecretSpan | None:
    text = views.text
    if _VALUE.search(text, after, min(after + _REACH, end)) is None:
        return None
    binding = _BOUND.match(text, after, end)
    if binding is None:
        return None
    words, quote, written = binding.groups()
    if written is None and quote is not None and kind == "PASSWORD":
        return phrase_at(views, binding.end("quote"), end)
    start = binding.start("value")
    if written is None or _OTHER_THINGS.search(words) or (quote is None and _is_remark(text, kind, words, start)):
        return None
    if kind == "PIN":
        digits = _PIN.match(written)
        return None if digits is None else (start, start + digits.end(), kind)
    judge = quoted if quote is not None else _PASSWORD if kind == "PASSWORD" else _SECRET
    found = secret_in(views, start, written, kind, judge)
    if found is None and quote is None and _BEFORE_PAIRS.search(text, max(0, after - _LONGEST_NAME), after):
        pair = _SECOND.match(text, start, end)
        if pair is not None and pair["value"] is not None:
            second: Judge = _PASSWORD if pair["quote"] is None else quoted
            found = secret_in(views, pair.start("value"), pair["value"], kind, second)
    return None if found is not None and _NO_VALUE.match(text, found[1], end) else found


def _is_remark(text: str, kind: str, words: str, start: int) -> bool:
    """Does what begins at ``start`` say something else about what was told in ``words``?"""
    is_told = words[-1:] not in _BEFORE_VALUES
    before, is_password = text[start - 1], kind == "PASSWORD"
    if (is_told or before in (_BRACKETS if is_password else _BEFORE_FIELDS)) and _FIELD.match(text, start):
        return True
    return is_told and (not is_password or before in _BRACKETS) and _TICKET.match(text, start) is not None


def _other_value(views: Views, first: SecretSpan, end: int) -> SecretSpan | None:
    """The value for something else that is told in the same sentence."""
    other = _OTHER.match(views.text, first[1], end) if first[2] == "PASSWORD" else None
    if other is None or other["value"] is None:
        return None
    judge: Judge = _PASSWORD if other["quote"] is None else quoted
    found = secret_in(views, other.start("value"), other["value"], "PASSWORD", judge)
    return found if found is not None and _SETTLED.match(views.text, found[1], end) else None
