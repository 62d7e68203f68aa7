"""By which words one tells what a sentence is for, in English, Japanese and Chinese.

Cues, not meanings: they say what to quote first, never what somebody decided. What they miss is still read as words.
"""

from __future__ import annotations

from orihon.system.patterns import lazy_re

#: What must or must not be, said so that nobody can overlook it.
STRICT = lazy_re(
    r"\b(?:MUST|NEVER|NOT|ONLY|EXACT|ALWAYS)\b|\b(?i:must|never|do not|don't|exactly)\b"
    r"|必ず|禁止|しないで|てはいけない|必须|不要|不得|不能|务必"
)
_RULE = lazy_re(
    r"\b(?i:make sure|ensure|should|required?|requirements?|at least|at most|no more than|without|except|forbidden"
    r"|allowed|only|prefer|important|avoid|instead)\b"
    r"|絶対|ないで|だけ|ください|下さい|不可|必須|条件|制約|ほしい|至少|最多|只能|一定要|希望|请"
)
_WANTED = lazy_re(
    r"\b(?i:please|want|need|would like|can you|could you|expect(?:ed)?|task|goal|fix|implement|add|create|make|build"
    r"|change|update|support|issue|bug|problem|does(?:n't| not)|fails?|errors?)\b|たい|お願い|作っ|直し|需要|帮"
)
#: Something said before no longer holds.
CORRECTS = lazy_re(
    r"\b(?i:changed? my mind|instead|actually|no longer|not .{1,30} but|rather than|scratch that|forget (?:that|it)"
    r"|on second thought|correction)\b|やっぱり|ではなく|じゃなく|変更|訂正|改めて|改成|改为|而不是|不是"
)
#: Somebody in a talk asks for something to be done.
ASKS = lazy_re(
    r"\b(?i:please|can you|could you|would you|you must|you should|use|never|always|do not|make sure|changed? my mind"
    r"|instead of|i want you|i need you|from now on|no longer)\b"
    r"|してください(?!ね)|して下さい(?!ね)|しないで|ようにして|必ず|今後|请|不要|必须|务必|改成|别"
)
_FOUND = lazy_re(
    r"\b(?i:found|because|caused?|root cause|(?:issue|problem) (?:is|was)|fail(?:s|ed|ing|ure)?|errors?|not|n't|cannot"
    r"|now|fixed|works?|worked|pass(?:es|ed)?|confirmed|instead|decided|chose|already|still|only|missing|wrong"
    r"|successfully|turns out|however|but|actually|means|reproduced|updated|changed|added|removed|created|next"
    r"|remaining|needs? to|should|must|therefore|so that|discrepancy|mismatch|differ(?:s|ent)?)\b"
    r"|原因|失敗|成功|解決|修正|エラー|決め|決定|できな|ません|なので|つまり|しかし|ただし|次|残り"
    r"|失败|解决|修复|错误|决定|没有|不能|但是|因此|接下来"
)
_REASONS = lazy_re(r"\b(?i:because|instead|rather than|so that|since)\b|なので|ため|から|因为|所以")
_EMPTY = lazy_re(
    r"\W*(?:(?i:actually|but wait|wait|hmm|maybe|good|let me|let's|let us|i'll|i will|now i|now let|next,? (?:i|let)"
    r"|first,? (?:i|let)|certainly|great"
    r"|perfect|sure|excellent|okay|ok|thank|you're welcome|sorry|i can see|looking at|here(?:'s| is| are))\b"
    r"|はい|ありがとう|了解|それでは|では|好的|谢谢|当然)"
)
#: What was settled, by whoever says so of his own work.
DECIDED = lazy_re(
    r"\b(?i:(?:i|we)(?:'ve| have)? (?:decided|chose|agreed|settled)|decided to|the decision is"
    r"|(?:i|we)(?:'ll| will) (?:use|keep|go with|stick with) .{3,60}(?:instead of|rather than))\b"
    r"|ことにし(?:ます|た)|に決め(?:ます|た)|を採用し(?:ます|た)|(?:我|我们)?决定(?!吗)|改用"
)
#: What comes next.
NEXT = lazy_re(
    r"\W*(?:(?i:next(?: steps?)?:|remaining:|still (?:to do|open)|to ?do:)|次は|残り|未完了|接下来|下一步|待办)"
)
#: A command that changes something which stays.
DOES = lazy_re(
    r"\b(?:install|uninstall|upgrade|service|systemctl|start|stop|restart|create|drop|migrate|deploy|build|commit|checkout"
    r"|merge|rebase|reset|revert|stash|push|apply|clone|init|mv|cp|rm|chmod|ln|docker|kubectl|psql|mysql)\b"
)
#: What a program reports that it has done.
REPORTS = lazy_re(
    r"(?i:commit(?:ted)? [0-9a-f]{6,}|\[[\w/.-]+ [0-9a-f]{7,}\]|applied|created|deleted|renamed|removed|undid"
    r"|reverted)\b"
)
_PERSONAL = lazy_re(
    r"\b(?i:my|name is|i'm|i am|i was|i've|i have|i had|i love|i like|i hate|i work|i live|i went|i got|i started"
    r"|i want|i plan|years?|favou?rite|born|family|mother|father|sister|brother|son|daughter|wife|husband"
    r"|friend|dog|cat|job|promised?|remember)\b"
    r"|好き|嫌い|苦手|怖い|飼っ|はまっ|ハマっ|住ん|働い|仕事|趣味|昔|以前|前に|年|ぶり|初めて|生まれ|実家|家族|父|母"
    r"|兄|姉|弟|妹|友達|約束|予定|したい|きたい|行っ|ました|してい|私は|僕は"
    r"|名前は|と申し|我叫|名字|喜欢|讨厌|害怕|住在|工作|爱好|第一次|家人|爸爸|妈妈|朋友|约定|打算|想去|我是|我在|我的"
)
_REACTION = lazy_re(
    r"\W*(?:(?i:wow|that's|that is|sounds|thanks|thank you|yeah|yes|no problem|glad|great|awesome|cool|nice|congrat"
    r"|haha|bye|take care|good luck|you're|hey)\b"
    r"|そう(?:なん|です|でした|か)|なるほど|いいです|すごい|わあ|へえ|へぇ|確かに|たしかに|はい|ありがとう|こんにち"
    r"|よろしく|こちらこそ|うん|ええ|是的|谢谢|好的|真的|哈哈|你好|没关系|不客气|当然)"
)
_GREETING = lazy_re(  # or nothing but commands to the program
    r"\W*(?:(?i:hi|hello|ok|okay|thx)|こんにちは|お願いします|你好|嗯)\W*$|(?:/\w+[^\n]*\s*)+$"
)
_ADVICE = lazy_re(
    r"\b(?i:you should|you could|you can|try to|i(?:'d| would) suggest|it's important to)\b"
    r"|みては|あなたは|建议|你可以|你应该|试试"
)
#: Ids of what was taken back, and any id.
UNDONE = lazy_re(r"(?i:removed|reverted|reverts?|undid|undone)\W{1,3}(?:commit )?([0-9a-f]{7,40})\b")
HASH = lazy_re(r"\b[0-9a-f]{7,40}\b")
_SHOWN = (  # what stands in a text without saying anything
    (lazy_re(r"(?:[\w.@+~-]+/?(?: {2,}|\t[\t ]*))+[\w.@+~-]+/?$"), 0.1),  # columns of names
    (lazy_re(r"[0-9a-f]{20,}\b"), 0.1),
    (lazy_re(r"[-dlbcps][rwxsStT-]{9}\b"), 0.3),
    (lazy_re(r"(?:from [\w.]+ )?import [\w*{(]|use (?:\w+::)+|#include\b|export \* from"), 0.5),
)
_MAY_BE_SHOWN = lazy_re(
    r"[-dlbcps][rwxsStT-]{9}|[0-9a-f]{20}|(?:from|import|use|export|#include)\b|[\w.@+~/-]+(?:  |\t)"
)
_NO_WORDS = str.maketrans("", "", ".,:;!?()'\"`*")


