"""Is that a secret? A value beside a name such as ``password`` is one, unless it is code, a template or a word.

Owns the judgement of values by their form alone. Prefers to leave a word that could be a type, a variable or a remark
(``token: str``, ``password=password``, "the token is invalid"); a person's secret nearly always has a digit or a mark
among its letters. Every test is one linear expression on at most ``LONGEST`` characters: no part of it matches in
two ways.
"""

from __future__ import annotations

import re

from orihon.system.patterns import lazy_re

LONGEST = 256

# Code, templates, addresses and places in the file system are no secrets, whatever they are called.
_CODE = lazy_re(
    r"""\$[\w{(]|\{|<|%[sdr(]|\[|\(|\*+$|\.{2,}|…|//|--|\#\{|@@|!{1,2}(?:\(|[a-z_]\w*+[.(\[])
    |[A-Za-z_][\w.]*+(?:->|::)?[(\[{]                     # a call, an index, a type with parameters
    |(?:env|file|ssm|vault|op|sops|keyring|keychain|bw|doppler|akv|gsm|asm|secretsmanager|ref\+\w{1,16}):[\w/.]
    |(?:~|\.{1,2})?/[\w.~-]+(?:/|$) | [A-Za-z]:\\ | [a-z][a-z0-9+.-]*:// | arn:aws | projects/[\w-]+/
    |(?:self|this|cls|os|sys|env|args|opts|options|config|settings|process|request|req|ctx|data|props|params|secrets
       |vault|System|var|local|module|context|state|kwargs|obj|user|conf|cfg|event|input|form|session|response|result
       |Optional|Union|List|Dict|Option|Vec|Map)\??[.\[|]
    """,
    re.VERBOSE,
)
# Every branch begins with a literal: such a search takes a third of the time.
_TEMPLATE_INSIDE = lazy_re(r"\$\{|\$\(|\{\{|%\(|<[a-z_ -]+>|\{[a-z_.]+\}|\.\.\.|…|xxxx|XXXX|\*\*\*|••|\(\)$")
# These two are for values in small letters: an expression that does not care for them takes three times as long.
_DUMMY = lazy_re(
    r"(?:your|my|the|some|our)[-_ .]?(?:own|api|secret|access|auth|private|super|new|real|actual|strong|key|token"
    r"|password|pass|client)\b.*"
    r"|(?:insert|enter|replace|change|put|paste|example|sample|dummy|fake|placeholder|redacted|masked|hidden|removed"
    r"|todo|none|null|nil|true|false|undefined|unset|empty|default|optional|required|missing|invalid|valid|expired"
    r"|unknown|disabled|enabled|wrong|incorrect|correct|changed|encrypted|hashed|stored|saved|sent|set|unchanged)"
    r"(?:[-_ .]?[a-z]{1,12}+){0,6}+[!?]?",
)
# Words with a digit that name things: algorithms, formats, versions, numbered variables.
_THING = lazy_re(
    r"(?:sha|md|aes|rsa|utf|base|oauth|http|ipv|ed|hs|rs|es|pbkdf|argon|bcrypt|scrypt|hmac|curve|secp|x|py|python|node"
    r"|gpt|claude|llama|qwen|gemini|user|test|key|token|pass|password|passwd|pwd|secret|value|val|arg|param|var|field"
    r"|item|foo|bar|baz|line|step|phase|level|version|v|row|col|table|part|str|string|int|uint|float|bytes?|char|bool"
    r"|varchar|text|i|u|f|s3|ec|h|p|n|auth|section|option|type|case|mode|m?tls|ssl|iso|rfc|cve|issue|page|figure|fido"
    r"|keepass|pkcs|ntlm)[-_ /]?v?[0-9]++(?:[-_.]?(?:[0-9]++|sha[0-9]++|[di]|le|be|bits?|gcm|cbc))*|1password",
)
# PBKDF2-HMAC-SHA256, "RS256-signed".
_ALGORITHM = (
    r"(?:pbkdf2|aws4|s?crypt|bcrypt|argon2(?:id|[di])?|hmac|sha[0-9]{0,3}|md5|aes[0-9]{0,3}|rsa[0-9]{0,4}|ecdsa|ed25519"
    r"|[rhep]s[0-9]{3}|gcm|cbc|ctr|x?chacha20|poly1305|scram|digest|plain|base64)"
)
_ALGORITHMS = lazy_re(rf"{_ALGORITHM}(?:[-_/](?:{_ALGORITHM}|[0-9]{{1,4}}|signed|hashed|encoded|encrypted))++")
_NUMBER = lazy_re(r"[+-]?v?[0-9][0-9.,:_/\-TZ+]*(?:[a-zA-Z%]{1,3}|min|sec|days?|hours?|tokens?|bytes)?")
_DASHED_NAME = lazy_re(r"[a-z]+[0-9]{0,2}(?:-(?:[a-z]+[0-9]{0,2}|v?[0-9]{1,4}))+")
_IDENTIFIER = lazy_re(
    # Words between underscores or before a number, constants, what is divided by dots.
    r"_*[a-z]+[0-9]{0,2}(?:[_.](?:[a-z]+[0-9]{0,3}|v?[0-9]{1,3}))+_*|[a-z]+(?:-[a-z]+)*-v?[0-9]{1,2}"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|[A-Z]+"
    r"|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+"
)
# A word and a number, as people choose them, unless the word is what variables, fields and errors are named.
_NUMBERED_WORD = lazy_re(
    r"(?![a-z_]*?(?:pass|pwd|secret|token|key|cred|var|ref|env|val|param|conf|default|err|code|msg|label|field|text))"
    r"[a-z]{3,24}(?:_[a-z]{2,24}){0,3}_[0-9]{2,6}"
)
# What a line of a log says: ``input=1200``, ``profile=stage-1``.
_FIELD = lazy_re(rf"[a-z_]{{2,24}}=(?:[0-9]{{1,9}}(?:/?[a-z]{{1,2}})?|{_DASHED_NAME.pattern})")
_FILE = lazy_re(
    r"[\w./@-]+\.(?:jsonl?|ya?ml|txt|py|[jt]sx?|env|pem|key|cfg|ini|toml|sh|md|log|crt|xml|html?|css|go|rs|java|php|rb"
    r"|c|cc|cpp|h|sql|db|lock|gz|zip|png|com|org|net|io|dev|jp|local)(?::[0-9]+)?",
    re.IGNORECASE,
)
# Addresses and files, all of which have a dot; numbers and words in camel case.
_DOTTED_THING = lazy_re(rf"[\w.+-]+@[\w-]+\.[\w.:/~-]+|(?i:{_FILE.pattern})")
_NUMBER_OR_WORD = lazy_re(rf"{_NUMBER.pattern}|_?[a-z]+(?:[A-Z][a-z]+)*|(?:[A-Z][a-z]+)+|[A-Z]{{1,4}}[a-z]+")
# Options and paths begin with one of these.
_NO_BEGINNING = ("/", "-", "=", ">", "|", "\\", "./")
_NO_PASSWORDS = """
    password passwd passphrase secret token credential credentials string hidden field label value text input
    number bearer basic digest access refresh jwt oauth opaque plain plaintext bcrypt argon scrypt base hash
    hashed prompt username email login account admin root public private internal header cookie query body
    session local remote system service server client integer boolean object array function method class return
    import from with file path folder environment variable config settings kubernetes vault manager keyring
    keychain interactive create update delete reset change rotate forgot confirm current previous another
    mandatory passwort kennwort provided given generated random unique specified according because before after
    during without through
"""
_WORDS = frozenset(_NO_PASSWORDS.split())
# Words with a capital and a digit between dots are a password, unless one of them is what fields or modules are named.
_DOTTED_WORDS = lazy_re(
    r"(?!(?i:[a-z0-9.]*?(?:pass|pwd|auth|login|label|user|form|field|secret|token|cred|config|setting)))"
    r"(?!(?i:(?:[a-z0-9]++\.)*?(?:key|conf|env|base|utf|sha|md[45]|http|s3|db|sql|util|client|server|test|step|page|item"
    r"|value|get)))"
    r"(?=[A-Za-z.]*+[0-9])(?=[a-z0-9.]*+[A-Z])[A-Za-z0-9]{3,}+(?:\.[A-Za-z0-9]{3,}+)++"
)
# What sentences about passwords have, and passphrases do not, in the languages that labels are translated to most.
_IN_SENTENCES = """
    the and for with your you not are was has have had can must may will this that from but all any its our their
    then than when what which who how why use using used please enter type password passwords passphrase username
    user email account login sign again least characters letters numbers digits symbols empty short match matches
    invalid incorrect wrong required missing change changed reset forgot forgotten confirm current new old default
    secret token key value field string here there should could would cannot does did only also into over under
    before after until without stored hashed encrypted same different some each every more most less too very one
    two three none null true false error failed success set get read write file path environment variable contain
    contains provide choose words word phrase test example bitte ihr ihre das der die den und oder ein eine ist
    nicht mit passwort kennwort votre mot passe les des pour avec est une entrez sua senha seu para com por
    introduce ingrese los las una del que con inserisci tua della wachtwoord voer het een
"""
_SENTENCE_WORDS = frozenset(_IN_SENTENCES.split())
_OF_PHRASES = """
    the and for with from but all its then than over under before after into without same some each every more most
    less too very one two three only here there und mit der die das les des las los con por para
"""
_BINDING_WORDS = frozenset(_OF_PHRASES.split())
_SHORTEST_SPACED, _LONGEST_SPACED = 8, 64
_MARK = lazy_re(r"[!@#$%^&*~+=?]")
_DIGIT = lazy_re(r"[0-9]")
_LETTER = lazy_re(r"[A-Za-z]")
# No word between dots or underscores: capitals, small letters and figures in one long run.
_RANDOM_RUN = lazy_re(
    r"(?=[a-z0-9]{0,20}[A-Z])(?=[A-Z0-9]{0,20}[a-z])(?=[A-Za-z]{0,20}[0-9][A-Za-z]{0,20}[0-9])[A-Za-z0-9]{20}"
)
# From a capital to something else, or back.
_TURN = lazy_re(r"[A-Z](?=[^A-Z])|[^A-Z](?=[A-Z])")


