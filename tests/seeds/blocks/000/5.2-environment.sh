# コンテキストストレージ設定
CONTEXT_STORAGE_ENABLED=true              # ファイル化有効化
CONTEXT_STORAGE_BACKEND=sqlite            # sqlite/jsonlines
CONTEXT_STORAGE_BASE_DIR=logs/contexts    # 保存先
MAX_MEMORY_MESSAGES=20                    # メモリ保持数
COMPRESSION_THRESHOLD=0.7                 # 圧縮開始閾値

# コンテキスト長設定（モデルごと）
OPENAI_CONTEXT_LENGTH=128000
OLLAMA_CONTEXT_LENGTH=32768
LMSTUDIO_CONTEXT_LENGTH=32768

# マルチプロセス設定
MULTIPROCESS_ENABLED=true
MAX_WORKERS=4
