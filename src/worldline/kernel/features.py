"""How well each candidate answer fits a step: what its source shares with the step, how it was made, who agrees.

None of the features knows a word of any world. Their weights are learned from the log (`gate`).
"""

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from worldline.kernel.candidates import EDITED, EXACT, KINDS, OTHER, RECALLED, RENAMED, Candidates
from worldline.kernel.compared_rows import COMPARED, ComparedRows
from worldline.kernel.episode_state import COLUMNS, EpisodeState, StepDescription
from worldline.kernel.language import last_number
from worldline.kernel.number_model import ComputedNumbers
from worldline.kernel.shared_facts import Records
from worldline.kernel.step_table import COLUMN, CONTEXTS, LAST_RESORTS, LeftOut, StepTable
from worldline.kernel.words import vocabulary

Features = npt.NDArray[np.float32]
_SCALE = 4.0
"""Of agreement, in nats: sums beyond it count less and less, since facts depend on each other."""
_EQUAL = [COLUMN[name] for name in COLUMNS if name != "step"]
_PASTS = [COLUMN[name] for name in ("history", "path", "deeds")]
NAMES = (
    *(f"same {name}" for name in COLUMNS if name != "step"),
    "same observation and action",
    "same task and action",
    "same task, observation and action",
    "same observation and action, listed alike",
    *COMPARED,
    *(f"kind: {kind}" for kind in KINDS),
    "exact and same observation",
    "renamed and same list shape",
    "renamed and same task",
    "renamed, and the log has this action in this task",
    "of this episode",
    "names exchanged",
    "nothing changes",
    "shown before",
    "shown before to this action",
    "logged text",
    "words new to the task",
    "words new to the episode",
    "words of the goal that the action has not",
    "words of the goal that the episode has not shown",
    "words that other goals give",
    "number above the one shown",
    "number as shown",
    "number below the action's",
    "number as the action's",
    "number between them",
    "numbers off those computed",
    "numbers missing of those computed",
    "agrees with facts of the task",
    "agrees with facts of the episode",
    "agreeing candidates",
    "agreeing rows of this observation and action",
    "agreeing rows of this task and action",
    "agreeing rows of this action",
    "agreeing rows of this history",
    "agreeing rows of this path",
    "agreeing rows of these deeds",
    "share among same shapes",
    *(f"rows of this {name}" for name in list(CONTEXTS)[:-LAST_RESORTS]),
    "one is recalled",
    "one is edited",
    "log-likelihood of its words",
    "log-likelihood of its number",
    "log-likelihood of its reward",
    "log-share of its outcome among the candidates",
    "log-probability of its outcome",
    "log-share of its wording among the candidates",
    "log-probability of the wording",
)

_FIRST_LIKELIHOOD = NAMES.index("log-likelihood of its words")
LIKELIHOODS = slice(_FIRST_LIKELIHOOD, _FIRST_LIKELIHOOD + 3)
"""Those of NAMES that `expectations` says."""
SHARED_FACTS = [at for at, name in enumerate(NAMES) if name.startswith(("facts shared", "agrees with facts"))]
"""Those that `shared_facts` says."""
FORECAST, WORDING = NAMES.index("log-probability of its outcome"), NAMES.index("log-probability of the wording")


class Seen:
    """The texts that a log answers with, and the words that each task has shown, less the rows left out."""

    def __init__(self, log: StepTable) -> None:
        self._answered: dict[str, list[int]] = defaultdict(list)
        shown: dict[str, dict[int, frozenset[str]]] = defaultdict(dict)
        for at, row in enumerate(log.rows):
            self._answered[row.answer].append(at)
            words = vocabulary(row.answer) | (vocabulary(row.observation) if row.step == 0 else frozenset())
            shown[log.episodes[row.episode].task_id][at] = words
        self._tasks = {task: _ShownWords(of_task) for task, of_task in shown.items()}

    def logged(self, text: str, left_out: LeftOut) -> bool:
        """Whether the log answers with this text."""
        rows = self._answered.get(text, ())
        return len(rows) > 0 and (left_out is None or not left_out[rows].all())

    def words(self, task: str, left_out: LeftOut) -> frozenset[str]:
        """The words that the task has shown."""
        shown = self._tasks.get(task)
        return frozenset() if shown is None else shown.without(left_out)


class _ShownWords:
    """The words that the rows of a task have shown."""

    def __init__(self, shown: Mapping[int, frozenset[str]]) -> None:
        self._rows = np.array([*shown])
        self._all = frozenset().union(*shown.values())
        self._words = np.array(sorted(self._all), object)
        number = {word: at for at, word in enumerate(self._words.tolist())}
        columns = np.array([number[word] for words in shown.values() for word in sorted(words)], np.int64)
        starts = np.cumsum([0, *map(len, shown.values())])
        shape = len(self._rows), len(self._words)
        self._times = csr_matrix((np.ones(len(columns), np.float32), columns, starts), shape=shape)

    def without(self, left_out: LeftOut) -> frozenset[str]:
        if left_out is None or not (gone := left_out[self._rows]).any():
            return self._all
        left = self._times.T @ (~gone).astype(np.float32)
        return self._all - frozenset(self._words[left == 0].tolist())


