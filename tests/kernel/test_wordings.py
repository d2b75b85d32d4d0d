"""How an answer is worded may depend on what was read or tried many steps before."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from kernel_fits import fewer_updates
from written_logs import COLOURS, OPENS, SHUT, Played, episode, state_after, walk

from worldline.kernel.candidates import Candidates
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.fitting import fit_once
from worldline.kernel.model import KernelModel
from worldline.kernel.step_table import FOLDS
from worldline.kernel.wordings import LEAST, TaskBids, WordingExercise, WordingModel, Wordings, beside, wordings
from worldline.types import Trajectory


def says(model: KernelModel, noted: str, taken: str, pace: int) -> dict[str, float]:
    """What the wording model alone says of the gate: the log-probability of each wording."""
    logged = walk("x", noted, taken, pace)
    considered = model.consider(state_after(model, logged, len(logged) - 1), "open the gate")
    chances = model.wording_model.log_chances(considered.wordings)
    return dict(zip(considered.candidates.texts, chances.tolist(), strict=True))


@pytest.mark.parametrize("noted", COLOURS)
def test_the_note_decides_the_answer_at_the_gate(gate_model: KernelModel, noted: str) -> None:
    """Four notes by four keys, read up to eight steps before. By chance one would get half of them right."""
    trust = []
    for taken in COLOURS:
        for pace in (1, 2, 3, 5):
            chances = says(gate_model, noted, taken, pace)
            right, wrong = (OPENS, SHUT) if noted == taken else (SHUT, OPENS)
            assert chances[right] > chances[wrong]
            trust.append(np.exp(chances[right]))
    assert np.mean(trust) > 0.85


def test_chances_are_a_distribution_over_wordings(gate_model: KernelModel) -> None:
    logged = walk("x", "jade", "jade", 2)
    many = gate_model.consider(state_after(gate_model, logged, len(logged) - 1), "open the gate").wordings
    of_texts = {int(at): chance for at, chance in zip(many.of, gate_model.wording_model.log_chances(many), strict=True)}
    assert len(of_texts) == len(many.texts)
    assert np.exp(list(of_texts.values())).sum() == pytest.approx(1, abs=len(many.texts) * np.exp(LEAST))
    assert min(of_texts.values()) >= LEAST


def test_a_fold_is_judged_by_the_model_that_has_not_seen_it(gate_model: KernelModel) -> None:
    """Steps of fold 0 say one thing, those of fold 1 another: each fold's model says what the other fold said."""
    logged = walk("x", "jade", "jade", 2)
    many = gate_model.consider(state_after(gate_model, logged, len(logged) - 1), "open the gate").wordings
    opens, shut = (many.texts.index(text.lower()) for text in (OPENS, SHUT))
    model = WordingModel()
    model.fit(
        [WordingExercise(fold, many, [opens if fold else shut]) for fold in range(FOLDS) for _ in range(5)], seed=0
    )
    at = {text: int(np.flatnonzero(many.of == number)[0]) for text, number in ((OPENS, opens), (SHUT, shut))}
    for fold, right in ((0, OPENS), (1, SHUT)):
        chances = model.log_chances(many, fold)
        assert np.exp(chances[at[right]]) > 0.9
    both = model.log_chances(many)
    assert both[at[OPENS]] == pytest.approx(both[at[SHUT]], abs=0.05), "a new step is judged by both"


GUESTS = ("Anna", "Bert", "Carl", "Dora")
FOODS = ("nut", "leek", "corn", "bean", "rice", "plum", "kale", "oats", "figs", "lime", "mint", "dill")


def test_what_was_done_long_before_decides_where_the_goal_forbids_it() -> None:
    """A guest must not eat one food and likes another; three foods are added, in any order; "serve" says how it went.

    Which food is which, differs by task: only the goal says it, and only the deeds say what is in the pot.
    """
    rng = random.Random(0)

    def dinner(number: int) -> tuple[Trajectory, bool]:
        bad, good = rng.sample(FOODS, 2)
        added = [*rng.sample([food for food in FOODS if food not in (bad, good)], 2), rng.choice((bad, good))]
        rng.shuffle(added)
        steps = [Played(f"add {food}", "It is in the pot.") for food in added]
        ill = bad in added
        steps.append(Played("serve", "The guest turns red." if ill else "The guest smiles.", float(not ill)))
        goal = f"Cook for {rng.choice(GUESTS)}, who must not eat {bad} and likes {good}."
        return episode(f"e{number}", "A pot.", steps, task=f"t{number}", goal=goal, success=not ill), ill

    model = fit_once([dinner(number)[0] for number in range(240)])[0]
    right = []
    for number in range(60):
        logged, ill = dinner(1000 + number)
        considered = model.consider(state_after(model, logged, 3), "serve")
        chances = model.weighed([considered], [model.described(considered)])[0]
        red = sum(c for c, text in zip(chances, considered.candidates.texts, strict=True) if "red" in text)
        right.append((red > 0.5) == ill)
    assert np.mean(right) > 0.9, "half of the dinners make ill"


