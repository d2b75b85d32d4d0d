"""`alfworld`: the official ALFWorld games on the native engine: the official engine's texts, no planner, no install.

Plays the folders that `alfworld-download` leaves (`json_2.1.1/SPLIT/TASK/TRIAL/game.tw-pddl`), or the compact form:
`games_SPLIT.jsonl[.xz]`, one game a line, beside the text grammar `alfred.twl2` that they share. A split is indexed
when first used, a game is parsed when first played; one that cannot be read costs its own episodes only. The order
of the tasks is that of a hash of their names, the same in both forms: any first so many are a fair sample of the split.
Left out: what the official package also leaves out (games with slicing or movable receptacles, unsolvable games),
and the visual environment.
"""

import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from worldline.config import Config, option
from worldline.envs.household.engine import GameEngine
from worldline.envs.household.environment import EngineCache, HouseholdEnvironment
from worldline.envs.household.expert import act
from worldline.envs.household.grammar import TextGrammar
from worldline.envs.household.pddl import check_domain, read_game
from worldline.types import InputError, Turn, WorldlineError, derive_seed

SPLITS = ("train", "valid_seen", "valid_unseen")
GRAMMAR_FILE = "alfred.twl2"
GAME_FILE = "game.tw-pddl"

Source = Callable[[], GameEngine]
"""Reads and parses one game."""


class AlfworldConfig(Config):
    """The official ALFWorld games."""

    max_steps: int = option(50, help="step budget of an episode", ge=1)


class AlfworldWorld:
    """The official games under `data`."""

    name = "alfworld"
    version = "1"
    family = "household"
    max_return = 1.0
    min_return = 0.0

    def __init__(self, data: Path | str, config: AlfworldConfig | None = None) -> None:
        self.data = Path(data)
        self.max_steps = (config or AlfworldConfig()).max_steps
        self._files = _split_files(self.data)
        self._index: dict[str, dict[str, Source]] = {}
        self._names: dict[str, tuple[str, ...]] = {}
        self.engine = EngineCache(self._read_engine)

    def splits(self) -> tuple[str, ...]:
        return tuple(split for split in SPLITS if split in self._files)

    def num_tasks(self, split: str) -> int:
        return len(self._tasks(split))

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(f"alfworld has {self.num_tasks(split)} games in '{split}', there is no game {index}")
        return self._names[split][index]

    def make(self) -> HouseholdEnvironment:
        return HouseholdEnvironment(self.engine, self._draw, self.max_steps)

    def expert(self, turn: Turn) -> str:
        """The observation-driven searcher of `household`, which reads the official wording too."""
        return act(turn)

    def walkthrough(self, task: str) -> tuple[str, ...]:
        """The stored solution of a game: a planner's, which knows where everything is."""
        return self.engine(task).game.walkthrough

    def _draw(self, seed: int) -> str:
        split = self.splits()[0]
        return self.get_task(split, derive_seed(seed, "task") % self.num_tasks(split))

    def _tasks(self, split: str) -> dict[str, Source]:
        if split not in self._files:
            raise InputError(f"{self.data}: no ALFWorld split '{split}': there are {', '.join(self.splits())}")
        if split not in self._index:
            path = self._files[split]
            entries = _native_games(split, path) if path.is_dir() else _compact_games(split, path)
            self._index[split] = dict(sorted(entries, key=lambda entry: derive_seed(0, entry[0])))
            self._names[split] = tuple(self._index[split])
            if not self._index[split]:
                raise InputError(f"{path}: no games in it")
        return self._index[split]

    def _read_engine(self, task: str) -> GameEngine:
        source = self._tasks(task.partition("/")[0]).get(task)
        if source is None:
            raise InputError(f"{self.data}: no game '{task}': a task is SPLIT/TASK/TRIAL")
        return source()


def _split_files(data: Path) -> dict[str, Path]:
    """Where each split is: a folder of native games, or a compact file."""
    if not data.is_dir():
        raise InputError(f"{data}: no such folder: give the folder of the ALFWorld games (alfworld-download makes one)")
    files: dict[str, Path] = {}
    for split in SPLITS:
        folders = [data / split, *sorted(data.glob(f"json_*/{split}"))]
        compact = [data / f"games_{split}.jsonl", data / f"games_{split}.jsonl.xz"]
        there = [path for path in folders if path.is_dir()] + [path for path in compact if path.is_file()]
        if there:
            files[split] = there[0]
    if not files:
        raise InputError(
            f"{data}: no ALFWorld games here: expected json_2.1.1/{{{','.join(SPLITS)}}} or games_SPLIT.jsonl.xz"
        )
    return files


def _native_games(split: str, folder: Path) -> Iterator[tuple[str, Source]]:
    for path in folder.glob(f"*/*/{GAME_FILE}"):
        task = f"{split}/{path.parent.parent.name}/{path.parent.name}"
        if "movable" not in task and "Sliced" not in task and _solvable(path):
            yield task, partial(_native_engine, path)


def _solvable(path: Path) -> bool:
    """The file's `solvable` flag, read from its end: parsing thousands of whole files would take many seconds."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4096))
        flags = re.findall(rb'"solvable":\s*(true|false)', file.read())
    return not flags or flags[-1] == b"true"


def _native_engine(path: Path) -> GameEngine:
    try:
        game: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_domain(game["pddl_domain"])
        engine = GameEngine(
            read_game(game["pddl_problem"], TextGrammar.read(game["grammar"]), game.get("walkthrough") or ())
        )
        assert engine.introduction  # derived here, so that the error of a broken grammar names this file
        return engine
    except InputError as error:
        raise WorldlineError(f"{path}: {error}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise WorldlineError(f"{path}: not a readable ALFWorld game: {type(error).__name__}: {error}") from None


def _compact_games(split: str, path: Path) -> Iterator[tuple[str, Source]]:
    grammar_path = path.parent / GRAMMAR_FILE
    if not grammar_path.is_file():
        raise InputError(f"{grammar_path}: missing: it holds the wording of the games in {path.name}")
    try:
        grammar = TextGrammar.read(grammar_path.read_text(encoding="utf-8"))
    except (InputError, UnicodeDecodeError) as error:
        raise InputError(f"{grammar_path}: {error}") from None
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        try:
            game = json.loads(line)
            task, solvable = f"{split}/{game['task']}/{game['trial']}", game["solvable"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{where}: not a readable game: {type(error).__name__}: {error}") from None
        if solvable:
            packed = zlib.compress(line, 1)  # 80 kB a game is 290 MB for train; packed it is a tenth of that
            yield task, partial(_compact_engine, packed, where, grammar)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
            yield from enumerate(file, start=1)
    except (OSError, lzma.LZMAError, EOFError) as error:
        raise InputError(f"{path}: cannot be read to its end: {error}") from None


def _compact_engine(packed: bytes, where: str, grammar: TextGrammar) -> GameEngine:
    game = json.loads(zlib.decompress(packed))
    try:
        words = grammar.with_task(game["task_desc"])
        return GameEngine(read_game(game["pddl_problem"], words, game["walkthrough"]))
    except InputError as error:
        raise WorldlineError(f"{where}: {error}") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise WorldlineError(f"{where}: not a readable game: {type(error).__name__}: {error}") from None
