"""`searchqa`: answer a question in a few turns of searching. Search-R1's protocol (PaW, figure 9).

`<search>query</search>` is answered by `<information>` with the best passages, `<answer>text</answer>` ends the
episode. Without data the questions and passages are those of a generated encyclopedia. Nothing in an observation
tells whether the answer was right.
"""

import copy
import functools
import random
import re
from pathlib import Path
from typing import Any, Literal, Self

from worldline.config import Config, option, suggest
from worldline.envs.searchqa import expert, match, passage
from worldline.envs.searchqa.candidates import admissible
from worldline.envs.searchqa.coverage import answerable
from worldline.envs.searchqa.library import Library, Search, generated_library, open_library
from worldline.envs.searchqa.passage import Findings
from worldline.envs.searchqa.questions import Question
from worldline.envs.searchqa.retrieval import Bm25
from worldline.types import Info, InputError, LazyActions, StepResult, Turn, WorldlineError, derive_seed

HOW_TO_ACT = "This action is invalid: write <search>query</search> or <answer>answer</answer>, one of them, once."
ANSWERED = "Answer received."
_ACTION = re.compile(r"<(search|answer)>(.*?)</\1>", re.DOTALL)
_CACHED_SEARCHES = 10_000


class SearchQAConfig(Config):
    """Questions answered with the help of a search engine."""

    reward: Literal["em", "f1"] = option("em", help="what an answer earns: exact match (0 or 1) or word F1")
    max_turns: int = option(4, help="actions per question, the answer included", ge=1)
    topk: int = option(3, help="passages per search", ge=1)
    seed: int = option(0, help="of the generated encyclopedia")
    entities: int = option(450, help="entries of the generated encyclopedia", ge=50)
    dataset: str = option("", help="only questions of this data set, where --data holds several")
    corpus: Path | None = option(
        None,
        help="passages to search, a .jsonl file or a folder; default: the passage files among --data, "
        "else the paragraphs that each question brings",
    )
    index: Path | None = option(None, help="folder that keeps the corpus's index; default: in WORLDLINE_CACHE")
    retriever: str = option("bm25", help="bm25, dense:MODEL (sentence-transformers), or a Search-R1 retriever's URL")
    timeout: float = option(30.0, help="seconds to wait for a retriever's answer", gt=0)


class SearchQAWorld:
    """Questions and the search engine to answer them with."""

    name = "searchqa"
    family = "search"
    max_return = 1.0
    min_return = 0.0

    def __init__(self, config: SearchQAConfig | None = None, data: Path | None = None) -> None:
        self.config = config or SearchQAConfig()
        self.data = data
        self.version = f"1/{data.name}" if data else f"1/{self.config.seed}/{self.config.entities}"
        self.max_steps = self.config.max_turns
        library = self._library()
        self.questions = {question.id: question for question in library.questions}
        self.engine = library.engine
        self._by_split: dict[str, list[str]] = {}
        for question in library.questions:
            self._by_split.setdefault(question.split, []).append(question.id)
        self.search = functools.lru_cache(_CACHED_SEARCHES)(self._search)
        self.ending = functools.lru_cache(_CACHED_SEARCHES)(self._ending)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.config, self.data)  # another process opens the same index instead of copying it

    def splits(self) -> tuple[str, ...]:
        return tuple(sorted(self._by_split, key=lambda split: split != "train"))

    def num_tasks(self, split: str) -> int:
        return len(self._tasks(split))

    def get_task(self, split: str, index: int) -> str:
        if not 0 <= index < self.num_tasks(split):
            raise InputError(
                f"searchqa has {self.num_tasks(split)} questions in '{split}', there is no question {index}"
            )
        return self._tasks(split)[index]

    def question(self, task: str) -> Question:
        if task not in self.questions:
            raise InputError(f"searchqa has no task '{task}'{suggest(task, list(self.questions))}")
        return self.questions[task]

    def make(self) -> "SearchQAEnvironment":
        return SearchQAEnvironment(self)

    def expert(self, turn: Turn) -> str:
        if self.data:
            raise InputError("searchqa has no expert for real questions: choose another policy")
        return expert.act(turn)

    def _library(self) -> Library:
        config = self.config
        search = Search(config.corpus, config.index, config.retriever, config.timeout)
        if self.data:
            return open_library(self.data, config.dataset, search)
        for name in ("dataset", "corpus", "index", "retriever"):
            if getattr(config, name) != SearchQAConfig.model_fields[name].default:
                raise InputError(f"searchqa's option '{name}' is for real data: give the questions by --data PATH")
        return generated_library(config.seed, config.entities)

    def _search(self, query: str, question: Question) -> Findings:
        engine = self.engine or Bm25.of(question.passages)
        return Findings(query, engine.search(query, self.config.topk))

    def _ending(self, question: Question) -> Info:
        """The info at the end of a question; a remote search engine gets no queries beyond the agent's own."""
        local = self.engine is None or isinstance(self.engine, Bm25)
        return {"answerable": answerable(question, self.engine)} if local else {}

    def _tasks(self, split: str) -> list[str]:
        if split not in self._by_split:
            raise InputError(f"searchqa has no split '{split}'{suggest(split, list(self._by_split))}")
        return self._by_split[split]


class SearchQAEnvironment:
    """One question being answered."""

    def __init__(self, world: SearchQAWorld) -> None:
        self._world = world
        self._question: Question | None = None
        self._findings: tuple[Findings, ...] = ()
        self._turns_left = 0

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        if task is None:
            split = self._world.splits()[0]
            draw = random.Random(derive_seed(seed or 0, "task"))
            task = self._world.get_task(split, draw.randrange(self._world.num_tasks(split)))
        self._question = self._world.question(task)
        self._findings = ()
        self._turns_left = self._world.config.max_turns
        info: Info = {"admissible": self._admissible(), "won": False, "score": 0.0}
        return self._question.text, info | {"task_id": task, "goal": self._question.text}

    def step(self, action: str) -> StepResult:
        if self._question is None or not self._turns_left:
            raise WorldlineError("the episode is over: reset() starts another")
        self._turns_left -= 1
        kind, text = _parsed(action)
        if kind == "answer":
            return self._answered(text, self._question)
        if kind == "search":
            self._findings = (*self._findings, self._world.search(text, self._question))
        observation = passage.write(self._findings[-1].passages) if kind == "search" else HOW_TO_ACT
        info: Info = {"admissible": self._admissible(), "won": False, "score": 0.0, "valid": kind == "search"}
        if not self._turns_left:
            info |= self._world.ending(self._question)
        return observation, 0.0, False, not self._turns_left, info

    def clone(self) -> Self:
        return copy.copy(self)

    def _answered(self, answer: str, question: Question) -> StepResult:
        won, score = match.exact_match(answer, question.answers), match.f1(answer, question.answers)
        reward = float(won) if self._world.config.reward == "em" else score
        self._turns_left = 0
        info: Info = {"admissible": (), "won": won, "score": score, "valid": True}
        return ANSWERED, reward, True, False, info | self._world.ending(question)

    def _admissible(self) -> LazyActions:
        question, findings = self._question, self._findings
        return LazyActions(lambda: admissible(question.text if question else "", findings))


def _parsed(action: str) -> tuple[str, str]:
    """What an action does and with which text; ('', '') where it is neither a search nor an answer, or both."""
    parsed = [(kind, " ".join(text.split())) for kind, text in _ACTION.findall(action)]
    return parsed[0] if len(parsed) == 1 and parsed[0][1] else ("", "")
