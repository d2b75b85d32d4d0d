"""The sample of logged steps: which steps are in it, and that none is answered by its own episode."""

import random

import numpy as np
from written_logs import Played, episode, shelves

from worldline.kernel.described_steps import described_steps, helping
from worldline.kernel.model import KernelModel


def test_a_log_of_short_episodes_costs_no_more_than_the_sample() -> None:
    """Every one of 300 steps is its episode's last; of 60 that are wanted each stands for five."""
    model = KernelModel([episode(f"e{n}", "On.", [Played("go", f"Off {n % 3}.")], task=f"t{n}") for n in range(300)])
    sample = described_steps(model, 0, 60)
    assert 30 < len(sample) < 90
    assert {one.weight for one in sample} == {1.0}
    log = shelves(12, seed=1)
    last = [one for one in described_steps(KernelModel(log), 0, 24) if one.row.step + 1 == len(log[one.row.episode])]
    assert len(last) == 12, "all last steps, where these are fewer than wanted"


def test_a_step_is_not_answered_by_what_its_own_episode_alone_shows() -> None:
    """Each cup turns into a word of its own: nobody can know it, though the view of the table is seen twice."""
    rng = random.Random(0)
    table, log = "On the old table: a {}, a fork, a pan.", []
    for at in range(24):
        puff, thing = ("".join(rng.choices("bcdfghjklmnp", k=7)) for _ in range(2))
        steps = [
            Played("take cup from table", f"Puff {puff}, it happens."),
            Played("look at table and cup", table.format(thing)),
        ]
        start = f"You look at the table. {table.format('cup')}"
        log.append(episode(f"e{at}", start, steps, task=f"t{at}", policy="ab"[at % 2]))
    shelf = table.replace("table", "shelf").format("hat")
    for at in range(10):  # without these, all tasks would have a cup and a table: such words are no names
        steps = [Played("take hat from shelf", "Nothing at all."), Played("look at shelf and hat", shelf)]
        log.append(episode(f"x{at}", f"A shelf. {shelf}", steps, task=f"x{at}", policy="ab"[at % 2]))
    looked = [one for one in described_steps(KernelModel(log), 0, 200) if "table and" in one.row.action]
    assert len(looked) == 24
    assert not any(one.right.any() for one in looked)


def test_helpers_answer_as_the_process_itself_does() -> None:
    log = shelves(8, seed=2)
    model = KernelModel(log)
    alone = described_steps(model, 3, 30)
    with helping(log, 2) as helpers:
        helped = described_steps(model, 3, 30, helpers=helpers)
        assert described_steps(model, 3, 0, as_new=True, helpers=helpers) == []
    assert [one.row for one in helped] == [one.row for one in alone]
    for one, other in zip(helped, alone, strict=True):
        assert one.considered.candidates.texts == other.considered.candidates.texts
        assert np.array_equal(one.exercise.features, other.exercise.features)
        assert np.array_equal(one.exercise.credit, other.exercise.credit)
