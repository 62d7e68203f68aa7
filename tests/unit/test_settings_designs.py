"""The configurations of the designs load as they are printed, and each of their spellings means its key."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from orihon.classic.memory.memory_manager import MemoryConfig
from orihon.settings import schema
from tests.configurations import Write, load

DESIGN_000 = """
# コンテキストストレージ設定
context_storage:
  enabled: true                           # ファイル化を有効にするか
  backend: "sqlite"                       # "sqlite" or "jsonlines"
  base_dir: "logs/contexts"               # 保存先ベースディレクトリ
  max_memory_messages: 20                 # メモリに保持する最大メッセージ数
  compression_threshold: 0.7              # コンテキスト圧縮開始閾値（70%）
  min_messages_to_summarize: 10           # 要約に必要な最小メッセージ数
  retention_days: 30                      # コンテキストの保持期間（日）

  # 古いコンテキストの圧縮設定
  archive:
    enabled: true                         # アーカイブ機能を有効化
    threshold_days: 7                     # 何日経過したらアーカイブするか
    format: "gzip"                        # 圧縮形式（gzip/bzip2/xz）

# LLM設定にコンテキスト長を追加
llm:
  provider: "openai"    # "openai" | "lmstudio" | "ollama"
  function_calling: true

  openai:
    api_key: "${OPENAI_API_KEY}"
    base_url: "https://api.openai.com/v1"
    model: "gpt-4o"
    max_token: 40960
    context_length: 128000              # GPT-4oのコンテキスト長

  lmstudio:
    base_url: "http://127.0.0.1:1234"
    model: "qwen3-30b-a3b-mlx"
    context_length: 32768               # モデル依存
    max_token: 32768

  ollama:
    endpoint: "http://localhost:11434"
    model: "qwen3-30b-a3b-mlx"
    context_length: 32768               # モデル依存
    max_token: 32768

# マルチプロセス設定
multiprocess:
  enabled: true                           # マルチプロセス実行を有効化
  max_workers: 4                          # 同時実行プロセス数
  process_timeout: 3600                   # プロセスタイムアウト（秒）
  heartbeat_interval: 30                  # ハートビート間隔（秒）
"""

DESIGN_001 = """
# コンテキストストレージ設定
context_storage:
  enabled: true                    # コンテキストファイル化を有効化
  base_dir: "contexts"             # ベースディレクトリ
  compression_threshold: 0.7       # 圧縮開始閾値（70%）
  cleanup_days: 30                 # 完了タスクのクリーンアップ日数

  # 要約プロンプト（config.yamlに記述）
  summary_prompt: |
    あなたは会話履歴を要約するアシスタントです。
    以下のメッセージ履歴を簡潔かつ包括的に要約してください。

    要約には以下を含めてください：
    1. 重要な決定事項
    2. 実施したコード変更
    3. 発生した問題とその解決
    4. 残存タスク

    元の30-40%の長さを目標としてください。

    === 要約対象メッセージ ===
    {messages}

    要約のみを出力してください。

# LLM設定（既存）にcontext_lengthを追加
llm:
  provider: "openai"
  openai:
    model: "gpt-4o"
    context_length: 128000         # モデルのコンテキスト長
    api_key: "${OPENAI_API_KEY}"
    base_url: "https://api.openai.com/"
  ollama:
    model: "qwen3-30b"
    context_length: 32768          # モデルのコンテキスト長
"""

DESIGN_002 = """
context:
  # コンテキストベースディレクトリ
  base_dir: "contexts"

  # コンテキスト圧縮設定
  compression:
    token_threshold: 8000      # 圧縮トリガーのトークン数
    keep_recent: 10            # 圧縮時に保持する最近のメッセージ数
    min_to_compress: 5         # 圧縮する最小メッセージ数

  # コンテキスト継承設定
  inheritance:
    enabled: true                    # コンテキスト継承を有効化
    max_summary_tokens: 4000         # 継承要約の最大トークン数
"""

DESIGN_004 = """
# config/compression.yaml

compression:
  auto_compress_on_approval: true
  confirm_before_compress: false  # trueの場合、Human確認を要求
  preserve_exploration_days: 7    # 探索ログの保持日数
  archive_format: "markdown"      # markdown or json
