"""The section on a log: episodes, success and return per policy, lengths, and three episodes to read."""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worldline import store
from worldline.report import plots
from worldline.report.blocks import Block, Cell, Facts, Figure, Section, Table, Transcript, figure, number
from worldline.tally import Tally
from worldline.types import Trajectory, policy_label

COLUMNS = ("id", "env", "split", "task_id", "policy", "epsilon", "success", "return", "length")
MOST_POLICIES = 40
MOST_STEPS = 40
MOST_TEXT = 1200
MOST_NAME = 60


def section(path: Path) -> Section:
    rows = store.scan(path, COLUMNS).to_pylist()
    blocks: list[Block] = [Facts(_facts(rows))]
    if rows:
        blocks.append(_policies(rows))
        lengths = {word: [row["length"] for row in rows if row["success"] is is_] for word, is_ in _OUTCOMES.items()}
        blocks.append(Figure("Length of the episodes", plots.histogram(lengths, "steps")))
        blocks += _samples(path, rows)
    return Section("log", "Log", str(path), blocks)


_OUTCOMES = {"success": True, "failure": False, "unknown": None}


def transcript(episode: Trajectory, title: str = "", most_steps: int = MOST_STEPS) -> Transcript:
    """An episode as lines to read; long texts are cut, and say so."""
    lines: list[tuple[str, str]] = []
    for step in episode.steps[:most_steps]:
        lines.append(("world", cut(step.observation)))
        earned = f"   (reward {step.reward:g})" if step.reward else ""
        lines.append(("agent", cut(step.action) + earned + ("" if step.valid else "   (invalid action)")))
    if len(episode) > most_steps:
        lines.append(("…", f"{len(episode) - most_steps} more steps"))
    if episode.final_observation:
        lines.append(("world", cut(episode.final_observation)))
    outcome = {True: "success", False: "failure", None: "success unknown"}[episode.success]
    ending = "ended" if episode.terminated else "out of steps" if episode.truncated else "cut off"
    about = f"{policy_label(episode.policy, episode.epsilon)}, task {episode.task_id}: {outcome}, "
    about += f"return {number(episode.episode_return)}, {len(episode)} steps, {ending}"
    return Transcript(title or episode.id, about, cut(episode.goal), lines)


def cut(text: str, most: int = MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters)"


def _facts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    worlds, splits = sorted({row["env"] for row in rows}), sorted({row["split"] for row in rows} - {""})
    steps = sum(row["length"] for row in rows)
    imagined = bool(worlds) and all(world.startswith("imagined:") for world in worlds)
    origin = "a world model: nothing was played" if imagined else ""
    return [
        ("episodes", f"{len(rows):,}", f"{steps:,} steps"),
        ("policies", f"{len({policy_label(row['policy'], row['epsilon']) for row in rows}):,}", ""),
        ("tasks", f"{len({row['task_id'] for row in rows}):,}", cut(", ".join(splits), MOST_NAME)),
        ("environment", cut(", ".join(worlds), MOST_NAME) or "–", origin),
    ]


def _policies(rows: Sequence[Mapping[str, Any]]) -> Table:
    by_policy: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_policy.setdefault(policy_label(row["policy"], row["epsilon"]), []).append(row)
    returns = {row["return"] for row in rows}
    # A log does not say what its world may pay: what it has paid, to any policy, stands for that.
    lowest, highest = (min(returns), max(returns)) if len(returns) > 1 else (None, None)
    cells = []
    for label, own in list(by_policy.items())[:MOST_POLICIES]:
        tally = Tally([r["task_id"] for r in own], [r["return"] for r in own], [r["success"] for r in own])
        has_outcome = any(row["success"] is not None for row in own)
        success, mean = tally.success(), tally.mean_return(lowest, highest)
        cells.append([
            Cell(cut(label, MOST_NAME)),
            figure(len(own)),
            figure(success.value, success.low, success.high) if has_outcome else Cell("–"),
            figure(mean.value, mean.low, mean.high),
            figure(sum(row["length"] for row in own) / len(own)),
        ])  # packed lines read better  # fmt: skip
    more = len(by_policy) - len(cells)
    caption = "95 % intervals: Wilson's of the success rate, Student's of the return, with tasks as units."
    columns = ("policy", "episodes", "success", "return", "steps per episode")
    return Table("Policies", columns, cells, caption + (f" {more:,} more policies are not shown." if more else ""))


def _samples(path: Path, rows: Sequence[Mapping[str, Any]]) -> list[Block]:
    """A success, a failure, and one at random."""
    chosen: dict[str, str] = {}
    for title, outcome in (("A success", True), ("A failure", False)):
        name = next((row["id"] for row in rows if row["success"] is outcome), None)
        if name is not None:
            chosen[name] = title
    others = [row["id"] for row in rows if row["id"] not in chosen]
    if others:
        chosen[random.Random(len(rows)).choice(others)] = "One at random"
    read = {episode.id: episode for episode in store.read(path, ids=set(chosen))}
    return [transcript(read[name], title) for name, title in chosen.items()]
