"""True values to compare with, from a JSON file: `{"NAME": value, "NAME@0.2": value}` or `{"policies": [...]}`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from worldline import files
from worldline.evaluate.candidates import Candidate
from worldline.nearby import nearby
from worldline.types import InputError, policy_label

Truth = dict[tuple[str, float], float]
"""True value by (name, epsilon)."""


def truth_of(path: Path | None, candidates: Sequence[Candidate]) -> tuple[Truth, list[str]]:
    """What `path` says, and notes on what it says of nobody, or not of everybody."""
    if path is None:
        return {}, []
    truth, labels = read_truth(path), {(c.name, c.epsilon): c.label for c in candidates}
    if not truth.keys() & labels.keys():
        raise InputError(f"--truth {path}: names none of the candidates, {', '.join(labels.values())}")
    unmatched = [policy_label(*key) for key in truth if key not in labels]
    missing = [name for key, name in labels.items() if key not in truth]
    notes = [f"--truth {path}: no candidate is called {', '.join(unmatched)}"] if unmatched else []
    notes += (
        [f"--truth {path}: has no value for {', '.join(missing)}: the agreement leaves them out"] if missing else []
    )
    return truth, notes


def read_truth(path: Path) -> Truth:
    """At least one true value.

    A mapping may give a number, or a mapping from epsilon to number, for each name; `policies` may hold rows with
    `name`, `epsilon` and `truth` or `value`, as in evaluation.json.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise InputError(f"--truth {path}: no such file{nearby(path)}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"--truth {path}: {files.not_utf8(error)}") from None
    except ValueError as error:
        raise InputError(f"--truth {path}: not JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f'--truth {path}: must be an object such as {{"NAME": 0.4, "NAME@0.2": 0.3}}')
    truth: Truth = {}
    for name, epsilon, value in _rows(content, path):
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e300:
            raise InputError(f"--truth {path}: the value of '{name}' is {value!r}, not a number")
        truth[name, epsilon] = float(value)
    if not truth:
        raise InputError(f'--truth {path}: holds no value: write {{"NAME": 0.4, "NAME@0.2": 0.3}}')
    return truth


def _rows(content: dict[str, Any], path: Path) -> list[tuple[str, float, Any]]:
    try:
        if isinstance(content.get("policies"), list):
            return [
                (str(row["name"]), float(row.get("epsilon", 0.0)), row["truth"] if "truth" in row else row.get("value"))
                for row in content["policies"]
            ]
        rows: list[tuple[str, float, Any]] = []
        for label, value in content.items():
            name, at, epsilon = label.rpartition("@")
            if isinstance(value, dict):
                rows += [(label, float(each), number) for each, number in value.items()]
            elif at:
                rows.append((name, float(epsilon), value))
            else:
                rows.append((label, 0.0, value))
        return rows
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"--truth {path}: {type(error).__name__}: {error}: rows are name, epsilon, truth") from None
