"""Messages like those of a coding agent: 60 % short, 30 % of 2–20 kB, 10 % of 50–200 kB; about 13 kB on average."""

from __future__ import annotations

import random

_PIECES = (
    "def load(path):\n    with open(path) as file:\n        return json.load(file)\n\n",
    "The test fails because the cache is filled before the settings are read; I move the call down.\n",
    'src/app/settings.py:42: error: Incompatible return value type (got "str", expected "Path")\n',
    "設定を読む前にキャッシュが作られるため、テストが失敗します。呼び出しを下に移します。\n",
)


def contents(count: int = 100, seed: int = 7) -> list[str]:
    """One block of messages; every block of 100 has the same sizes."""
    rng = random.Random(seed)
    result = []
    for index in range(count):
        place = index % 10
        low, high = (200, 800) if place < 6 else (2_000, 20_000) if place < 9 else (50_000, 200_000)
        size = rng.randint(low, high)
        text = ""
        while len(text) < size:
            text += rng.choice(_PIECES)
        result.append(text[:size])
    return result
