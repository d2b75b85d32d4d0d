"""Which answers the log supports."""

import pytest
from written_logs import lamps

from worldline.kernel.answers import KernelAnswer
from worldline.kernel.candidates import EXACT, KINDS, OTHER, RENAMED
from worldline.kernel.outcome_classes import StepOutcome
from worldline.kernel.step_table import StepTable, replay


@pytest.mark.parametrize(("kind", "supported"), [(EXACT, True), (RENAMED, True), (OTHER, False)])
def test_an_answer_to_another_wording_is_not_supported(kind: int, supported: bool) -> None:
    log = StepTable.of(lamps(2, seed=1))
    _, step, _ = next(replay(log.language, log.episodes[0], 0))
    answer = KernelAnswer("", StepOutcome(0.0, False, False), None, {}, step, KINDS[kind])
    assert answer.supported == supported