def without(model: KernelModel, *rows: int) -> npt.NDArray[np.bool_]:
    """These rows are left out."""
    return np.isin(np.arange(len(model.log)), rows)


def test_bids_of_a_task_less_the_rows_left_out() -> None:
    log = [
        episode("a", "Guess.", [Played("say 3", "Too low."), Played("say 8", "Too high.")], task="t0"),
        episode("b", "Guess.", [Played("say 5", "Yes, 5!")], task="t0"),
        episode("c", "Guess.", [Played("say 5", "Too low.")], task="t1"),
    ]
    model = KernelModel(log)
    bids = TaskBids(model.log)
    assert sorted(bids.of("t0")["say *"]) == [(3.0, "too low."), (5.0, "yes, <0>!"), (8.0, "too high.")]
    assert bids.of("t0", without(model, 0, 1)) == {"say *": [(5.0, "yes, <0>!")]}
    assert bids.of("t1", without(model, 3)) == {"say *": []}
    assert bids.of("t2") == {}


def test_words_in_place_and_elsewhere_beside_earlier_tries() -> None:
    pairs = [(("1", "2", "3"), "a"), (("3", "3", "1"), "b"), (("1", "2", "3"), "a"), (("4",), "c")]
    assert list(beside(("1", "3", "2"), pairs)) == ["1 2 0 a", "1 1 0 b", "0 0 2 c"]


def test_pairs_of_a_task_less_the_rows_left_out() -> None:
    log = [
        episode("a", "A lock.", [Played("turn 3 1", "No."), Played("knock", "No.")], task="t0"),
        episode("b", "A lock.", [Played("turn 5 5", "Click.")], task="t0"),
    ]
    model = KernelModel(log)
    skeleton = model.log.language.phrasing.parse("turn 3 1").skeleton
    assert model.task_pairs.of("t0", skeleton, without(model, 2)) == [(("3", "1"), "no.")]
    assert sorted(model.task_pairs.of("t0", skeleton)) == [(("3", "1"), "no."), (("5", "5"), "click.")]


def test_a_bounded_number_of_pairs_of_a_task_count_and_not_of_one_policy_alone() -> None:
    log = [
        episode(f"e{number}", "A lock.", [Played(f"turn {number} {at}", f"No {at}.") for at in range(3)], task="t0")
        for number in range(30)
    ]
    model = KernelModel(log)
    pairs = model.task_pairs.of("t0", "turn *", without(model, *range(45)))
    tried = [int(words[0]) for words, _ in pairs]
    assert len(pairs) == 32
    assert min(tried) >= 15, "the first 45 rows are left out"
    assert min(tried) < 19, "the latest 32 rows are of episodes 19 to 29"


CODES = list(itertools.product("123", repeat=2))
OPEN = "The lock springs open."


def answer_to(code: tuple[str, ...], attempt: tuple[str, ...]) -> str:
    right = sum(a == b for a, b in zip(code, attempt, strict=True))
    return OPEN if right == len(code) else f"{right} of the wheels hold."


def tries(number: int, rng: random.Random) -> Trajectory:
    """Four random tries at a code that nobody sees and that no other episode shares."""
    code, steps = rng.choice(CODES), []
    while len(steps) < 4 and (not steps or steps[-1].answer != OPEN):
        attempt = rng.choice(CODES)
        steps.append(Played(f"turn the wheels to {' '.join(attempt)}", answer_to(code, attempt)))
    won = steps[-1].answer == OPEN
    steps[-1] = replace(steps[-1], reward=float(won))
    return episode(f"c{number}", "A lock with two wheels.", steps, task=f"t{number}", ended=won, success=won)


def test_a_hidden_code_is_narrowed_down_as_bayes_does() -> None:
    """p(answer | earlier tries) against the sum over all codes that agree with them; all codes are equally likely."""
    rng = random.Random(5)
    with fewer_updates():
        model, _ = fit_once([tries(number, rng) for number in range(400)], seed=0, steps=900)
    gaps, blind = [], []
    for number in range(60):
        new = tries(1000 + number, rng)
        if len(new) < 3:
            continue
        tried = [tuple(step.action.split()[-2:]) for step in new.steps]
        heard = list(zip(tried[:2], new.next_observations, strict=False))
        left = [code for code in CODES if all(answer_to(code, attempt) == answer for attempt, answer in heard)]
        exact = np.mean([answer_to(code, tried[2]) == OPEN for code in left])
        considered = model.consider(state_after(model, new, 2), new.steps[2].action)
        chances = model.weighed([considered], [model.described(considered)])[0]
        opens = sum(c for c, text in zip(chances, considered.candidates.texts, strict=True) if text == OPEN)
        gaps.append(abs(opens - exact))
        blind.append(abs(1 / len(CODES) - exact))
    assert len(gaps) > 30
    assert np.mean(gaps) < 0.6 * np.mean(blind), "blind: the chance of a code before anything is tried"
    assert np.mean(gaps) < 0.1


