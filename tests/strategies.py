"""Hypothesis strategies for what real providers send, with unknown fields and dirty text everywhere."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Strategy = st.SearchStrategy[Json]

# Two surrogates that make a pair are one character in JSON: no JSON text can keep them apart.
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def texts(max_size: int = 12) -> st.SearchStrategy[str]:
    """Text as tools print it: Japanese, NUL, terminal escapes, lone surrogates."""
    dirty = st.text(st.characters(exclude_categories=()), max_size=max_size)
    seen = st.sampled_from(
        ["", " ", "\x00", "\x1b[31m赤\x1b[0m", "読み込み中…", "\ud800", "a\udfff", "日本語 and English"]
    )
    return st.one_of(dirty.filter(lambda text: not _PAIR.search(text)), seen)


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON value."""
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), texts()
    )
    return st.recursive(
        scalars,
        lambda children: st.lists(children, max_size=3) | st.dictionaries(texts(), children, max_size=3),
        max_leaves=4,
    )


def json_objects() -> Strategy:
    """Any JSON object."""
    return st.dictionaries(texts(), json_values(), max_size=3)


def unknown_fields(*taken: str) -> Strategy:
    """Fields that no specification names, among them names that Orihon uses itself."""
    names = st.one_of(
        texts(),
        st.sampled_from(["$orihon", "$$orihon", "x$orihon", "extra", "parts", "dialect", "cache_control", "metadata"]),
    )
    return st.dictionaries(names.filter(lambda name: name not in taken), json_values(), max_size=2)


def provider_dicts(required: Json, optional: Json | None = None) -> Strategy:
    """Dicts with the given fields and unknown ones beside them; values of the arguments are strategies."""
    optional = optional or {}
    known = st.fixed_dictionaries(required, optional=optional)
    return st.builds(lambda unknown, fields: {**unknown, **fields}, unknown_fields(*required, *optional), known)


def typed(name: str, required: Json | None = None, optional: Json | None = None) -> Strategy:
    """Dicts of a given ``type``."""
    return provider_dicts({"type": st.just(name), **(required or {})}, optional)


ids = st.from_regex(r"[a-z]{1,4}_[A-Za-z0-9]{4}", fullmatch=True)
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
arguments = json_objects().map(lambda value: json.dumps(value)) | texts()
base64_texts = st.sampled_from(["", "aGVsbG8=", "AAAA//+8"])
data_urls = base64_texts.map(lambda payload: f"data:image/png;base64,{payload}")
image_urls = data_urls | st.just("https://example.com/図.png")


def tool_calls() -> Strategy:
    """Calls of OpenAI, of Ollama (arguments as an object, no id) and of types yet unknown."""
    function = provider_dicts({"name": names}, {"arguments": st.one_of(arguments, st.none(), json_objects())})
    modern = typed("function", {"id": ids, "function": function})
    custom = typed("custom", {"id": ids, "custom": provider_dicts({"name": names, "input": texts()})})
    loose = provider_dicts(
        {"function": function},
        {"id": ids | st.none(), "type": st.sampled_from(["function", "builtin_function", None])},
    )
    unknown = typed("future", {"id": ids}, {"function": st.none() | texts(), "future": json_objects()})
    return st.one_of(modern, custom, loose, unknown)


def chat_parts() -> Strategy:
    """Content parts of Chat Completions."""
    return st.one_of(
        typed("text", {"text": texts()}),
        typed("refusal", {"refusal": texts()}),
        typed("image_url", {"image_url": provider_dicts({"url": image_urls}, {"detail": st.just("low")})}),
        typed("input_audio", {"input_audio": provider_dicts({"data": base64_texts, "format": st.just("wav")})}),
        typed("file", {"file": st.fixed_dictionaries({}, optional={"file_id": ids, "file_data": data_urls})}),
        typed("future_part"),
        json_objects(),
    )


def chat_messages() -> Strategy:
    """Messages of Chat Completions, in the modern and in the old form."""
    content = st.one_of(texts(), st.none(), st.lists(chat_parts(), max_size=3))
    common = {"name": names | st.none(), "reasoning_content": texts() | st.none()}
    asked = provider_dicts({"role": st.sampled_from(["system", "developer", "user"])}, {"content": content, **common})
    audio = provider_dicts({"id": ids, "data": base64_texts, "expires_at": st.integers(), "transcript": texts()})
    answered = provider_dicts(
        {"role": st.just("assistant")},
        {
            "content": content,
            "tool_calls": st.none() | st.lists(tool_calls(), max_size=3),
            "function_call": st.none() | provider_dicts({"name": names, "arguments": arguments}),
            "refusal": st.none() | texts(),
            "audio": st.none() | audio,
            "annotations": st.lists(json_objects(), max_size=1),
            **common,
        },
    )
    result = provider_dicts(
        {"role": st.just("tool"), "content": content},
        {"tool_call_id": ids | st.none(), "tool_name": names | st.none(), **common},
    )
    old_result = provider_dicts({"role": st.just("function"), "content": content, "name": names})
    return st.one_of(asked, answered, result, old_result)


