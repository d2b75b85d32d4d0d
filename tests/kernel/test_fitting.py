import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from kernel_fits import fewer_updates
from written_logs import LOST, TO_GREEN, UNDERSTOOD, Played, episode, lamps, lessons, shelves, walks

from worldline.kernel import fitting
from worldline.kernel.answers import StepRequest
from worldline.kernel.described_steps import DescribedStep, described_steps
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.fitting import EXPECTED_GAIN, _fit_lists, _judged, _measured, fit_kernel, fit_once
from worldline.kernel.model import KernelModel
from worldline.kernel.outcome import JudgedStep, OutcomeModel
from worldline.kernel.wordings import Wordings
from worldline.types import Trajectory

HERE = Path(__file__).parent
Fit = tuple[KernelModel, dict[str, float]]
SCRIPT = """
import hashlib, json
import torch
from written_logs import shelves, state_after
from worldline.kernel import gate, lists, outcome, wordings
from worldline.kernel.fitting import fit_kernel
from worldline.kernel.answers import StepRequest

torch.set_num_threads(1)
for module in (gate, lists, outcome, wordings):
    module._STEPS = 10
model, figures = fit_kernel(shelves(6, seed=1), seed=0, steps=20)
answers = [
    [answer.text, answer.outcome, answer.listed]
    for logged in shelves(2, seed=9)
    for at in range(6)
    for answer in model.answer([StepRequest(state_after(model, logged, at), logged.steps[at].action, 0.4, 0.4, at)])
]
weights = {name: hashlib.sha256(value.numpy().tobytes()).hexdigest() for name, value in model.state_dict().items()}
print(json.dumps([figures, weights, answers]))
"""


def test_a_world_without_chance_is_exact_on_held_out_episodes(gate_fit: Fit) -> None:
    figures = gate_fit[1]
    assert figures["exact"] == figures["possible"] == 1.0
    assert figures["nats"] < 0.05
    assert figures["outcome nats"] <= figures["outcome nats by votes"] < 0.2
    assert "exact lists" not in figures, "nothing is listed there"


def test_expectations_are_kept_where_they_tell_and_not_where_similar_steps_say_all(gate_fit: Fit) -> None:
    """The mark is 20 and 10 for each time that the pupil has understood, in whatever words, by up to 2 more or less."""
    assert not gate_fit[0].expects
    with fewer_updates():
        model, figures = fit_once(lessons(), steps=600)
    assert model.expects
    assert figures["nats without expectations"] - figures["nats"] > EXPECTED_GAIN
    for good in (0, 3):
        state = EpisodeState(model.log.language, "new", "", "Lena sits down.", None)
        for text in (*UNDERSTOOD[:good], *LOST[: 3 - good]):
            state.advance(state.describe("explain it"), f"Lena: {text}", 0.0, None)
        marks = [model.answer([StepRequest(state, "test", (at + 0.5) / 40, 0.5, at)])[0].text for at in range(40)]
        assert np.mean([int(text.split()[3]) for text in marks]) == pytest.approx(20 + 10 * good, abs=5)


def test_lists_by_a_rule_are_exact_on_held_out_episodes(shelf_fit: Fit) -> None:
    figures = shelf_fit[1]
    assert figures["exact lists"] == figures["exact"] == 1.0
    assert "outcome nats" not in figures, "there is one outcome only"


@pytest.mark.parametrize(("rewards", "judged"), [(2, 60), (30, 30)], ids=["few outcomes", "many"])
def test_of_many_outcomes_only_steps_with_a_source_are_judged(
    briefly: None, monkeypatch: pytest.MonkeyPatch, rewards: int, judged: int
) -> None:
    """Looking shows what nobody else has seen; waiting is always answered alike. What is imagined has a source."""
    seen: list[int] = []

    def fit(model: OutcomeModel, steps: Sequence[JudgedStep], held_out: frozenset[int]) -> dict[str, float]:
        seen.append(len(steps))
        return {}

    monkeypatch.setattr(OutcomeModel, "fit", fit)
    log = [
        episode(
            f"e{at}",
            "A room.",
            [Played("look", f"A thing called {word}."), Played("wait", "Time goes by.", at % rewards)],
        )
        for at, word in enumerate(f"{a}{b}" for a in "bdfgklmnpr" for b in ("aga", "ogo", "ugu"))
    ]
    fit_once(log, steps=1000)
    assert seen == [judged]


def test_a_step_that_is_likelier_to_be_in_the_sample_counts_less_among_held_out_lists() -> None:
    """Of two held-out lists one is right, and one that nobody has ever seen stands for three steps."""
    model = KernelModel(shelves(12, seed=1))
    sample = [one for one in described_steps(model, 0, 1000) if one.row.listed_after is not None]
    right, wrong = (one for one in sample if one.row.episode == 0 and one.row.step < 2)
    wrong = replace(wrong, row=replace(wrong.row, listed_after=("fly",)), weight=3.0)
    steps = [right, wrong, *(one for one in sample if one.row.episode)]
    chances = [np.full(len(one.considered.candidates), 1 / len(one.considered.candidates)) for one in steps]
    assert _fit_lists(model, steps, chances, frozenset({0})) == {"exact lists": 0.25}