def is_strong(value: str, *, is_password: bool, least: int = 6) -> bool:
    """Has it a form that words, names and figures do not have?"""
    if not least <= len(value) <= LONGEST or not value.isascii():
        return False
    # What is cheap to see comes first: most values have neither digit nor mark.
    has_digit = _DIGIT.search(value) is not None
    if not has_digit:
        has_mark = _MARK.search(value, 0, len(value) - 1) is not None and (len(value) >= 8 or is_password)
        if not has_mark and not _is_shuffled(value, 10 if is_password else 16):
            return False
    elif _LETTER.search(value) is None:
        return is_password and value.isdigit()
    if value.isalnum() and has_digit:
        return not _is_plain_name(value)
    # Code and templates have marks, but for one.
    is_word = value.replace("_", "a").isalnum() and "xxxx" not in value and "XXXX" not in value
    if not is_word and (_CODE.match(value) or _TEMPLATE_INSIDE.search(value)):
        return False
    if _DUMMY.fullmatch(value.lower()):
        return False
    return not _is_name(value, is_password=is_password, has_digit=has_digit)


def is_quoted_secret(value: str, *, is_password: bool) -> bool:
    """The same for a text in quotes: a password there may be one plain word."""
    if " " in value or not value.isprintable():
        return False
    if is_strong(value, is_password=is_password, least=5 if is_password else 8):
        return True
    return is_password and 6 <= len(value) <= 64 and value.isalpha() and value.isascii() and _is_plain_word(value)