def features(
    log: Seen,
    state: EpisodeState,
    step: StepDescription,
    compared: ComparedRows,
    possible: Candidates,
    numbers: ComputedNumbers,
    records: Records,
    left_out: LeftOut = None,
) -> Features:
    """(candidates, F): all but LIKELIHOODS and what the wording model says. Rows that are left out say nothing."""
    same = compared.same
    task, seen, done = (same[:, COLUMN[name]] for name in ("task", "observation", "action"))
    both = seen & done
    conjunctions = np.stack([both, task & done, task & both, both & same[:, COLUMN["listed"]]], 1)
    of_rows = np.concatenate([same[:, _EQUAL], conjunctions, compared.compared], 1, dtype=np.float32)
    kinds = (possible.kinds[:, None] == np.arange(len(KINDS))).astype(np.float32)
    of_texts = _of_texts(log, state, step, possible, numbers, records, left_out, same[possible.places])
    remembered = [(possible.kinds == kind).any() for kind in (RECALLED, EDITED)]
    of_query = np.concatenate([np.log1p(compared.sizes) / 4, remembered])
    of_query = np.broadcast_to(of_query, (len(possible), len(of_query)))
    return np.concatenate([of_rows[possible.places], kinds, of_texts, of_query], 1, dtype=np.float32)


def _of_texts(
    log: Seen,
    state: EpisodeState,
    step: StepDescription,
    possible: Candidates,
    numbers: ComputedNumbers,
    records: Records,
    left_out: LeftOut,
    same: npt.NDArray[np.bool_],
) -> Features:
    language = state.language
    texts: dict[str, int] = {}
    number = np.array([texts.setdefault(text, len(texts)) for text in possible.texts])
    to_this = state.answers_to.get(step.action, frozenset())
    shown, bid = state.last_number, last_number(step.action) or state.last_bid
    wanted = state.rare_goal_words - vocabulary(step.action)
    sought = wanted - state.words
    of_task = log.words(state.task, left_out)
    foreign, here = language.phrasing.goal_words.of_others(state.goal), state.words | vocabulary(step.action)
    described = []
    for text in texts:
        words, facts = vocabulary(text), language.facts_of_answer(step.action, text, step.phrase)
        described.append(
            (
                text == state.observation,
                text in state.shown,
                text in to_this,
                log.logged(text, left_out),
                len(words - of_task) / max(1, len(words)),
                len(words - state.words) / max(1, len(words)),
                min(len(words & wanted), 2) / 2,
                min(len(words & sought), 2) / 2,
                min(len((words & foreign) - here), 2) / 2,
                *_placed(text, shown, bid),
                *numbers.judged(text),
                math.tanh(language.shared_facts.agreement(records.task, facts) / _SCALE),
                math.tanh(language.shared_facts.agreement(records.episode, facts) / _SCALE),
            )
        )
    plain = possible.kinds <= OTHER
    seen, done, task = (same[:, COLUMN[name]] for name in ("observation", "action", "task"))
    groups = np.empty((len(number), 8), np.float32)
    groups[:, 0] = plain
    groups[:, 1] = plain & seen & done
    groups[:, 2] = plain & task & done
    groups[:, 3] = plain & done
    groups[:, 4:7] = plain[:, None] & same[:, _PASTS]
    groups[:, 7] = plain & same[:, COLUMN["shape"]] & same[:, COLUMN["goal_words"]]
    counted = (number == np.arange(len(texts))[:, None]).astype(np.float32) @ groups
    agreeing = (counted / np.maximum(counted.sum(0), 1.0))[number]
    is_renamed = possible.kinds == RENAMED
    alone = np.empty((len(number), 6))
    alone[:, 0] = (possible.kinds == EXACT) & seen
    alone[:, 1] = is_renamed & same[:, COLUMN["shape"]]
    alone[:, 2] = is_renamed & task
    alone[:, 3] = is_renamed & (task & done).any()
    alone[:, 4] = possible.rows < 0
    alone[:, 5] = np.minimum(possible.renames, 3) / 3
    return np.concatenate([alone, np.array(described)[number], agreeing], 1, dtype=np.float32)


def _placed(text: str, shown: float | None, bid: float | None) -> tuple[float, float, float, float, float]:
    """Where the last number of an answer lies beside the last one that was shown and that of the action."""
    value = last_number(text)
    if value is None:
        return 0.0, 0.0, 0.0, 0.0, 0.0
    above, equal = (0.0, 0.0) if shown is None else (float(value > shown), float(value == shown))
    below, same = (0.0, 0.0) if bid is None else (float(value < bid), float(value == bid))
    between = (
        0.5 if shown is None or bid is None or shown == bid else min(max((value - bid) / (shown - bid), -1.0), 2.0)
    )
    return above, equal, below, same, between
