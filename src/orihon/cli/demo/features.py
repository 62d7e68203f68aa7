"""What the demo's agent mends: small functions, each with a mistake that a real test run finds."""

from __future__ import annotations

from dataclasses import dataclass

FOLDER = "toolbox"


@dataclass(frozen=True, slots=True)
class Feature:
    """One function: the version with a mistake, the mended one, and what its test asserts."""

    name: str
    wrong: str
    right: str
    checks: tuple[str, ...]

    @property
    def module(self) -> str:
        """The function's file in the workspace."""
        return f"{FOLDER}/{self.name}.py"

    @property
    def test(self) -> str:
        """The file of its test."""
        return f"{FOLDER}/test_{self.name}.py"

    @property
    def test_source(self) -> str:
        """A test that runs by itself and says ``ok`` in the end."""
        checks = "\n".join(f"assert {check}, {check!r}" for check in self.checks)
        return f"from {self.name} import {self.name}\n\n{checks}\nprint('ok')\n"


FEATURES: tuple[Feature, ...] = (
    Feature(
        "slugify",
        "def slugify(text):\n    return text.lower().replace(' ', '-')\n",
        "import re\n\n\ndef slugify(text):\n    return re.sub(r'[^a-z0-9]+', '-', text.lower()).strip('-')\n",
        ("slugify('Hello World') == 'hello-world'", "slugify('a  b!') == 'a-b'"),
    ),
    Feature(
        "count_words",
        "def count_words(text):\n    return len(text.split(' '))\n",
        "def count_words(text):\n    return len(text.split())\n",
        ("count_words('one two') == 2", "count_words('  one   two ') == 2"),
    ),
    Feature(
        "to_roman",
        "def to_roman(n):\n    out = ''\n    for value, sign in ((10, 'X'), (5, 'V'), (1, 'I')):\n"
        "        while n >= value:\n            out, n = out + sign, n - value\n    return out\n",
        "def to_roman(n):\n    out = ''\n"
        "    for value, sign in ((50, 'L'), (40, 'XL'), (10, 'X'), (9, 'IX'), (5, 'V'), (4, 'IV'), (1, 'I')):\n"
        "        while n >= value:\n            out, n = out + sign, n - value\n    return out\n",
        ("to_roman(7) == 'VII'", "to_roman(49) == 'XLIX'"),
    ),
    Feature(
        "chunked",
        "def chunked(items, size):\n    return [items[i : i + size] for i in range(0, len(items) - size, size)]\n",
        "def chunked(items, size):\n    return [items[i : i + size] for i in range(0, len(items), size)]\n",
        ("chunked([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]", "chunked([1, 2, 3], 2) == [[1, 2], [3]]"),
    ),
    Feature(
        "median",
        "def median(values):\n    return sorted(values)[len(values) // 2]\n",
        "def median(values):\n    ordered, half = sorted(values), len(values) // 2\n"
        "    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2\n",
        ("median([3, 1, 2]) == 2", "median([4, 1, 2, 3]) == 2.5"),
    ),
    Feature(
        "is_leap_year",
        "def is_leap_year(year):\n    return year % 4 == 0\n",
        "def is_leap_year(year):\n    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n",
        ("is_leap_year(2024)", "not is_leap_year(1900)", "is_leap_year(2000)"),
    ),
    Feature(
        "flatten",
        "def flatten(items):\n    return [inner for item in items for inner in item]\n",
        "def flatten(items):\n    out = []\n    for item in items:\n"
        "        out.extend(flatten(item) if isinstance(item, list) else [item])\n    return out\n",
        ("flatten([[1], [2, 3]]) == [1, 2, 3]", "flatten([1, [2, [3]]]) == [1, 2, 3]"),
    ),
    Feature(
        "parse_duration",
        "def parse_duration(text):\n    return int(text[:-1]) * {'s': 1, 'm': 60}[text[-1]]\n",
        "import re\n\n\ndef parse_duration(text):\n    seconds = {'s': 1, 'm': 60, 'h': 3600}\n"
        "    return sum(int(n) * seconds[unit] for n, unit in re.findall(r'(\\d+)([smh])', text))\n",
        ("parse_duration('90s') == 90", "parse_duration('1h30m') == 5400"),
    ),
    Feature(
        "wrap",
        "def wrap(text, width):\n    return [text[i : i + width] for i in range(0, len(text), width)]\n",
        "def wrap(text, width):\n    lines = ['']\n    for word in text.split():\n"
        "        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:\n            lines.append('')\n"
        "        lines[-1] = (lines[-1] + ' ' + word).strip()\n    return lines\n",
        ("wrap('aa bb', 9) == ['aa bb']", "wrap('aa bb cc', 5) == ['aa bb', 'cc']"),
    ),
    Feature(
        "caesar",
        "def caesar(text, shift):\n    return ''.join(chr(ord(c) + shift) for c in text)\n",
        "def caesar(text, shift):\n    return ''.join(\n"
        "        chr((ord(c) - 97 + shift) % 26 + 97) if c.islower() else c for c in text\n    )\n",
        ("caesar('abc', 1) == 'bcd'", "caesar('xyz!', 3) == 'abc!'"),
    ),
    Feature(
        "dedupe",
        "def dedupe(items):\n    return sorted(set(items))\n",
        "def dedupe(items):\n    return list(dict.fromkeys(items))\n",
        ("sorted(dedupe([1, 1, 2])) == [1, 2]", "dedupe(['b', 'a', 'b', 'c']) == ['b', 'a', 'c']"),
    ),
    Feature(
        "human_size",
        "def human_size(n):\n    return f'{n / 1024:.1f} KB'\n",
        "def human_size(n):\n    for unit in ('B', 'KB', 'MB', 'GB'):\n        if n < 1024 or unit == 'GB':\n"
        "            return f'{n:.0f} B' if unit == 'B' else f'{n:.1f} {unit}'\n        n /= 1024\n",
        ("human_size(2048) == '2.0 KB'", "human_size(3 * 1024**2) == '3.0 MB'", "human_size(10) == '10 B'"),
    ),
)
