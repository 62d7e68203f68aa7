"""The plan of the house: the rooms in the order in which they may use one another, and ``docs/architecture.md``.

What a room or a file owns is what its docstring begins with, so the page says it as the source does. Around the lists
stands what is written in ``architecture.en.md`` and ``architecture.ja.md`` beside this script.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import orihon

PACKAGE = Path(orihon.__file__).parent

#: From the top of the house to its entrances, each with its purpose in Japanese. A room may use any room above it.
ROOMS = {
    "texts": "人に見せるすべての文言（英語と日本語）",
    "errors": "エラーの階層。どのエラーも、何が起き、何をすればよいかを述べる",
    "system": "どの部屋も使うもの: 時計、JSON、丸ごと書かれる非公開ファイル、カウンター、進み具合を見る関数",
    "settings": "変更できない 1 つの `Settings`: フラグ、環境変数、`config.yaml`、既定値の順に優先する",
    "values": "ディスクを知らない値: メッセージ、トークン、レコード、タスク、ビュー",
    "drivers": "外部サービスの共通の窓口: SQLite、PostgreSQL、オブジェクトストレージ、ブローカー、トレースの収集先",
    "guard": "すべてのストアの前に立つもの。秘密は書かれる前にマスキングされる",
    "store": "タスクのストア: メッセージ、要約、ツール呼び出し、計画",
    "catalogue": "カタログ: タスクごとに 1 行。状態、持ち主のリース、統計",
    "notifications": "人への通知（圧縮、質問、失敗したタスク、警報）とその届け方",
    "audit": "監査: 誰がどのタスクに何をしたか。証明できるチェーンに残す",
    "compression": "圧縮: ビューをウィンドウに収める。いつ折るか、何を折るか、折りに何を書くか",
    "tasks": "タスクの一生: 置き場所、持ち主、コンテキスト、承認、引き継ぎ、欠けていないことの証明",
    "search": "履歴の検索: タスクが話したこと、したことのすべてから、どのバックエンドでも言葉を見つける",
    "llm": "モデルのクライアント: タスクのビューがファイルとして出ていき、完全な答え 1 つがログに戻る",
    "runtime": "働くエージェント: キュー、ワーカー、ツール、タスクの出どころ",
    "transfer": "タスク全体の複製: アーカイブ、エクスポート、フォーク、バックアップ、移行",
    "importers": "ほかのエージェントが書いた記録を読み、タスクとして残す",
    "reports": "人が見るもの: タスクの概要、一覧、差分、タスクや日ごとの合計、異常の有無",
    "upkeep": "ベースを健康に保つもの: 修復、保存期間、スキャン、プライバシー、鍵",
    "base": "玄関の `Base`: タスクの入ったフォルダーまたはデータベース。コマンドができることは、メソッドでもできる",
    "aio": "非同期プログラムのための `Base` と `Task`。同期のものからスレッドで作られる",
    "proxy": "1 つのベース URL（`orihon proxy`）: エージェントの会話をタスクとして残し、ウィンドウに収める",
    "adapters": "よく使われているフレームワークの下に置くもの。そのセッションやセーバーや履歴が、そのままタスクになる",
    "web": "Web ページと JSON API（`orihon serve`）。見せるものは、コマンドと同じ関数から得る",
    "mcp": "MCP サーバーとしての履歴（`orihon mcp`）。MCP を話すどのエージェントも検索し、一字一句呼び出せる",
    "cli": "コマンド `orihon`: コマンドごとに 1 ファイル。仕事は上の部屋がする",
    "classic": "最初の設計の名前。ほかの部屋の上の薄い層",
}

_HEADS = {
    "en": {"rooms": "| room | purpose |", "files": "| file | owns |"},
    "ja": {"rooms": "| 部屋 | 目的 |", "files": "| ファイル | 受け持ち |"},
}
_PLACE = re.compile(r"^<!-- (rooms|files|walk: \w+ (?:down|up)) -->$", re.MULTILINE)


def architecture_page(lang: str) -> str:
    """The template of a language with the rooms, the walks and the files set in."""
    template = (Path(__file__).parent / f"architecture.{lang}.md").read_text(encoding="utf-8")
    return _PLACE.sub(lambda found: _set_in(found[1], lang), template)


def _set_in(what: str, lang: str) -> str:
    if what == "rooms":
        return "\n".join([_HEADS[lang]["rooms"], "|---|---|", *(_room_row(room, lang) for room in ROOMS)])
    if what == "files":
        return "\n\n".join(_files_in(room, lang) for room in ROOMS if (PACKAGE / room).is_dir())
    from scripts.walks import walks

    _, entrance, direction = what.split()
    walk = walks()[entrance]
    return walk.down() if direction == "down" else walk.up()


def _room_row(room: str, lang: str) -> str:
    path = PACKAGE / room
    shown, source = (f"{room}/", path / "__init__.py") if path.is_dir() else (f"{room}.py", path.with_suffix(".py"))
    return f"| `{shown}` | {_purpose(source) if lang == 'en' else ROOMS[room]} |"


def _files_in(room: str, lang: str) -> str:
    """A heading and a table: every file of a room, those of inner rooms with their folder."""
    files = sorted(path for path in (PACKAGE / room).rglob("*.py") if path.name != "__init__.py")
    rows = [f"| `{path.relative_to(PACKAGE / room)}` | {_purpose(path)} |" for path in files]
    return "\n".join([f"### `{room}/`", "", _HEADS[lang]["files"], "|---|---|", *rows])


@cache
def _purpose(path: Path) -> str:
    """What a docstring begins with, up to the first empty line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert said, path
    return " ".join(said.split("\n\n")[0].split()).replace("``", "`").replace("|", "\\|").removesuffix(".")