def is_env_secret(value: str, *, is_password: bool) -> bool:
    """The same for what stands after ``NAME=`` in capitals: values there are no code."""
    if is_strong(value, is_password=is_password, least=5 if is_password else 8):
        return True
    if (
        _CODE.match(value)
        or _TEMPLATE_INSIDE.search(value)
        or _DUMMY.fullmatch(value.lower())
        or _FILE.fullmatch(value)
    ):
        return False
    # Words divided by dashes are a password, but the name of a token or a secret.
    return (
        is_password
        and 4 <= len(value) <= 64
        and value.isascii()
        and (
            _DASHED_NAME.fullmatch(value) is not None
            or is_numbered_word(value)
            or (value.isalpha() and _is_plain_word(value))
        )
    )


def is_numbered_word(value: str) -> bool:
    """A word, an underscore and a number: a password where no variable can stand."""
    return _NUMBERED_WORD.fullmatch(value) is not None and _THING.fullmatch(value) is None


def is_spaced_secret(value: str) -> bool:
    """Several words in quotes of which one at least is none, and no other what a label or a sentence has."""
    if len(value) > _LONGEST_SPACED or _CODE.match(value) or _TEMPLATE_INSIDE.search(value):
        return False
    words = value.lower().split(" ")
    plain = [word for word in words if word.isalpha()]
    if len(value) < _SHORTEST_SPACED or not _SENTENCE_WORDS.isdisjoint(plain) or not _WORDS.isdisjoint(plain):
        return False
    return any(is_strong(word, is_password=True, least=4) and not word.isdigit() for word in value.split(" "))


