"""The path language of `--map`: where in a row a value stands.

`a.b` is b inside a; `a[0]` and `a[-1]` are items of a list; `a[].b` is b of every item, a list; `"a.b"` in quotes is a
key that holds a dot. `a[].b[].c` gives one flat list.
"""

import re
from dataclasses import dataclass
from typing import Any

from worldline.types import InputError

ABSENT = object()
"""In the place of the value of an item that lacks the key."""
_MOST_KEYS, _LONGEST_KEY = 12, 40
_PART = re.compile(r'(?:\A|\.)(?:"([^"]+)"|([^."\[\]]+))|\[(-?\d{1,9})?\]')


@dataclass(frozen=True)
class RowPath:
    """A path, taken apart: keys as texts, items as numbers, None for every item."""

    text: str
    parts: tuple[str | int | None, ...]

    @property
    def many(self) -> bool:
        """Whether it gives a list with a value per item."""
        return None in self.parts

    def pick(self, row: Any) -> Any:
        """The value there, None for an item that lacks the key; ValueError if a part of the way is missing."""
        values = [None if value is ABSENT else value for value in self.values(row)]
        return values if self.many else values[0]

    def values(self, row: Any) -> list[Any]:
        """A value per item, `ABSENT` for one that lacks the key; the only one of a path without `[]`."""
        values = [row]
        for depth, part in enumerate(self.parts):
            if part is None:
                values = [item for value in values for item in self._items(value, depth)]
            else:
                values = [self._step(value, part, depth) for value in values]
        return values

    def lacks(self, row: Any) -> str:
        """The reason if the row has items and none of them has the key; empty otherwise."""
        values = self.values(row)
        if not values or any(value is not ABSENT for value in values):
            return ""
        items = RowPath(self.text, self.parts[:-1]).values(row)
        keys = dict.fromkeys(str(key)[:_LONGEST_KEY] for item in items if isinstance(item, dict) for key in item)
        have = f": they have {', '.join(list(keys)[:_MOST_KEYS])}" if keys else ""
        return f"no item has '{self.text}'{have}"

    def _items(self, value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"it has no list at '{self._before(depth)}', which '{self.text}' needs")
        return value

    def _step(self, value: Any, part: str | int, depth: int) -> Any:
        if isinstance(part, str):
            if isinstance(value, dict) and part in value:
                return value[part]
            if None in self.parts[:depth] and (value is ABSENT or isinstance(value, dict)):
                return ABSENT  # one of many items does not say it
        elif isinstance(value, list) and -len(value) <= part < len(value):
            return value[part]
        raise ValueError(f"it has no field '{self._before(depth + 1)}'")

    def _before(self, depth: int) -> str:
        shown = ""
        for part in self.parts[:depth]:
            shown += f".{part}" if isinstance(part, str) else f"[{'' if part is None else part}]"
        return shown.removeprefix(".") or "the row"


def parse(text: str, flag: str) -> RowPath:
    """The path that `text` writes; InputError names the flag."""
    parts: list[str | int | None] = []
    place = 0
    while place < len(text):
        match = _PART.match(text, place)
        if match is None or match.end() == place:
            break
        quoted, plain, index = match.groups()
        key = quoted or plain
        parts.append(key if key is not None else int(index) if index else None)
        place = match.end()
    if not parts or place < len(text) or text.startswith("."):
        how = "write a.b, a[0].b or a[].b, and quote a key that holds a dot"
        raise InputError(f"{flag}: '{text}' is no path: {how}")
    return RowPath(text, tuple(parts))
