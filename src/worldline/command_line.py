"""The words of a command line as settings. Flags win over the recipe.

There is no environment-variable or global layer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worldline.config import C, Flag, dashed, flags_of, refuse_absent, shortened, suggest, validate
from worldline.recipe_file import read_recipe, read_yaml, refuse_unusable
from worldline.types import InputError

RECIPE_SUFFIXES = (".yaml", ".yml")


def read(model: type[C], argv: Sequence[str]) -> C:
    """The settings that a command line (and the recipe it names, if any) describes."""
    flags = {flag.name: flag for flag in flags_of(model)}
    slots = [flag for flag in flags.values() if flag.positional]
    values: dict[str, Any] = {}
    given: dict[str, Any] = {}
    words = list(argv)
    for word in words:
        refuse_unusable(word, f"argument {shortened(word)}")
    if words and words[0].endswith(RECIPE_SUFFIXES):
        values = read_recipe(Path(words.pop(0)), model)
        slots = [slot for slot in slots if slot.name not in values]
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            refuse_absent(model, word[2:].partition("=")[0].replace("-", "_"))
            _take_flag(word, words, flags, given)
        elif slots:
            slot = slots[0] if slots[0].many else slots.pop(0)
            if slot.many:
                _add(given, slot.name, [word])
            else:
                _put(given, slot.name, word)
        else:
            raise InputError(f"unexpected argument '{word}': give settings as --flag value (see --help)")
    return validate(model, _merge(values, given))


def _take_flag(word: str, words: list[str], flags: dict[str, Flag], given: dict[str, Any]) -> None:
    name, equals, value = word[2:].partition("=")
    name = name.replace("-", "_")
    negated = name.startswith("no_") and name not in flags and flags.get(name[3:]) is not None
    flag = flags.get(name[3:] if negated else name)
    free = next((f for f in flags.values() if f.free and name.startswith(f.name + ".")), None)
    if flag is None and free is None:
        spellings = [f"--{dashed(name)}" for name in flags]
        raise InputError(f"unknown flag '--{dashed(name)}'{suggest('--' + dashed(name), spellings)}")
    if free is not None or flag is None:
        taken = value if equals else _next(word, words)
        _put(given, name, read_yaml(taken, f"--{dashed(name)}"))
    elif flag.switch:
        takes_word = not equals and words and words[0].lower() in ("true", "false")
        text = value if equals else words.pop(0) if takes_word else "true"
        _put(given, flag.name, (text.lower() == "true") != negated if text.lower() in ("true", "false") else text)
    elif flag.many:
        taken_many = [value] if equals else [_next(word, words)]
        while not equals and words and not words[0].startswith("--"):
            taken_many.append(words.pop(0))
        _add(given, flag.name, taken_many)
    else:
        _put(given, flag.name, value if equals else _next(word, words))


def _next(word: str, words: list[str]) -> str:
    if not words or words[0].startswith("--"):
        raise InputError(f"{word} needs a value")
    return words.pop(0)


def _put(values: dict[str, Any], dotted: str, value: Any) -> None:
    """Enter a value at `a.b.c`; a place that is taken is not overwritten in silence."""
    *parents, last = dotted.split(".")
    for depth, parent in enumerate(parents, start=1):
        values = values.setdefault(parent, {})
        if not isinstance(values, dict):
            outer = dashed(".".join(parents[:depth]))
            raise InputError(f"--{dashed(dotted)}: --{outer} is given too, as a value of its own: give one of them")
    if last in values:
        raise InputError(f"--{dashed(dotted)}: is given twice: give it once")
    values[last] = value


def _add(values: dict[str, Any], dotted: str, words: list[str]) -> None:
    """Enter the words of a flag that takes many, and may be repeated."""
    *parents, last = dotted.split(".")
    for parent in parents:
        values = values.setdefault(parent, {})
    values.setdefault(last, []).extend(words)


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        merged[key] = _merge(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return merged