def is_passphrase(value: str, *, is_told: bool = False) -> bool:
    """Are these words that nobody puts into a sentence? Where they are said to be a phrase, some may bind others."""
    words = value.split(" ")
    if len(set(words)) < 4 or _SENTENCE_WORDS.isdisjoint(words):
        return len(set(words)) >= 4
    common = _SENTENCE_WORDS.intersection(words)
    return is_told and common <= _BINDING_WORDS and 3 * len(common) <= len(words)


def _is_plain_name(value: str) -> bool:
    """Is it a template or a name, where it has letters and digits only? All other forms of those have marks."""
    lower = value.lower()
    if "xxxx" in value or "XXXX" in value or _DUMMY.fullmatch(lower):
        return True
    return _THING.fullmatch(lower) is not None or _NUMBER.fullmatch(value) is not None


def _is_name(value: str, *, is_password: bool, has_digit: bool) -> bool:
    lower = value.lower()
    if _ALGORITHMS.fullmatch(lower):
        return True
    if _THING.fullmatch(lower) or _IDENTIFIER.fullmatch(value):
        if has_digit and _RANDOM_RUN.search(value):
            return False
        is_chosen = value.count("-") >= 2 or (len(value) >= 8 and _DOTTED_WORDS.fullmatch(value) is not None)
        return not (is_password and has_digit and is_chosen) or _FILE.fullmatch(value) is not None
    if _is_other_thing(value):
        return True
    return not is_password and (_DASHED_NAME.fullmatch(value.replace("/", "-")) or _FIELD.fullmatch(value)) is not None


def _is_other_thing(value: str) -> bool:
    """Is it an address, a file, a number, a word in camel case, an option, a path, a call?"""
    return (
        value.startswith(_NO_BEGINNING)
        or "://" in value
        or "()" in value
        or ("." in value and _DOTTED_THING.fullmatch(value) is not None)
        or _NUMBER_OR_WORD.fullmatch(value) is not None
    )


def _is_plain_word(value: str) -> bool:
    lower = value.lower()
    return lower not in _WORDS and not _DUMMY.fullmatch(lower) and not value.isupper()


def _is_shuffled(value: str, least: int) -> bool:
    """Letters only, but capitals all over the place, as in random keys."""
    return len(value) >= least and not value.islower() and len(_TURN.findall(value)) * 3 >= len(value)
