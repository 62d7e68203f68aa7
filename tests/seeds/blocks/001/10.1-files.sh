# 全メッセージ履歴
cat contexts/running/{uuid}/messages.jsonl | jq

# 現在のコンテキスト（LLM用）
cat contexts/running/{uuid}/current.jsonl | jq

# 要約履歴
cat contexts/running/{uuid}/summaries.jsonl | jq

# トークン数確認
cat contexts/running/{uuid}/current.jsonl | jq '.tokens' | awk '{sum+=$1} END {print sum}'
