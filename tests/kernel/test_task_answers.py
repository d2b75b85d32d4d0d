"""What tasks answer about a thing in other words each time, against logs whose rule is written here."""

import itertools
import random

import numpy as np
import numpy.typing as npt
import pytest
from written_logs import Played, episode, state_after

from worldline.kernel.answers import StepRequest
from worldline.kernel.compared_rows import KEPT
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.features import NAMES
from worldline.kernel.fitting import fit_once
from worldline.kernel.model import KernelModel
from worldline.kernel.step_table import COLUMN
from worldline.kernel.task_answers import TaskVotes
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


def test_the_words_that_a_task_settles_tell_something_and_no_others(model: KernelModel) -> None:
    for weights in model.task_answers.weights.values():
        assert set(weights) == set(COATS)


def votes_of(model: KernelModel, task: str, action: str, left_out: npt.NDArray[np.bool_] | None = None) -> TaskVotes:
    step = EpisodeState(model.log.language, task, "", "Guests are about.", None).describe(action)
    return model.task_answers.votes(int(step.codes[COLUMN["task"]]), step, -1, left_out)


def test_where_no_other_task_asks_the_like_nothing_is_known_of_its_words() -> None:
    log = [one for one in inn() if one.task_id == "t0"]
    assert not any(KernelModel(log).task_answers.weights.values())


def test_a_text_agrees_by_what_it_tells_and_not_by_how(model: KernelModel) -> None:
    votes, right = votes_of(model, "t3", "look at Eve"), coat(3, "Eve")
    assert max(votes.shares, key=lambda word: votes.shares[word]) == right, "however it was asked for"
    for way in WAYS:
        judged = {colour: votes.judged(way.format("Eve", colour)) for colour in COATS}
        assert judged[right][0] > 0.9
        assert judged[right][1] == 0.0
        assert all(judged[colour] == (0.0, 1.0) for colour in COATS if colour != right)
    assert votes.judged("Nobody is here.") == (0.0, 0.0)
    assert votes_of(model, "t3", "xyzzy").shares == {}, "nothing alike was done"


def test_answers_that_are_left_out_have_no_vote(model: KernelModel) -> None:
    log = model.log
    of_task = np.array([log.episodes[row.episode].task_id == "t3" for row in log.rows])
    assert votes_of(model, "t3", "look at Eve", of_task).shares == {}
    assert votes_of(model, "t3", "look at Eve", ~of_task).shares == votes_of(model, "t3", "look at Eve").shares
    column = NAMES.index("says what the task answers")
    own = next(n for n, one in enumerate(log.episodes) if one.task_id == "t3")
    state = state_after(model, log.episodes[own], 0)
    assert model.consider(state, "look at Eve", own=own).features[:, column].any()
    log_of_one = KernelModel([one.model_copy(update={"policy": one.task_id}) for one in log.episodes])
    assert not log_of_one.consider(state, "look at Eve", own=own, without_policy=True).features[:, column].any()


def test_whether_a_word_tells_something_is_not_for_its_own_episode_to_say() -> None:
    """Two episodes a task, each with one of two words of that task: they agree in half of the tasks, by chance."""
    rng = random.Random(5)
    log = []
    for task, again in itertools.product(range(400), range(2)):
        looked = Played(f"look at {GUESTS[task % len(GUESTS)]}", f"It is w{task}{rng.choice('ab')}.")
        log.append(episode(f"e{task}-{again}", "Guests are about.", [looked], task=f"t{task}"))
    model = KernelModel(log)
    agrees = []
    for own, row in enumerate(model.log.rows):
        (_, step, _), *_ = model.log.replay(own)
        task, left_out = int(step.codes[COLUMN["task"]]), model.log.episode_of == own
        votes, other = model.task_answers.votes(task, step, own, left_out), model.log.rows[own ^ 1].answer
        agrees.append((votes.judged(other)[0] > 0, row.answer == other))
    counted = [np.mean([some for some, same in agrees if same is equal]) for equal in (True, False)]
    assert abs(counted[0] - counted[1]) < 0.1, "what the other episode says counts alike, right or wrong"


def test_votes_for_outcomes_are_log_ratios_to_the_whole_log() -> None:
    """Four of the task's eight accusations of Ada were right, each worded like this one; in the log one in eight is."""
    log = []
    for task, again in itertools.product(range(4), range(8)):
        right = not task and again < 4
        steps = [Played("accuse Ada", "Right." if right else "No.", float(right))]
        log.append(episode(f"e{task}-{again}", "Something is gone.", steps, task=f"t{task}", success=right))
    model = KernelModel(log)
    shares = model.outcomes.classes.shares
    won = int(np.argmin(shares))
    assert shares[won] == pytest.approx(1 / 8)
    votes = votes_of(model, "t0", "accuse Ada")
    alike = 8.0  # the same names and the same words: a whole vote each
    expected = np.log((0.5 * alike + 0.5 * shares[won]) / (alike + 0.5) / shares[won])
    assert votes.outcomes[won] == pytest.approx(expected, abs=1e-4)
    none = np.log(0.5 / (alike + 0.5))
    assert votes_of(model, "t1", "accuse Ada").outcomes[won] == pytest.approx(none, abs=1e-4), "half a vote of doubt"
    assert votes_of(model, "t0", "xyzzy").outcomes == pytest.approx(0.0), "nothing alike was done"


def test_what_came_of_the_like_in_the_task_counts_in_whichever_words() -> None:
    """In each task one guest is guilty; accusing her pays and ends."""
    rng = random.Random(1)
    log = []
    for task, again in itertools.product(range(30), range(8)):
        accused, guilty = rng.choice(guests(task)), guests(task)[task % 3]
        wording = rng.choice(("{} did it", "I accuse {}", "the thief is {}"))
        answer = rng.choice(("Right you are.", "Well done.") if accused == guilty else ("No.", "You are mistaken."))
        steps = [Played("look around", "People."), Played(wording.format(accused), answer, float(accused == guilty))]
        log.append(episode(f"e{task}-{again}", "Something is gone.", steps, task=f"t{task}", success=accused == guilty))
    model, right = fit_once(log)[0], []
    for task in range(30):
        worth = {}
        for guest in guests(task):
            state = state_after(model, next(one for one in log if one.task_id == f"t{task}"), 1)
            requests = [StepRequest(state, f"I accuse {guest}", (at + 0.5) / 8, 0.5, at) for at in range(8)]
            worth[guest] = np.mean([answer.mean_reward for answer in model.answer(requests)])
        right.append(max(worth, key=lambda guest: worth[guest]) == guests(task)[task % 3])
    assert np.mean(right) > 0.9


def test_the_feature_is_of_the_task_that_is_played(model: KernelModel) -> None:
    for task in (1, 2, 9):  # Cleo is about in all three
        state = state_after(model, inn()[6 * task], 0)
        considered = model.consider(state, "what does Cleo wear")
        column = considered.features[:, NAMES.index("says what the task answers")]
        assert column.any()
        support = dict(zip(considered.candidates.texts, column.tolist(), strict=True))
        assert coat(task, "Cleo") in max(support, key=lambda text: support[text])


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