def anthropic_blocks() -> Strategy:
    """Content blocks of Anthropic Messages."""
    source = st.one_of(
        typed("base64", {"media_type": st.just("image/png"), "data": base64_texts}),
        typed("url", {"url": st.just("https://example.com/a.png")}),
        typed("file", {"file_id": ids}),
        typed("text", {"media_type": st.just("text/plain"), "data": texts()}),
    )
    spoken = st.one_of(typed("text", {"text": texts()}), typed("image", {"source": source}))
    return st.one_of(
        spoken,
        typed("document", {"source": source}, {"title": st.none() | texts()}),
        typed("thinking", {"thinking": texts(), "signature": ids}),
        typed("redacted_thinking", {"data": base64_texts}),
        typed("tool_use", {"id": ids, "name": names, "input": json_objects()}),
        typed(
            "tool_result",
            {"tool_use_id": ids},
            {"content": texts() | st.lists(spoken, max_size=2), "is_error": st.booleans()},
        ),
        typed("server_tool_use", {"id": ids, "name": names, "input": json_objects()}),
        typed("future_block"),
    )


def anthropic_messages() -> Strategy:
    """Messages of Anthropic, as requests and answers carry them."""
    return provider_dicts(
        {"role": st.sampled_from(["user", "assistant"])},
        {"content": texts() | st.none() | st.lists(anthropic_blocks(), max_size=4), "id": ids},
    )


def responses_parts() -> Strategy:
    """Content parts of Responses messages and of tool outputs."""
    return st.one_of(
        typed("input_text", {"text": texts()}),
        typed("output_text", {"text": texts(), "annotations": st.lists(json_objects(), max_size=1)}),
        typed("refusal", {"refusal": texts()}),
        typed(
            "input_image",
            {},
            {"image_url": image_urls | st.none(), "file_id": ids, "detail": st.just("auto")},
        ),
        typed(
            "input_file",
            {},
            {"file_data": data_urls, "filename": texts(), "file_id": ids, "file_url": texts()},
        ),
        typed("future_part"),
    )


def responses_items() -> Strategy:
    """Items of OpenAI Responses."""
    envelope = {"id": ids | st.none(), "status": st.just("completed")}
    output = texts() | st.lists(responses_parts(), max_size=2)
    roles = st.sampled_from(["user", "assistant", "system", "developer"])
    summary = st.lists(typed("summary_text", {"text": texts()}), max_size=2)
    return st.one_of(
        provider_dicts({"role": roles}, {"type": st.just("message"), "content": st.none() | output, **envelope}),
        typed("function_call", {"call_id": ids, "name": names, "arguments": arguments}, envelope),
        typed("custom_tool_call", {"call_id": ids, "name": names, "input": texts()}, envelope),
        typed("function_call_output", {"call_id": ids}, {"output": output | json_objects(), **envelope}),
        typed("custom_tool_call_output", {"call_id": ids, "output": output}, envelope),
        typed("reasoning", {"summary": summary}, {"encrypted_content": st.none() | base64_texts, **envelope}),
        typed("shell_call", {"call_id": ids, "action": json_objects()}, envelope),
        typed("web_search_call", {"action": json_objects()}, envelope),
        typed("item_reference", {"id": ids}),
        typed("future_item"),
        provider_dicts({"id": ids}, {"type": st.none()}).filter(lambda item: "role" not in item),
    )


# ---- texts that are searched -----------------------------------------------------------------------------------------

_PIECES = st.one_of(
    st.sampled_from(["getUserName", "snake_case", "src/a.py", "移行計画", "会議", "を", "Café", "Straße", "ﾊﾞｸﾞ", "v2"]),
    st.sampled_from(
        [" ", "\n", "_", "-", ".", "。", '"', "'", "*", "\0", "🎉", "か\u3099", "e\u0301", "㌔", "ﬁ", "İ", "\x1b[31m"]
    ),
    st.text(max_size=6),
    st.text(alphabet="abcXYZ012_ ", max_size=12),
)
#: Names, words and signs of several scripts in one text.
MIXED_TEXTS = st.lists(_PIECES, max_size=12).map("".join)