def is_reaction(said: str) -> bool:
    """Whether nothing is said but thanks, a greeting or applause."""
    if _GREETING.match(said):
        return True
    return _REACTION.match(said) is not None and not any(
        one.search(said) for one in (STRICT, _RULE, _WANTED, CORRECTS, ASKS)
    )


def demand(said: str) -> float:
    """How much a sentence of a user asks for."""
    if is_reaction(said):
        return 0.3
    worth = 0.3 if said.endswith((":", "：")) else 1.0  # announces only
    if STRICT.search(said):
        worth += 1.8 if "\n" in said or "`" in said else 1.2  # with the very command
    elif _RULE.search(said):
        worth += 0.6
    worth += 0.4 if _WANTED.search(said) else 0.0
    return max(worth, 2.2) if CORRECTS.search(said) else worth  # what no longer holds must not be the last word


def statement(said: str) -> float:
    """How much a sentence of an assistant tells about its work."""
    worth = 0.7 + 0.35 * min(len(_FOUND.findall(said)), 3)
    is_empty = _EMPTY.match(said) and not _REASONS.search(said)
    return worth * (0.35 if is_empty else 1.0) * (0.8 if said.endswith(("?", "？")) else 1.0)


def of_talk(said: str) -> float:
    """How much a sentence tells about the people who talk."""
    advises = _ADVICE.search(said) is not None
    return (1.8 if _PERSONAL.search(said) and not advises else 1.0) * (
        0.45 if advises or _REACTION.match(said) else 1.0
    )


def shown(line: str) -> float:
    """Listings, hashes and imports say next to nothing by themselves."""
    if not _MAY_BE_SHOWN.match(line):
        return 1.0
    return next((worth for pattern, worth in _SHOWN if pattern.match(line)), 1.0)


def is_prose(said: str) -> bool:
    """Whether a text is said, and not shown: words with blanks between them, or a script that has none."""
    if (
        not said.isascii()
        and sum("\u3040" <= letter <= "\u9fff" or "\uac00" <= letter <= "\ud7af" for letter in said) > 5
    ):
        return True
    words = said.split()
    return len(words) >= 4 and 2 * sum(word.translate(_NO_WORDS).isalpha() for word in words) >= len(words)
