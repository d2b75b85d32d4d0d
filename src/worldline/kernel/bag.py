"""The bag: what followed a logged step with the same observation and action. The least that a world model must beat."""

from collections.abc import Sequence
from dataclasses import dataclass

from worldline.kernel.answers import KernelAnswer, StepRequest
from worldline.kernel.candidates import EXACT, KINDS, OTHER
from worldline.kernel.outcome import outcome_of
from worldline.kernel.step_table import CONTEXTS, StepTable

_ORDER = [list(CONTEXTS).index(name) for name in ("observation, action", "action", "skeleton", "any")]


@dataclass(frozen=True)
class Bag:
    """Answers with a logged step as it stands: of this observation and action, else this action, wording, or any."""

    log: StepTable

    def answer(self, requests: Sequence[StepRequest]) -> list[KernelAnswer]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: StepRequest) -> KernelAnswer:
        step = request.state.describe(request.action)
        contexts = self.log.contexts(step)
        for at in _ORDER:
            rows = contexts[at]
            if request.own >= 0:
                rows = rows[self.log.episode_of[rows] != request.own]
            if len(rows):
                break
        row = self.log.rows[rows[int(request.draw * len(rows))]]
        listed = request.state.listed if row.listed_after is None else row.listed_after
        kind = KINDS[EXACT if row.action == request.action else OTHER]
        outcome = outcome_of(row)
        return KernelAnswer(row.answer, outcome, listed, {}, step, kind, float(outcome.ended), outcome.reward)
