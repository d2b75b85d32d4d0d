"""What tasks answer about a thing in other words each time, against logs whose rule is written here."""

import random

import pytest
from written_logs import Played, episode, state_after

from worldline.kernel.compared_rows import KEPT
from worldline.kernel.features import NAMES
from worldline.kernel.model import KernelModel
from worldline.kernel.step_table import StepTable
from worldline.kernel.task_answers import TaskAnswers
from worldline.types import Trajectory

GUESTS = ("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ida", "Jon", "Kim", "Lou")
COATS, WAYS = ("brown", "green", "blue"), ("You see {}: a {} coat.", "{} wears {}.")
ASKING = ("look at {}", "what does {} wear")


def guests(task: int) -> list[str]:
    """Three of them; not all are in most tasks: such a word would be no name."""
    return [GUESTS[(task + step) % len(GUESTS)] for step in (0, 1, 5)]


def coat(task: int, guest: str) -> str:
    return COATS[(task + GUESTS.index(guest) * (1 + task % 2)) % 3]


def inn(tasks: int = 24, each: int = 6) -> list[Trajectory]:
    """Who wears what is settled by the task; how one asks and how it is told is chance."""
    rng = random.Random(3)
    return [
        episode(
            f"e{task}-{again}",
            "Guests are about.",
            [
                Played(rng.choice(ASKING).format(guest), rng.choice(WAYS).format(guest, coat(task, guest)))
                for guest in guests(task)
            ],
            task=f"t{task}",
            policy=f"p{again % 2}",
        )
        for task in range(tasks)
        for again in range(each)
    ]


@pytest.fixture(scope="module")
def model() -> KernelModel:
    return KernelModel(inn())


def test_the_words_that_a_task_settles_say_something_and_no_others(model: KernelModel) -> None:
    assert set(model.task_answers.weights) == set(COATS)


def test_a_text_agrees_by_what_it_says_and_not_by_how(model: KernelModel) -> None:
    answers, phrase = model.task_answers, model.log.language.phrasing.parse("look at Eve")
    votes = answers.votes("t3", phrase, but=-1)
    assert votes == {coat(3, "Eve"): 1.0}, "every episode of the task, however it asks"
    for way in WAYS:
        for colour in COATS:
            assert answers.agreement(way.format("Eve", colour), votes) == (colour == coat(3, "Eve"))
    assert answers.agreement("Nobody is here.", votes) == 0.0
    assert answers.votes("t3", model.log.language.phrasing.parse("wait"), but=-1) == {}, "nothing is asked about"


def test_an_episode_has_no_vote_on_itself() -> None:
    log = inn(each=2)
    other = next(colour for colour in COATS if colour != coat(0, "Ada"))
    log[0] = episode("odd", "Guests are about.", [Played("look at Ada", f"You see Ada: a {other} coat.")], task="t0")
    answers = TaskAnswers(StepTable.of(log))
    phrase = KernelModel(log).log.language.phrasing.parse("look at Ada")
    assert answers.votes("t0", phrase, but=-1) == {coat(0, "Ada"): 0.5, other: 0.5}
    assert answers.votes("t0", phrase, but=0) == {coat(0, "Ada"): 1.0}
    assert answers.votes("t0", phrase, but=1) == {other: 1.0}


def test_the_feature_is_of_the_task_that_is_played(model: KernelModel) -> None:
    for task in (1, 2, 9):  # Cleo is about in all three
        state = state_after(model, inn()[6 * task], 0)
        considered = model.consider(state, "what does Cleo wear")
        column = considered.features[:, NAMES.index("says what the task answers")]
        assert column.any()
        for text, agreement in zip(considered.candidates.texts, column.tolist(), strict=True):
            assert (agreement > 0.5) == (coat(task, "Cleo") in text), text


def test_rows_of_the_task_are_compared_however_they_ask() -> None:
    """In more other tasks than are compared somebody asks as this step does; in its own all ask in other words."""
    own = [
        episode(f"own-{n}", "Guests are about.", [Played("look at Ada", "You see Ada: a mauve coat.")], task="own")
        for n in range(3)
    ]
    others = [
        episode(f"e{n}", "Guests are about.", [Played("what does Ada wear", f"Ada wears {n}.")], task=f"t{n}")
        for n in range(2 * KEPT)
    ]
    model = KernelModel([*others, *own])
    considered = model.consider(state_after(model, own[0], 0), "what does Ada wear")
    assert "You see Ada: a mauve coat." in considered.candidates.texts