def test_ends_that_no_candidate_says_are_counted_apart() -> None:
    """Of the ends of two held-out episodes one has a text that no other episode has; what came before can be said."""
    model = KernelModel(walks(40, seed=1))
    sample = [one for one in described_steps(model, 0, 1000) if one.row.episode < 2]
    assert [one.row.ended for one in sample].count(True) == 2

    def changed(one: DescribedStep) -> DescribedStep:
        new = one.row.ended and one.row.episode == 1
        return replace(one, row=replace(one.row, answer="A comet!")) if new else one

    steps = [changed(one) for one in sample]
    chances = [np.full(len(one.considered.candidates), 1 / len(one.considered.candidates)) for one in steps]
    figures = _measured(steps, chances, frozenset({0, 1}))
    assert figures["possible ends"] == pytest.approx(2 / 3), "one of two, and one that is added"
    assert figures["possible"] == pytest.approx(1 - 1 / len(steps))
    for all_end in (False, True):
        alike = [(one, each) for one, each in zip(steps, chances, strict=True) if one.row.ended == all_end]
        assert "possible ends" not in _measured(*zip(*alike, strict=True), frozenset({0, 1}))


def test_chance_is_right_as_often_as_the_table_lets_it(lamp_fit: Fit) -> None:
    """Who knows the table is right max(p, 1 - p) of the time."""
    best = sum(max(chance, 1 - chance) for chance in TO_GREEN.values()) / 4
    assert lamp_fit[1]["exact"] == pytest.approx(best, abs=0.12)
    assert lamp_fit[1]["possible"] == 1.0


@pytest.mark.usefixtures("briefly")
def test_another_seed_is_another_fit_and_the_same_seed_the_same() -> None:
    log = lamps(12, seed=6)
    first, one = fit_kernel(log, 0, 40)
    torch.rand(5)  # what others draw does not matter
    second, two = fit_kernel(log, 0, 40)
    third, _ = fit_kernel(log, 1, 40)
    assert one == two
    for name, value in first.state_dict().items():
        assert value.equal(second.state_dict()[name]), name
    assert any(not value.equal(third.state_dict()[name]) for name, value in first.state_dict().items())


@pytest.mark.usefixtures("briefly")
def test_processes_that_share_the_work_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, figures = fit_kernel(shelves(12, seed=1), 0, 60)
    monkeypatch.setattr(fitting, "LEAST_SHARED", 1)
    started: list[int] = []
    helping = fitting.helping
    monkeypatch.setattr(fitting, "helping", lambda log, jobs: (started.append(jobs), helping(log, jobs))[1])
    together, same = fit_kernel(shelves(12, seed=1), 0, 60, jobs=2)
    assert started == [2]
    assert same == figures
    for name, value in alone.state_dict().items():
        assert value.equal(together.state_dict()[name]), name


@pytest.mark.parametrize(("policies", "each"), [(1, 9), (3, 2)])
def test_every_model_has_as_many_of_the_processes(monkeypatch: pytest.MonkeyPatch, policies: int, each: int) -> None:
    """One of all episodes, and where there are three policies, three without one of these."""
    log = [one.model_copy(update={"policy": f"p{at % policies}"}) for at, one in enumerate(shelves(3, seed=1))]
    monkeypatch.setattr(fitting, "LEAST_SHARED", 1)
    processes: list[int] = []

    @contextmanager
    def left_out(
        log: Sequence[Trajectory], fit: partial[KernelModel], seed: int, jobs: int
    ) -> Iterator[Callable[[object], None]]:
        processes.append(fit.keywords["jobs"])
        yield lambda progress: None

    def whole(*given: object) -> Fit:
        processes.append(int(str(given[3])))
        return KernelModel(log), {}

    monkeypatch.setattr(fitting, "measuring_left_out", left_out)
    monkeypatch.setattr(fitting, "fit_once", whole)
    fit_kernel(log, 0, 60, jobs=9)
    assert processes == [each, each]


@pytest.mark.usefixtures("briefly")  # which also undoes what the script sets here
def test_every_process_makes_the_same_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """Python orders sets of words differently in every process: here and in another."""
    paths = os.pathsep.join([str(HERE), str(HERE.parents[1] / "src")])
    hashes = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = os.environ | {"PYTHONHASHSEED": hashes, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    other = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    exec(SCRIPT, {})
    assert capsys.readouterr().out == other.stdout


def test_where_all_candidates_begin_as_the_answer_does_the_nearest_alone_is_right(lamp_model: KernelModel) -> None:
    one = described_steps(lamp_model, seed=0, most=10)[0]
    worded = Wordings(("a.", "b.", "c."), np.zeros((3, 1), np.int32), np.array([0, 1, 1, 2]))
    one = replace(one, row=replace(one.row, answer="Never said."), considered=replace(one.considered, wordings=worded))

    def right(*credit: float) -> list[int]:
        return replace(one, exercise=replace(one.exercise, credit=np.array(credit, np.float32))).right_wordings

    assert right(0.1, 0.0, 0.9, 0.0) == [0, 1]
    assert right(0.1, 0.2, 0.9, 0.3) == [1], "all stand in"
    assert right(0.0, 0.0, 0.0, 0.0) == []


def test_where_no_candidate_is_right_the_sources_of_one_text_vote() -> None:
    """Letters never recur: what follows one is imagined from one other step, and so are its outcomes learned."""
    log = [
        episode(f"e{n}", "Post.", [Played("open", f"Letter {chr(97 + n % 26)}{n}.", float(n % 2))], task=f"t{n}")
        for n in range(60)
    ]
    model = KernelModel(log)
    one = next(one for one in described_steps(model, 0, 100) if not one.right.any())
    chances = np.full(len(one.considered.candidates), 1 / len(one.considered.candidates))
    votes = [_judged(model, one, chances, seed).votes.together for seed in range(20)]
    assert all(len(each) == 1 for each in votes), "one step, one outcome"
    assert {outcome.reward for each in votes for outcome in each} == {0.0, 1.0}, "another one each time"
