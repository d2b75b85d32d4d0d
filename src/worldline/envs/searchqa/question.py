"""A question with its accepted answers."""

from dataclasses import dataclass

from worldline.envs.searchqa.passage import Passage


@dataclass(frozen=True, slots=True)
class Question:
    """One task. `passages` are the paragraphs it brings along, where it does (HotpotQA's distractor setting)."""

    id: str
    text: str
    answers: tuple[str, ...]
    split: str
    passages: tuple[Passage, ...] = ()
