"""Regular expressions that are compiled when they are first used.

There are hundreds, and most processes are over before they have used a tenth of them: compiling all took a third of the
start of a short command.
"""

from __future__ import annotations

import re
from typing import Any, cast

_GIVEN_ON = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split", "groups", "groupindex")


class _LazyPattern:
    """Stands for a pattern. Once it is compiled, its methods are found here at once."""

    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern, self._flags = pattern, flags

    def __getattr__(self, name: str) -> Any:
        if name not in _GIVEN_ON:
            raise AttributeError(name)
        compiled = re.compile(self.pattern, self._flags)
        self.__dict__.update({known: getattr(compiled, known) for known in _GIVEN_ON})
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return _LazyPattern, (self.pattern, self._flags)


def lazy_re(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``. An error in the pattern shows when it is first used; a test uses them all."""
    return cast("re.Pattern[str]", _LazyPattern(pattern, flags))
