"""The policies of `bench rank`."""

from pathlib import Path

from worldline.bench.policy_suite import SUITES, Checkpoint
from worldline.policies import PolicySpec


def test_no_target_is_a_logger() -> None:
    for suite in SUITES.values():
        assert len(suite.loggers) == 3
        assert len(suite.targets) == 10
        assert not [policy for policy in suite.targets.values() if policy in suite.loggers.values()]


def test_every_suite_has_language_models_for_guidance() -> None:
    for suite in SUITES.values():
        assert len(suite.with_gradients) >= 4
        assert not suite.language_models.keys() & {*suite.targets, *suite.loggers}


def test_a_checkpoint_is_the_policy_of_its_folder() -> None:
    source = Checkpoint(-1, 0.25).source([Path("runs/step-1"), Path("runs/step-2")])
    assert isinstance(source, PolicySpec)
    assert (source.spec, source.epsilon) == ("hf:runs/step-2", 0.25)
