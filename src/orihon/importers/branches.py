"""Where a person went back in a session whose records name their parents.

Such a file keeps every branch. The one that the model goes on with begins with a prompt that follows the same record as
an earlier prompt did: everything said since that earlier one was left. Parallel calls and their results make a tree
too, so nothing but two prompts after the same record counts as going back.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

#: So many of the last records can be gone back to.
_MOST = 4096


@dataclass(slots=True)
class Branches:
    """The records of one session, each with the one that it follows."""

    _notes: OrderedDict[str, str] = field(default_factory=OrderedDict)  # says nothing -> what it follows
    _prompts: dict[str, tuple[str, int]] = field(default_factory=dict)  # what it follows -> prompt, messages before it

    def note(self, uuid: str, parent: str) -> None:
        """A record that says nothing: what follows it follows its parent."""
        if uuid:
            self._notes[uuid] = self._notes.get(parent, parent)
            if len(self._notes) > _MOST:
                self._notes.popitem(last=False)

    def left_by(self, uuid: str, parent: str, said: int) -> int:
        """How many of the ``said`` messages the prompt of this record leaves behind."""
        followed = self._notes.get(parent, parent)
        other, before = self._prompts.get(followed, (uuid, said))
        self._prompts[followed] = (uuid, before)
        if other == uuid or before >= said:
            return 0
        # What was left is not gone on with; its prompts are no places to go back to.
        self._prompts = {key: place for key, place in self._prompts.items() if place[1] <= before}
        return said - before

    def forget(self) -> None:
        """What came before was summed up: nobody goes back there."""
        self._prompts.clear()
