"""Names of a logged step to those of this one, by what was done before it."""

from collections.abc import Mapping

from worldline.kernel.episode_state import EpisodeState, StepDescription
from worldline.kernel.phrases import Phrase, Renaming
from worldline.kernel.step_table import StepTable

_HISTORY = 5
"""Earlier steps by whose names an answer is renamed."""


def latest_phrases(state: EpisodeState) -> dict[str, Phrase]:
    """Of each skeleton, the latest action of the episode that has it."""
    return {skeleton: state.descriptions[steps[-1]].phrase for skeleton, steps in state.steps_of.items()}


def history_renaming(
    log: StepTable, row: int, latest: Mapping[str, Phrase], step: StepDescription, renaming: Renaming
) -> Renaming:
    """Names of a logged step to ours: by its action, then by its latest actions and our `latest` ones worded alike."""
    settled = {old.lower() for old, _ in renaming}.union(step.phrase.lowered)
    pairs = list(renaming)
    used = set()
    first = row - min(_HISTORY, log.rows[row].step)
    for logged in reversed(log.phrases[first:row]):
        mine = latest.get(logged.skeleton)
        if mine is None or logged.skeleton in used:
            continue
        used.add(logged.skeleton)
        for key, old, new in zip(logged.lowered, logged.names, mine.names, strict=True):
            if old != new and key not in settled:
                settled.add(key)
                pairs.append((old, new))
    return tuple(pairs)