LETTERS, SUBJECTS = "ABCD", ("rivers", "music", "metals", "films", "sport", "birds", "kings", "stars")


def test_a_hint_is_heeded_whatever_comes_next() -> None:
    """The hinted letter is right in nine of ten questions. Each answer has the next question in it, so none recurs."""
    rng = random.Random(0)

    def question() -> tuple[str, str]:
        hinted, subject, prize = rng.choice(LETTERS), rng.choice(SUBJECTS), rng.randrange(10, 99)
        return hinted, f"For {prize} in {subject}, {rng.choice(SUBJECTS)} too. Your hunch is {hinted}."

    def game(number: int) -> Trajectory:
        (hinted, shown), played = question(), []
        first = shown
        for _ in range(4):
            chosen = hinted if rng.random() < 0.5 else rng.choice(LETTERS)
            right = (chosen == hinted) == (rng.random() < 0.9)
            hinted, shown = question()
            played.append(Played(f"answer {chosen}", f"{'Correct!' if right else 'Oh no.'} {shown}"))
        return episode(f"q{number}", first, played, listed=tuple(f"answer {letter}" for letter in LETTERS))

    model, _ = fit_once([game(number) for number in range(120)], 0)
    chances: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(24):
        hinted, shown = question()
        for letter in LETTERS:
            state = EpisodeState(model.log.language, "t", "", shown, tuple(f"answer {one}" for one in LETTERS))
            considered = model.consider(state, f"answer {letter}")
            (weighed,) = model.weighed([considered], [model.described(considered, -1)])
            begins = [text.startswith("Correct!") for text in considered.candidates.texts]
            chances[letter == hinted].append(float(weighed[begins].sum()))
    assert np.mean(chances[True]) == pytest.approx(0.9, abs=0.05), "without openings or places .83"
    assert np.mean(chances[False]) == pytest.approx(0.1, abs=0.06), "without openings or places .17 and more"


def test_answers_that_begin_alike_share_half_of_what_is_learned(gate_model: KernelModel) -> None:
    logged = walk("x", "jade", "jade", 2)
    state = state_after(gate_model, logged, len(logged) - 1)
    texts = ("Correct! Now for tea.", "Correct! Now for jam.", "Oh no. Now for jam.")
    nothing = np.zeros(3, np.int64)
    possible = Candidates(texts, nothing, nothing, nothing, nothing)
    ids = wordings(state, state.describe("open the gate"), possible, ()).ids
    half = ids.shape[1] // 2
    assert (ids[0, half:] == ids[1, half:]).all()
    for one, other in ((ids[0, :half], ids[1, :half]), (ids[0], ids[2]), (ids[1], ids[2])):
        assert np.mean(one == other) < 0.01, "but for what falls into one bucket by chance"


def test_where_two_wordings_may_be_right_their_sum_is_learned_and_neither_is_preferred() -> None:
    many = Wordings(("a", "b", "c"), np.array([[1], [2], [3]], np.int32), np.arange(3))
    model = WordingModel()
    model.fit([WordingExercise(fold, many, [0, 1]) for fold in range(FOLDS) for _ in range(5)], seed=0)
    chances = np.exp(model.log_chances(many))
    assert chances[0] == pytest.approx(chances[1], abs=1e-3)
    assert chances[:2].sum() > 0.95
    model.fit([WordingExercise(fold, many, [0, 1, 2]) for fold in range(FOLDS)], seed=0)
    assert np.exp(model.log_chances(many)) == pytest.approx(chances, abs=1e-6), "that says nothing"


def test_an_action_that_names_nothing_is_about_the_number_named_before_it() -> None:
    """Each task has a least force; "push" says whether the last one that was set suffices, with a count of its own."""
    rng = random.Random(0)

    def trial(number: int, task: int, forces: Sequence[int]) -> Trajectory:
        least, mass = 3 + task * 7919 % 34, 100 + task * 31 % 400
        steps = []
        for force in forces:
            moved = f"{int(force >= least)} of 1 moves, {mass} kg."
            steps += [Played(f"set {force}", f"The dial is at {force}."), Played("push", moved)]
        return episode(f"e{number}", "A crate and a dial.", steps, task=f"t{task}")

    def bracketing(task: int) -> list[int]:
        least = 3 + task * 7919 % 34
        return [max(1, least - rng.randint(1, 6)), least + rng.randint(0, 5), rng.randint(1, 40)]

    log = [trial(number, number % 60, rng.sample(bracketing(number % 60), 3)) for number in range(180)]
    model = fit_once(log)[0]
    right = []
    for task in range(60):
        least = 3 + task * 7919 % 34
        for force in (least - 8, least + 7):
            logged = trial(1000, task, [force])
            considered = model.consider(state_after(model, logged, 1), "push")
            chances = model.weighed([considered], [model.described(considered)])[0]
            texts = considered.candidates.texts
            moves = sum(c for c, text in zip(chances, texts, strict=True) if text.startswith("1 of"))
            right.append((moves > 0.5) == (force >= least))
    assert np.mean(right) > 0.95, "other episodes of the task have tried forces on both sides"
