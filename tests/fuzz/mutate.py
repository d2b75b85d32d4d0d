"""Mutants of a seed: bytes that are flipped, cut, repeated or spliced, and JSON whose values are swapped for others.

All chance comes from the `random.Random` that is given, so a mutant is named by its reader and its number.
"""

import copy
import json
from collections.abc import Callable
from random import Random
from typing import Any

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    1e308,
    -0.0,
    5e-324,
    float("nan"),
    float("inf"),
    "",
    "\x00",
    "\x1b[2J",
    "\ud800",
    "\ufffd",
    "NaN",
    "attachment://abc",
    "../../etc/passwd",
    "x" * 100_000,
    [],
    {},
    [[]],
    [None],
    [1, "a", {}],
    {"": None},
    {"a": {"b": {"c": 1}}},
]
"""Values that a field of another type does not expect."""
DEEP = 900
TOKENS = [
    b"[" * 5000,
    b"9" * 5000,
    b"1e999",
    b"NaN",
    b"\xff\xfe",
    b"\x00",
    b"\\u0000",
    b"}",
    b'"',
    b"\n",
    b"\r",
    b"null",
]
Mutate = Callable[[bytes, Random], bytes]


def mutate_bytes(data: bytes, chance: Random) -> bytes:
    """A few changes, none of which knows what the bytes mean."""
    mutant = bytearray(data)
    for _ in range(chance.choice([1, 1, 2, 4, 16])):
        start = chance.randrange(len(mutant) + 1)
        stop = min(len(mutant), start + chance.choice([1, 2, 8, 64, 1024]))
        match chance.randrange(6):
            case 0 if start < len(mutant):
                mutant[start] ^= 1 << chance.randrange(8)
            case 1:
                mutant[start:stop] = chance.randbytes(stop - start)
            case 2:
                del mutant[start:stop]
            case 3:
                mutant[start:start] = mutant[start:stop] * chance.choice([1, 2, 50])
            case 4:
                mutant[start:start] = chance.choice(TOKENS)
            case 5 if chance.random() < 0.3:
                del mutant[start:]
    return bytes(mutant)


def mutate_json(data: bytes, chance: Random) -> bytes:
    """A JSON text, or lines of it, with some values swapped; now and then the bytes of that are changed too."""
    lines = data.splitlines() if _is_lines(data) else [data]
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        number = chance.randrange(len(lines))
        try:
            lines[number] = _dumped(_changed(json.loads(lines[number]), chance))
        except (ValueError, RecursionError):  # no JSON is there, or it became too deep to be written
            continue
        if chance.random() < 0.1:
            lines.insert(chance.randrange(len(lines) + 1), lines[number])
    mutant = b"\n".join(lines)
    return mutate_bytes(mutant, chance) if chance.random() < 0.2 else mutant


def mutate_text(data: bytes, chance: Random) -> bytes:
    """Lines of a YAML text, swapped, repeated, nested or given other values."""
    lines = data.split(b"\n")
    for _ in range(chance.choice([1, 2, 4])):
        number = chance.randrange(len(lines))
        key, colon, _ = lines[number].partition(b":")
        match chance.randrange(6):
            case 0 if colon:
                lines[number] = key + b": " + chance.choice(YAML)
            case 1:
                lines.insert(chance.randrange(len(lines) + 1), lines[number])
            case 2:
                lines[number] = b"  " * chance.choice([1, 2, 400]) + lines[number]
            case 3:
                lines[number] = chance.choice(YAML) + b": " + chance.choice(YAML)
            case 4:
                del lines[number : number + 1]
                lines = lines or [b""]
            case 5 if colon:
                lines[number] = key + b": " + _dumped(chance.choice(HOSTILE))
    mutant = b"\n".join(lines)
    return mutate_bytes(mutant, chance) if chance.random() < 0.3 else mutant


YAML = [
    b"2020-99-99",
    b"2020-01-01T99:99:99Z",
    b"!!python/object/apply:os.system [true]",
    b"!!binary x",
    b"!!int x",
    b"!!timestamp x",
    b"!!set {a, b}",
    b"? [a, b]",
    b"{? [a] : b}",
    b"*r",
    b"&r [*r]",
    b"<<: *r",
    b"0o99",
    b"1:99:99",
    b"1_000",
    b"." + b"9" * 400,
    b"0x" + b"f" * 5000,
    b"9" * 5000,
    b"[" * DEEP,
    b"{a: " * DEEP,
    b"- " * DEEP,
    b"'\x00'",
    b'"\\0"',
    b'"\\ud800"',
    b"~",
    b"yes",
    b"|",
    b">-",
    b"%TAG",
    b"---",
    b"{",
    b"'",
    b"inf",
    b".nan",
    b"-.inf",
    b"a" * 10_000,
    b"&a [x,x] \nb: &b [*a,*a]\nc: &c [*b,*b]\noptions: {d: [*c,*c]}",
]
"""Texts that YAML has rules for."""


def _is_lines(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return True
    return False


def _changed(value: Any, chance: Random) -> Any:
    """`value` with one place in it swapped, renamed, removed, repeated or buried."""
    places = _places(value, [])
    if not places:
        return chance.choice(HOSTILE)
    holder, key = chance.choice(places)
    match chance.randrange(8):
        case 0:
            del holder[key]
        case 1:
            holder[key] = _buried(holder[key], chance.choice([1, 50, DEEP]), chance)
        case 2 if isinstance(holder, dict):
            holder[chance.choice([*holder, "extra", ""])] = holder.pop(key)
        case 3:
            other, name = chance.choice(places)
            holder[key] = json.loads(json.dumps(other.get(name) if isinstance(other, dict) else other[name : name + 1]))
        case 4 if isinstance(holder, list):
            holder.extend([holder[key]] * chance.choice([1, 100]))
        case _:
            holder[key] = copy.deepcopy(chance.choice(HOSTILE))
    return value


def _places(value: Any, places: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The `places` so far, and every key and index below a value, each with what holds it."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        places.append((value, key))
        if isinstance(value[key], dict | list):
            _places(value[key], places)
    return places


def _buried(value: Any, depth: int, chance: Random) -> Any:
    for _ in range(depth):
        value = [value] if chance.random() < 0.5 else {"a": value}
    return value


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()
