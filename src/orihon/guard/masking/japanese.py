# ruff: noqa: E501 - tables
"""Secrets that people tell each other in Japanese: 「パスワードは … です」, and in other languages:
"das Kennwort lautet …".

Also what stands far from its name in any of them: a user and a password, codes that are sent to a telephone, the new
value of something that was named before, a word that is alone on its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from orihon.guard.masking.anchors import Anchor, Finder, SecretSpan, Views
from orihon.guard.masking.values import OPEN, SAID, Judge, changed_to, phrase_at, quoted, secret_in, told, with_value
from orihon.system.patterns import lazy_re

# A kind of secret, the ends of the names that announce it, and what may follow those.
_NAMES = (
    ("SECRET", "シークレット", "(?!キー)"),
    ("SECRET", "秘密", "(?:鍵|キー|の鍵|のキー|の値)?"),
    ("SECRET", "共有鍵 暗号鍵 認証鍵 署名鍵 Iの鍵", ""),
    # A path is never a password.
    (
        "PASSWORD",
        "パスは パス: パス：",
        r"(?<![ァ-ヺー]パス.)(?=[ \t]{0,2}[「『\"'`]?[A-Za-z0-9!#$%&*+?@^_-]{8,64}(?![\w./\\]))",
    ),
    ("PASSWORD", "パスワード パスフレーズ パスコード パスキー 認証情報 合言葉 い言葉", ""),
    (
        "PIN",
        "認証コード 確認コード ピンコード INコード イムコード ティコード インコード 暗証番号 認証番号 確認番号",
        "",
    ),
    ("PIN", "PIN", "(?<![A-Za-z]PIN)(?:番号)?(?=[はをが：])"),
    ("RECOVERY_CODE", "リーコード ップコード 復旧コード", ""),
    ("TOKEN", "トークン", ""),
    (
        "API_KEY",
        "PIキー セスキー 認証キー ンスキー 号化キー 署名キー ントキー ビスキー ターキー ットキー Iのキー ップキー リーキー I_キー",
        "",
    ),
)
# Between name and value: a few words, but not those after which a figure or a format is named.
_BOUND = with_value(
    r"(?P<words>[^\x00-\x7f\n。]{0,16}?)[ \t*]{0,4}(?:[(（][^()（）\n]{1,24}[)）](?=[ \t]{0,2}[:：=は]))?"
    r"(?:。[ \t]?新しい(?:の|もの|方|ほう|やつ)は、?[ \t]{0,4})?"
    r"(?:(?:以下|下記|次の)[^\x00-\x7f\n。：]{0,10}[。：:]?[ \t]{0,2}\n{1,2}(?:```\w{0,12}\n)?[ \t]{0,8})?"
    r"(?:(?:\\{0,4}[\"'`][ \t]{0,4})?[:=：＝→(（][ \t*]{0,4}\n?[ \t]{0,4})?(?P<quote>\\{0,4}[「『\"'`“])?(?=[!-~])"
)
# A value begins with that, so far from its name at most: a quick look before the closer one.
_VALUE = lazy_re("[!-~]")
_REACH = 48
# 「ユーザー名とパスワードは admin / … です」
_BEFORE_PAIRS = lazy_re(r"[と/／・&][ \t]?パスワード\Z")
_LONGEST_NAME = 8
_SECOND = with_value(rf"[A-Za-z][\w.@-]{{1,31}}[ \t]?[/／][ \t]?{OPEN}")
_PIN = lazy_re(r"[0-9][0-9-]{3,9}(?![0-9A-Za-z])")
_PASSWORD: Judge = partial(told, 5, ".,;:)]}?")
_SECRET: Judge = partial(told, 8, ".,;:)]}?")
_OTHER_THINGS = lazy_re(
    "期限|形式|長さ|文字|件数|個数|方式|種類|アルゴリズム|ハッシュ|更新日|ファイル|変数|環境|名前|数は|数が|上限|最大|最小|使用量"
    "|消費|単価|予算|条件|要件|規則|ルール|ポリシー|仕様|制約|時間|回数|桁数|権限|スコープ"
    "|正規表現|指紋|フィンガープリント|関連|(?:エラー|失敗)$"
)
# Fields of a log and numbers of tickets: 「トークンが無効です (code=401)」、「パスワード変更 (PROJ-1234)」.
_FIELD = lazy_re(r"[A-Za-z][A-Za-z_]{1,23}=[0-9A-Za-z]")
# A password may look like these, where it follows its name.
_BRACKETS = "(（"
_BEFORE_FIELDS = "(（:："
_TICKET = lazy_re(r"[A-Z]{2,8}-[0-9]{1,6}(?![!-(*-~])")
_BEFORE_VALUES = "はがをに値"
# What follows a place or a method, and no value.
_NO_VALUE = lazy_re(
    r"[」』\"'`”]?[ \t]?"
    r"(?:を(?:ご)?参照|に(?:記載|保存|格納|送信|あり|ある)|で(?:導出|ハッシュ)|から(?:取得|読)|テーブル|ヘッダー|カラム)"
)
# 「…ですが、本番は … に変えてあります」
_OTHER = with_value(
    r"[」』\"'`”]?[ \t]?(?:です|でした|だった)(?:が|けど|けれど)、?[ぁ-ヿ一-鿿]{1,12}?は、?[ \t]{0,4}"
    r"(?P<quote>[「『\"'`“])?(?=[!-~])"
)
_SETTLED = lazy_re(r"[」』\"'`”]?[ \t]?(?:に変|に設定|にし|です|でした|を使)")


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


def japanese_values() -> tuple[Finder, ...]:
    """One for each row, and those for all languages."""
    return (
        *(
            JapaneseValues(
                kind, tuple(Anchor(name.replace("_", " "), len(name)) for name in names.split()), re.compile(rest)
            )
            for kind, names, rest in _NAMES
        ),
        *(ForeignValues(kind, _ends(names)) for kind, names in _FOREIGN),
        Pairs(),
        NewValues(),
        CodesBefore(),
        Alone(),
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


# Names in other languages, divided by bars.
_FOREIGN = (
    (
        "PASSWORD",
        "passwort|kennwort|mot de passe|mdp|contraseña|contrasena|la clave es|clave de acceso|clave del|senha|palavra-passe"
        "|wachtwoord|hasło|пароль|lösenord|passord|adgangskode|salasana|heslo|jelszó|şifre|parola|mật khẩu|kata sandi"
        "|password del|password di|password per|password è|密码|密碼|口令|비밀번호|암호|패스워드",
    ),
    (
        "API_KEY",
        "schlüssel|clé|clef|jeton|clave|chave|chiave|sleutel|ключ|токен|密钥|密鑰|秘钥|金鑰|令牌|私钥|授权码|API 키|시크릿 키"
        "|비밀키|액세스 키|토큰|시크릿",
    ),
    (
        "PIN",
        "code de vérification|code de confirmation|code de sécurité|code d'accès|code de connexion|bestätigungscode"
        "|sicherheitscode|verifizierungscode|einmalcode|zugangscode|anmeldecode|código de verificación"
        "|código de seguridad|código de acceso|código de confirmación|código de verificação|código de acesso"
        "|código de segurança|codice di verifica|codice di sicurezza|codice di accesso|verificatiecode|kod weryfikacyjny"
        "|код подтверждения|код доступа|проверочный код|验证码|驗證碼|校验码|动态码|确认码|인증번호|인증 코드|인증코드",
    ),
)
# Where a sentence ends, as far as a value may be told in it.
_STOP = lazy_re(r"[\n。；!！?？]|\.(?=\s)|;[ \t]")
_SENTENCE = 72
_SHORTEST_NAME = 2
_LONGEST_END = 10
_SHORTEST_END = 7
_TELLING = lazy_re(r"[0-9!-&*+/<-@^_`{-~“「『‘]")
# What binds a value to a name that stands before it.
_BINDS = lazy_re(
    r"[ \t]{0,2}[:=：＝][ \t]{0,4}"
    r"|[ \t](?:ist|lautet|war|est|sera|es|era|será|é|è|is|jest|to|är|er|on|je|là|adalah|[—–-])"
    r"(?:[ \t](?:jetzt|nun|ab sofort|ahora|agora|adesso|ora|nu|nyní|теперь|maintenant|désormais))?[ \t]{0,2}:?[ \t]{1,3}"
    r"|(?:是|为|為|[改换換变變更][成为為]|设[为成置]|更新为|重置为)了?[ \t]{0,3}|[은는][ \t]{1,2}|(?<=[^\x00-\x7f])[ \t]{1,2}(?=[!-~])"
)
_OPENED = with_value(OPEN)
_SENT_CODE = lazy_re(
    r"[「『\[【(（\"'`]?([0-9]{3}[ -][0-9]{3}|[0-9]{4,8})(?![0-9A-Za-z分秒位年月]|[ \t][分秒位]|[ -.][0-9])"
)
_NO_CODE = lazy_re(r"[ \t](?:min|sec|sek|hour|heure|stunde|hora|ora|ore|char|digit|мин|час|분|초)", re.IGNORECASE)


def _ends(names: str) -> tuple[Anchor, ...]:
    """The ends of names divided by bars, without their first letter, which may be a capital: every byte of a literal
    makes the search for all of them slower."""
    ends: set[str] = set()
    for name in names.split("|"):
        is_short = len(name) < _SHORTEST_END
        ends |= {name, name[0].upper() + name[1:]} if is_short else {name[1:][-_LONGEST_END:]}
    return tuple(Anchor(end, len(end)) for end in sorted(ends))


@dataclass(frozen=True, slots=True)
class ForeignValues:
    """Values in the same sentence behind some names; the places are those of their ends."""

    kind: str
    anchors: tuple[Anchor, ...]

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, done, calm = views.text, start, start
        several = [*places, end]
        for place, following in pairwise(several):
            # What stands behind the next name is told of that.
            reach = min(place + _SENTENCE, following if following > place + _SHORTEST_NAME else end)
            if place < done or (calm >= reach) or _TELLING.search(text, max(place, calm), reach) is None:
                calm = max(calm, reach)
                continue
            stop = _STOP.search(text, place, reach)
            last = reach if stop is None else stop.start()
            for binds in _BINDS.finditer(text, place, last):
                span = self._told(views, binds.end(), end, is_marked=binds[0].strip() in ("", ":", "=", "：", "＝"))
                if span is not None:
                    spans.append(span)
                    done = span[1]
                    break
        return spans

    def _told(self, views: Views, place: int, end: int, *, is_marked: bool) -> SecretSpan | None:
        if self.kind == "PIN":
            code = _SENT_CODE.match(views.text, place, end)
            if code is None or _NO_CODE.match(views.text, code.end(), end):
                return None
            return (*code.span(1), self.kind)
        value = _OPENED.match(views.text, place, end)
        if value is None or value["value"] is None:
            is_phrase = value is not None and value["quote"] is not None and self.kind == "PASSWORD"
            return phrase_at(views, place + len(value["quote"]), end) if value is not None and is_phrase else None
        least = 6 if self.kind == "PASSWORD" else 8 if is_marked else 16
        judge = SAID[least] if value["quote"] is None else quoted
        return secret_in(views, value.start("value"), value["value"], self.kind, judge)


_PAIR = with_value(
    r"[^\n.;。：:/\"'`=]{0,40}?[ \t]{0,2}(?:[:=：→は]|[ \t](?:is|are|ist|est|sind|son|é|são|sono))?[ \t]{1,3}"
    r"[\"'`「]?[\w.@+-]{1,64}[\"'`」]?[ \t]{0,2}[/／][ \t]{1,2}(?P<quote>[\"'`“「『‘])?"
)


@dataclass(frozen=True, slots=True)
class Pairs:
    """A user and a password behind a word for both: "the login for … is root / …"."""

    anchors: tuple[Anchor, ...] = _ends(
        "login|logins|account|zugangsdaten|anmeldedaten|identifiants|credenciales|credenciais|credenziali|inloggegevens"
        "|ログイン情報|アカウント|接続情報|ログイン|账号|帳號|用户名|계정"
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, done = views.text, start
        for place in places:
            # Few lines with such a word have a stroke.
            stroke = text.find("/", place, min(place + 110, end)) if done <= place else -1
            pair = _PAIR.match(text, place, end) if stroke >= 0 or "／" in text[place : place + 110] else None
            if pair is not None and pair["value"] is not None:
                judge = SAID[8] if pair["quote"] is None else quoted
                span = secret_in(views, pair.start("value"), pair["value"], "PASSWORD", judge)
                if span is not None:
                    spans.append(span)
                    done = span[1]
        return spans


_NAMED = lazy_re(
    r"(?P<password>passw|パスワード|密码|密碼|口令|mot de passe|contrase|senha)"
    r"|secret|token|api[ _-]?key|[a-z]_key|access key|シークレット|トークン|キー|密钥|密鑰|令牌|clé|schlüssel|jeton",
    re.IGNORECASE,
)
_NEW = with_value(
    r"[^\s:：=]{0,12}?(?:[ \t]?(?:is|est|ist|es|は|が|是|为|為|了|[:：=])){0,2}(?:[ \t](?:now))?[ \t]{0,3}" + OPEN
)
_BEFORE = 120


@dataclass(frozen=True, slots=True)
class NewValues:
    """The value of what was named before: "I rotated the key. The new one is …"."""

    anchors: tuple[Anchor, ...] = _ends(
        "new value|new one|new ones|新しい値|新しいの|新しいもの|新しい方|新值|新的|nouvelle valeur|neuer wert|neue wert|nuevo valor"
        "|novo valor|nuovo valore|更新为|改成|改为|换成|重置为|设置为|设为"
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        done = seen = start
        name: re.Match[str] | None = None
        for place in places:
            value = _NEW.match(views.text, place, end) if done <= place else None
            if value is None or value["value"] is None:
                continue
            # What was searched is not searched again.
            names = [*_NAMED.finditer(views.text, max(seen, place - _BEFORE), place)]
            name = names[-1] if names else name
            seen = place
            if name is None or name.end() < place - _BEFORE:
                continue
            kind = "SECRET" if name["password"] is None else "PASSWORD"
            judge = quoted if value["quote"] else SAID[8 if kind == "PASSWORD" else 16]
            span = secret_in(views, value.start("value"), value["value"], kind, judge)
            if span is not None:
                spans.append(span)
                done = span[1]
        return spans


_CODE_BEHIND = lazy_re(
    r"(?: (?:is|as) (?:your|the|ihr|dein)| est votre| ist ihr| es (?:tu|su)|您的|你的)[^\n.;:。]{0,40}?"
    r"(?:\bcode|otp\b|passcode|\bpin\b|código|验证码|驗證碼|校验码|动态码)",
    re.IGNORECASE,
)
_CODE_BEFORE = lazy_re(
    r"(?<![\w.,/#-])(?:[A-Za-z]-)?([0-9]{3}[ -][0-9]{3}|[0-9]{4,8})[」』\]】)）\"'`]?[ \t]?[是为]?\Z"
)
_LONGEST_CODE = 14


@dataclass(frozen=True, slots=True)
class CodesBefore:
    """A code before what it is: "… is your verification code"."""

    anchors: tuple[Anchor, ...] = tuple(
        map(
            Anchor,
            (
                " is your ",
                " as your ",
                " est votre ",
                " ist Ihr ",
                " ist dein ",
                " es tu ",
                " es su ",
                "您的",
                "你的",
            ),
        )
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        for place in places:
            code = _CODE_BEFORE.search(views.text, max(start, place - _LONGEST_CODE), place)
            if code is not None and _CODE_BEHIND.match(views.text, place, end):
                spans.append((*code.span(1), "PIN"))
        return spans


# A line with a word for it, and a paragraph that has nothing but the value.
_ALONE = lazy_re(
    r"[^\n]{0,120}[.:。：!！]?[ \t]{0,4}\r?\n(?:[ \t]{0,4}\r?\n)?[ \t]{0,8}([!-~]{8,64})[ \t]{0,4}(?=\r?\n[ \t]{0,4}\r?\n|\r?\n?\Z)"
)
_SENDS = lazy_re(
    r"送り|送付|送信し|知らせ|連絡|伝え|共有し|案内|記載|発行し|通知し|以下|下記|次の|こちら|\b(?:here|below|following|send|sending|sent"
    r"|share|sharing|attach|is:|folgt|anbei|ci-dessous|voici|aquí|abaixo|segue|qui)\b|如下|以下",
    re.IGNORECASE,
)
_MIXED = lazy_re(r"(?=[^a-z]*+[a-z])(?=[^A-Z]*+[A-Z])(?=[^0-9]*+[0-9])(?!#)[^\s./:()<>{}\[\]|`]++")


@dataclass(frozen=True, slots=True)
class Alone:
    """A password that stands alone below the sentence that sends it."""

    anchors: tuple[Anchor, ...] = _ends(
        "password|passphrase|passcode|パスワード|パスフレーズ|passwort|kennwort|mot de passe|contraseña|senha|密码|비밀번호"
    )

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, done = views.text, start
        for place in places:
            if place < done:
                continue
            line = text.find("\n", place, min(place + 130, end))
            done = place + 130 if line < 0 else line
            below = _ALONE.match(text, place, end) if line >= 0 else None
            if below is None or not _MIXED.fullmatch(below[1]):
                continue
            first = text.rfind("\n", max(0, place - _BEFORE), place) + 1
            if _SENDS.search(text, max(first, place - _BEFORE), line):
                span = secret_in(views, below.start(1), below[1], "PASSWORD", SAID[8])
                if span is not None:
                    spans.append(span)
        return spans