"""


def test_config_of_design_000(write: Write) -> None:
    settings = load(write(DESIGN_000), {"OPENAI_API_KEY": "k"})
    storage = settings.context_storage
    assert (storage.backend, storage.base_dir, storage.max_memory_messages) == (
        "sqlite",
        Path("logs/contexts"),
        20,
    )
    assert (settings.compression.threshold, settings.compression.min_to_compress) == (0.7, 10)
    assert (settings.archive.enabled, settings.archive.threshold_days, settings.archive.format) == (
        True,
        7,
        "gzip",
    )
    assert settings.retention.days == 30
    assert settings.llm.openai.api_key == "k"
    assert settings.llm.openai.max_token == 40960
    assert settings.llm.ollama.base_url == "http://localhost:11434"
    assert settings.multiprocess.enabled
    assert settings.multiprocess.process_timeout == 3600
    assert settings.is_explicit("compression.threshold")


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("context_storage:\n  db_timeout: 60  # デフォルト30秒 → 60秒に", "context_storage.db_timeout", 60),
        ("context_storage:\n  max_retries: 5\n  retry_delay: 1.0", "context_storage.retry_delay", 1.0),
        ("context_storage:\n  compression_threshold: 0.5", "compression.threshold", 0.5),
        ("context_storage:\n  min_messages_to_summarize: 5", "compression.min_to_compress", 5),
        ("multiprocess:\n  max_workers: 2", "multiprocess.max_workers", 2),
        ("context_storage:\n  max_memory_messages: 10", "context_storage.max_memory_messages", 10),
    ],
)
def test_troubleshooting_of_design_000(write: Write, text: str, key: str, value: float) -> None:
    assert load(write(text)).get(key) == value


def test_config_dicts_of_design_000() -> None:
    """§11.2, and the keys that §4.4 reads from the llm section."""
    settings = load(
        {
            "context_storage": {"enabled": True, "backend": "sqlite"},
            "llm": {"provider": "openai", "openai": {"context_length": 128000}},
        }
    )
    assert settings.context_storage.backend == "sqlite"
    settings = load(
        {
            "context_storage": {"enabled": True, "compression_threshold": 0.5},
            "llm": {"openai": {"context_length": 10000}},
        }
    )
    assert (settings.context_length, settings.compression.threshold) == (10000, 0.5)
    settings = load({"llm": {"compression_threshold": 0.6, "max_memory_messages": 5}})
    assert (settings.compression.threshold, settings.context_storage.max_memory_messages) == (0.6, 5)


def test_config_of_design_001(write: Write) -> None:
    settings = load(write(DESIGN_001), {"OPENAI_API_KEY": "k"})
    assert settings.retention.days == 30
    assert settings.llm.openai.base_url == "https://api.openai.com/"
    prompt = settings.compression.summary_prompt
    assert prompt is not None
    assert prompt.startswith("あなたは会話履歴を要約するアシスタントです。\n")
    assert "\n{messages}\n" in prompt


def test_config_of_design_002(write: Write) -> None:
    settings = load(write(DESIGN_002))
    assert settings.context_storage.base_dir == Path("contexts")
    assert settings.compression.token_threshold == 8000
    assert (settings.inheritance.enabled, settings.inheritance.max_summary_tokens) == (True, 4000)
    assert settings.is_explicit("compression.min_to_compress")
    assert settings.is_explicit("context_storage.base_dir")


@pytest.mark.parametrize(
    "memory",
    [
        {"max_tokens": 8000, "pruning_threshold": 0.8, "target_usage": 0.7},
        {"max_tokens": 6000, "pruning_threshold": 0.6, "target_usage": 0.5},
        {"max_tokens": 12000, "pruning_threshold": 0.9, "target_usage": 0.8},
    ],
    ids=["balanced", "conservative", "aggressive"],
)
def test_memory_configurations_of_design_003(memory: dict[str, Any]) -> None:
    """§14; the section also fits ``MemoryConfig``, which is made from it."""
    section = dataclasses.asdict(load({"memory": memory}).memory)
    assert section == {**memory, "enable_summarization": True, "min_gap_for_summary": 5}
    assert MemoryConfig(**section) == MemoryConfig(**memory)


def test_config_of_design_004(write: Write) -> None:
    compression = load(write(DESIGN_004)).compression
    assert compression.auto_compress_on_approval
    assert not compression.confirm_before_compress
    assert (compression.preserve_exploration_days, compression.archive_format) == (7, "markdown")


#: Values for settings that are unset, by kind.
UNSET = {"whole": 8000, "number": 0.5, "text": "8000", "pattern_list": ["^#"], "ladder": [{"usage": 0.5}]}


def test_every_spelling_means_its_key() -> None:
    for row in schema().values():
        unset = UNSET.get(row.kind.name) or row.kind.allowed.split(", ")[0]
        raw = unset if row.default is None else json.loads(json.dumps(row.default, default=str))
        for name in row.spellings:
            config: Any = raw
            for part in reversed(name.split(".")):
                config = {part: config}
            assert load(config).is_explicit(row.key), name
