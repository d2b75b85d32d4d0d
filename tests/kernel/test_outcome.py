import itertools
import random

import numpy as np
import pytest
from written_logs import GREEN, OVER, PAID, RED, Played, episode, lamps, state_after

from worldline.kernel.answers import StepRequest
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.fitting import fit_once
from worldline.kernel.model import KernelModel
from worldline.kernel.outcome import JudgedStep, OutcomeModel, RewardRules, Votes, outcome_of, reward_wording
from worldline.kernel.outcome_classes import MOST_CLASSES, StepOutcome
from worldline.kernel.outcome_features import last_numbers
from worldline.kernel.step_table import LoggedStep
from worldline.types import Trajectory

NOTHING, WON = StepOutcome(0.0, False, False), StepOutcome(1.0, True, True)


def row(outcome: StepOutcome, episode: int = 0) -> LoggedStep:
    return LoggedStep(episode, 0, "", "", "", *outcome, None, None)


def like(**votes: float) -> Votes:
    return Votes({{"won": WON, "nothing": NOTHING}[name]: many for name, many in votes.items()}, {})


def test_the_prior_is_the_votes_and_two_of_like_happenings() -> None:
    """Of the log's four steps one was won, and that one ran. What happened in an episode does not count for itself."""
    steps = [row(NOTHING), row(NOTHING, 1), row(NOTHING, 1), row(WON, 2)]
    model = OutcomeModel(steps, ["sit"] * 3 + ["run"])
    assert [model.classes.number(one) for one in (NOTHING, WON)] == [0, 1]
    assert np.exp(model.prior(like(), "fly")[0]) == pytest.approx([0.75, 0.25], abs=1e-5)
    assert np.exp(model.prior(like(won=2), "fly")[0]) == pytest.approx([1.5 / 4, 2.5 / 4], abs=1e-5)
    assert np.exp(model.prior(like(), "run")[0]) == pytest.approx([0.75 / 2, 1.25 / 2], abs=1e-5)
    assert np.exp(model.prior(like(), "run", own=2)[0]) == pytest.approx([0.75, 0.25], abs=1e-5)
    assert np.exp(model.prior(like(), "sit", own=0)[0]) == pytest.approx([2.75 / 3, 0.25 / 3], abs=1e-5)
    assert np.exp(model.prior(like(), "sit", own=1)[0]) == pytest.approx([1.75 / 2, 0.25 / 2], abs=1e-5)
    assert np.exp(model.prior(like(), "sit", own=2)[0]) == pytest.approx([3.75 / 4, 0.25 / 4], abs=1e-5)


def test_the_table_is_the_optimum_however_many_features_are_alike() -> None:
    """Two features that come together share the weight that one with twice the variance has: a penalty half as large.

    A step with a third feature of its own is judged by the sum of all: the fit of every feature by itself.
    """
    rng = np.random.default_rng(0)
    happened = [(int(rng.random() < 0.3), int(rng.random() < 0.5)) for _ in range(200)]
    outcomes = [WON if rng.random() < (0.8 if shown else 0.2) else NOTHING for shown, _ in happened]
    model = OutcomeModel([row(one, at) for at, one in enumerate(outcomes)], ["go"] * 200)
    steps = [
        JudgedStep(at, np.array([1, *([5, 9] if shown else []), 20 + other]), like(), "go", outcome)
        for at, ((shown, other), outcome) in enumerate(zip(happened, outcomes, strict=True))
    ]
    model.fit(steps, frozenset(range(0, 200, 6)))
    table = model.table.numpy()
    assert np.array_equal(table[5], table[9])
    assert table[5, 1] - table[5, 0] > 0.3
    logits = np.array(
        [
            model.trust.numpy() @ model.prior(like(), "go", at) + table[one.features].sum(0)
            for at, one in enumerate(steps)
        ]
    )
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    right = np.array([model.classes.number(one) for one in outcomes])
    slopes = chances - np.eye(2)[right]
    shown = np.array([one for one, _ in happened], bool)
    ratio = slopes[shown].sum(0) / -table[5]  # at the optimum the slope of each feature is its weight over the variance
    assert ratio[0] == pytest.approx(ratio[1], rel=0.05)
    assert ratio[0] > 0


def test_what_else_votes_is_a_ratio_to_the_log() -> None:
    model = OutcomeModel([row(NOTHING)] * 3 + [row(WON)], ["sit"] * 3 + ["run"])
    assert model.prior(like(won=2), "fly")[1] == pytest.approx([0, 0], abs=1e-4)
    votes = Votes({}, {WON: 2.0})
    assert np.exp(model.prior(votes, "fly")[0]) == pytest.approx([0.75, 0.25], abs=1e-5)
    assert np.exp(model.prior(votes, "fly")[1]) == pytest.approx([0.375 / 0.75, 0.625 / 0.25], abs=1e-4)


def test_where_outcomes_are_many_and_nothing_was_learned_the_sources_alone_vote() -> None:
    many = [row(StepOutcome(float(n), False, False)) for n in range(MOST_CLASSES + 1)]
    model = OutcomeModel(many, [""] * len(many))
    assert not model.classes.few
    outcomes, chances = model.chances(np.array([5]), Votes({NOTHING: 1.0, WON: 1.0}, {WON: 2.0}), "")
    assert dict(zip(outcomes, chances.tolist(), strict=True)) == {NOTHING: 0.25, WON: 0.75}
    assert model.fit([], frozenset({0})) == {}


def test_of_many_rewards_it_learns_which_feature_earns_more() -> None:
    """No two steps earn the same: feature 5 about 1, feature 6 about 0. Two sources, one of each, vote for all."""
    rng = np.random.default_rng(0)
    outcomes = [StepOutcome(round((n % 2) + rng.normal(0, 0.1), 6), True, False) for n in range(200)]
    model = OutcomeModel([row(outcome) for outcome in outcomes], ["end"] * 200)
    votes = Votes({outcomes[0]: 1.0, outcomes[1]: 1.0}, {})
    steps = [JudgedStep(n, np.array([5 if n % 2 else 6]), votes, "end", outcome) for n, outcome in enumerate(outcomes)]
    figures = model.fit(steps, frozenset(range(40)))
    assert figures["outcome error by votes"] == pytest.approx(1, abs=0.1), "the votes know no more than the mean"
    assert figures["outcome error"] < 0.1

    def mean(feature: int) -> float:
        possible, chances = model.chances(np.array([feature]), votes, "end")
        assert chances.sum() == pytest.approx(1)
        return float(chances @ [one.reward for one in possible])

    assert [mean(5), mean(6)] == pytest.approx([1, 0], abs=0.15)


def test_of_many_rewards_votes_that_are_exact_stay_as_they_are() -> None:
    """Each step earns what its only source earned, and features say nothing: no correction is kept."""
    rng = np.random.default_rng(0)
    outcomes = [StepOutcome(round(rng.normal(), 6), True, False) for _ in range(200)]
    model = OutcomeModel([row(outcome) for outcome in outcomes], ["end"] * 200)
    steps = [
        JudgedStep(n, np.array([1 + rng.integers(50)]), Votes({outcome: 1.0}, {}), "end", outcome)
        for n, outcome in enumerate(outcomes)
    ]
    figures = model.fit(steps, frozenset(range(40)))
    assert figures == {"outcome error by votes": 0, "outcome error": 0}
    assert not model.corrects
    assert model.chances(np.array([7]), Votes({outcomes[3]: 1.0}, {}), "end")[0] == (outcomes[3],)


def test_of_many_rewards_a_text_that_was_always_the_last_is_the_last() -> None:
    """The feature of what goes on is with a text whose every source ended: it ends."""
    rng = np.random.default_rng(0)
    outcomes = [StepOutcome(round(rng.normal(n % 2, 0.1), 6), bool(n % 2), False) for n in range(200)]
    model = OutcomeModel([row(outcome) for outcome in outcomes], ["do"] * 200)
    both = Votes({outcomes[0]: 1.0, outcomes[1]: 1.0}, {})
    steps = [JudgedStep(n, np.array([5 if n % 2 else 6]), both, "do", outcome) for n, outcome in enumerate(outcomes)]
    model.fit(steps, frozenset(range(40)))
    possible, chances = model.chances(np.array([6]), both, "do")
    assert chances @ [one.ended for one in possible] < 0.1
    possible, _ = model.chances(np.array([6]), Votes({outcomes[1]: 1.0}, {}), "do")
    assert all(one.ended for one in possible)


def test_it_learns_which_feature_decides() -> None:
    """The votes are even. Bucket 7 means success, bucket 8 does not; bucket 9 is always there."""
    rng = random.Random(0)
    steps = []
    for number in range(200):
        won = rng.random() < 0.5
        features = np.array([7 if won else 8, 9, 10 + rng.randrange(50)])
        steps.append(JudgedStep(number, features, like(nothing=1, won=1), "", WON if won else NOTHING))
    model = OutcomeModel([row(one.outcome) for one in steps], [""] * len(steps))
    figures = model.fit(steps, frozenset(range(40)))
    assert figures["outcome nats by votes"] == pytest.approx(np.log(2), abs=0.05)
    assert figures["outcome nats"] < 0.1
    for bucket, likely in ((7, WON), (8, NOTHING)):
        outcomes, chances = model.chances(np.array([bucket, 9]), like(nothing=1, won=1), "")
        assert chances[outcomes.index(likely)] > 0.9


def test_nothing_is_read_from_what_a_step_leaves_out_of_its_own_prior() -> None:
    """Sixty happenings, four steps each, all of chance. Of a win, one win less is left: nobody may gain by that."""
    rng = random.Random(0)
    happenings = [f"happening {number % 60}" for number in range(240)]
    outcomes = [rng.choice((NOTHING, WON)) for _ in happenings]
    model = OutcomeModel([row(one, number) for number, one in enumerate(outcomes)], happenings)
    steps = [
        JudgedStep(number, np.array([1, 2 + number % 60]), like(), happening, outcome)
        for number, (happening, outcome) in enumerate(zip(happenings, outcomes, strict=True))
    ]
    assert model.fit(steps, frozenset(range(40)))["outcome nats"] > 0.9 * np.log(2)
    assert model.trust.min() >= 0


def test_ends_and_rewards_are_near_those_of_the_log(lamp_model: KernelModel) -> None:
    """Pressing is paid with PAID when green follows and ends with OVER; waiting does neither. In 20 new episodes."""
    sums = {(action, text): np.zeros(2) for action in ("wait", "press") for text in (RED, GREEN)}
    times = dict.fromkeys(sums, 0)
    for logged in lamps(20, seed=7):
        for at in range(len(logged)):
            state = state_after(lamp_model, logged, at)
            for action, text in sums:
                considered = lamp_model.consider(state, action, turn=at)
                same = np.array([other == text for other in considered.candidates.texts])
                if not same.any():
                    continue
                described = lamp_model.described(considered)
                mass = lamp_model.gate.chances(described, [len(described)])[0] * same
                happening = state.happening(considered.step, text)
                votes = lamp_model.votes(state.rewards, considered.candidates, mass / mass.sum(), happening)
                ids = lamp_model.outcome_features(state, considered.step, text)
                outcomes, chances = lamp_model.outcomes.chances(ids, votes, happening)
                sums[action, text] += [
                    sum(c * o.reward for o, c in zip(outcomes, chances, strict=True)),
                    sum(c * o.ended for o, c in zip(outcomes, chances, strict=True)),
                ]
                times[action, text] += 1
    expected = {("press", GREEN): (PAID, OVER), ("press", RED): (0, OVER)}
    for key, total in sums.items():
        rows = [(one.reward, one.ended) for one in lamp_model.log.rows if (one.action, one.answer) == key]
        logged = np.mean(rows, 0) if rows else np.zeros(2)
        assert logged == pytest.approx(expected.get(key, (0, 0)), abs=0.1), "the log is no chance one"
        assert total / times[key] == pytest.approx(logged, abs=0.1), key


def test_what_was_shown_decides_where_what_follows_is_of_chance() -> None:
    """Mails by chance: each says what it is, and the next one says nothing of what the last one earned."""
    rng = random.Random(0)
    right = {"A bill.": "pay", "A joke.": "drop", "A question.": "reply", "A poem.": "keep"}

    def sorted_mails(number: int) -> Trajectory:
        mails = [f"From {rng.choice(NAMES)} at {rng.randrange(24)}.\n{rng.choice([*right])}" for _ in range(6)]
        actions = [rng.choice([*right.values()]) for _ in mails[1:]]
        earned = [float(right[mail.splitlines()[1]] == action) for mail, action in zip(mails, actions, strict=False)]
        steps = [Played(*step) for step in zip(actions, mails[1:], earned, strict=True)]
        return episode(f"e{number}", mails[0], steps, task=f"t{number % 20}")

    model = fit_once([sorted_mails(number) for number in range(120)])[0]
    expected: dict[bool, list[float]] = {True: [], False: []}
    for number in range(20):
        logged = sorted_mails(1000 + number)
        for at, step in enumerate(logged.steps[:-1]):
            request = StepRequest(state_after(model, logged, at), step.action, 0.5, 0.5, turn=at)
            expected[step.reward > 0].append(model.answer([request])[0].mean_reward)
    assert np.mean(expected[True]) > 0.6 and np.mean(expected[False]) < 0.2, "a fourth of all are right"


NAMES = ("Ann", "Bob", "Cem", "Dan", "Eve", "Fay")
THINGS, PLACES = (
    ("cup", "egg", "pan", "hat", "jar", "net", "lid", "bag"),
    ("desk", "bin", "sofa", "shelf", "bed", "cart"),
)


def errand(number: int, thing: str, place: str, *, washed: bool, moved: str, to: str) -> Trajectory:
    """A goal asks for a thing in a place, every second one for a clean thing; something is moved somewhere."""
    clean, name = number % 2, f"{moved} {number % 3}"
    goal = f"put a {'clean ' * clean}{thing} in {place}"
    steps = [Played(f"take {name}", f"You have the {name}.")]
    steps += [Played(f"clean {name}", f"You wash the {name}." if washed else "Nothing happens.")]
    won = moved == thing and to == place and (washed or not clean)
    steps += [Played(f"move {name} to {to}", f"You move the {name} to the {to}.", float(won))]
    return episode(f"e{number}", "A room.", steps, task=f"{goal} {number % 4}", goal=goal, ended=won, success=won)


def test_a_win_takes_the_thing_and_the_place_of_the_goal_and_what_was_to_be_done_with_it(briefly: None) -> None:
    """One errand in five is of another thing, one in five to another place; half of those to be clean are not.

    A new goal, of which the log has nothing: all combinations, each with the chance of a win that the model sees.
    """
    rng = random.Random(0)
    log = []
    for number in range(120):
        thing, place = rng.choice(THINGS), rng.choice(PLACES)
        moved = rng.choice(THINGS) if rng.random() < 0.2 else thing
        to = rng.choice(PLACES) if rng.random() < 0.2 else place
        log.append(errand(number, thing, place, washed=rng.random() < 0.5, moved=moved, to=to))
    model = fit_once(log, steps=700)[0]
    for number in (200, 201):
        for moved, to, washed in itertools.product(("mop", "cup"), ("rack", "desk"), (True, False)):
            new = errand(number, "mop", "rack", washed=washed, moved=moved, to=to)
            request = StepRequest(state_after(model, new, 2), new.steps[2].action, 0.5, 0.5, 0)
            (considered,) = model.consider_requests([request])
            (chances,) = model.request_chances([request], [considered])
            answer = model.followed(request, considered, chances, new.final_observation, "logged")
            assert answer.hazard == pytest.approx(float(bool(new.success)), abs=0.15), (
                new.goal,
                request.action,
                washed,
            )


def test_a_reward_that_is_a_line_in_a_number_is_exact_also_beyond_the_log() -> None:
    """Selling for n earns 3 n - 7; 100 was never sold for."""
    rules = RewardRules()
    rules.fit([("sell", np.array([1.0, n, 0, 0, 0]), 3.0 * n - 7) for n in range(20)])
    assert rules.reward("sell", np.array([1.0, 100, 0, 0, 0])) == pytest.approx(293, abs=1e-3)
    assert rules.reward("buy", np.array([1.0, 100, 0, 0, 0])) is None


def test_two_numbers_of_which_one_was_seen_before() -> None:
    rng = np.random.default_rng(0)
    rules = RewardRules()
    seen = [("deal", np.array([1.0, a, 0, b, 0]), 0.5 * b - 0.25 * a) for a, b in rng.integers(0, 50, (40, 2))]
    rules.fit(seen)
    assert rules.reward("deal", np.array([1.0, 8, 0, 6, 0])) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    "rewards",
    [
        [1.0] * 20,
        [float(n % 3) for n in range(20)],
        np.random.default_rng(1).normal(size=20).tolist(),
        [2.0 * n for n in range(RewardRules.FEWEST - 1)],
    ],
    ids=["constant", "few values", "noise", "few steps"],
)
def test_no_rule_is_made_up(rewards: list[float]) -> None:
    rules = RewardRules()
    rules.fit([("do", np.array([1.0, n, 0, 0, 0]), reward) for n, reward in enumerate(rewards)])
    assert rules.reward("do", np.array([1.0, 3, 0, 0, 0])) is None


def test_the_rules_of_a_log_are_found_in_its_texts() -> None:
    """The price that was named, less what the thing had cost, which only the first sentence says."""
    rng = random.Random(0)
    log = []
    for number in range(40):
        cost, price = rng.randint(5, 30), rng.randint(20, 60)
        steps = [Played(f"sell for {price}", "It is sold.", price - 0.5 * cost)]
        log.append(episode(f"e{number}", f"You paid {cost} for it.", steps, task=f"t{number}"))
    model = KernelModel(log)
    assert not model.outcomes.classes.few
    fresh = episode("x", "You paid 12 for it.", [Played("sell for 33", "It is sold.")])
    state = state_after(model, fresh, 0)
    step = state.describe("sell for 33")
    numbers = last_numbers(state, "sell for 33", "It is sold.")
    assert numbers.tolist() == [1, 33, 0, 12, 0]
    ruled = model.outcomes.rules.reward(reward_wording(step, "It is sold."), numbers)
    assert ruled == pytest.approx(33 - 6, abs=1e-3)


def test_the_outcome_of_a_row() -> None:
    assert outcome_of(row(StepOutcome(1 / 3, True, False))) == (0.333333, True, False)


def test_what_a_sorted_thing_is_worth_is_learned_from_its_words_and_its_place() -> None:
    """Tickets never recur, and the next one says nothing of the last: a word of it says where it belongs."""
    rng = random.Random(0)
    words, places = (
        {"refund": "billing", "outage": "platform", "login": "security"},
        ("billing", "platform", "security"),
    )
    names = [f"name{n}" for n in range(40)]

    def ticket() -> tuple[str, str]:
        word = rng.choice(list(words))
        return word, f"Ticket of {rng.choice(names)}, {rng.choice(names)} waits: {word} for {rng.choice(names)}"

    episodes = []
    for number in range(150):
        shown, steps = [ticket() for _ in range(5)], []
        for (word, _), (_, after) in itertools.pairwise(shown):
            place = rng.choice(places)
            steps.append(Played(f"send to {place}", after, float(words[word] == place)))
        episodes.append(episode(f"e{number}", shown[0][1], steps, task=f"t{number}", policy="ab"[number % 2]))
    model, figures = fit_once(episodes, steps=600)
    assert figures["outcome nats"] < 0.5 * figures["outcome nats by votes"]
    for word, right in words.items():
        text = f"Ticket of name1, name2 waits: {word} for name3"
        state = EpisodeState(model.log.language, "new", "", text, None)
        draws = [(at + 0.5) / 20 for at in range(20)]  # which ticket comes next says nothing of what the last one paid
        requests = {place: [StepRequest(state, f"send to {place}", draw, 0.5, 0) for draw in draws] for place in places}
        worth = {place: np.mean([answer.mean_reward for answer in model.answer(requests[place])]) for place in places}
        assert worth[right] > 0.5
        assert max(worth[place] for place in places if place != right) < 0.25


def test_a_game_of_seven_calls_ends_with_the_seventh() -> None:
    """Nothing that is done or answered tells it: the same happens at every step, and the episode goes on."""
    rng = random.Random(0)
    calls, answers = ("sing", "clap"), {"The echo answers.": 0.5, "No echo comes back.": 0.0}

    def called(number: int) -> Trajectory:
        steps = [Played(rng.choice(calls), answer, answers[answer]) for answer in rng.choices([*answers], k=7)]
        return episode(f"e{number}", "A valley.", steps, task=f"t{number % 20}")

    model = fit_once([called(number) for number in range(80)], steps=400)[0]
    for number in range(80, 84):
        new = called(number)
        requests = [StepRequest(state_after(model, new, at), new.steps[at].action, 0.5, 0.5, 0) for at in range(7)]
        hazards = [answer.hazard for answer in model.answer(requests)]
        assert max(hazards[:-1]) < 0.05 and hazards[-1] > 0.95


def test_one_sentence_of_an_answer_decides_what_it_earns() -> None:
    """Answers are an interjection, a sentence and a remark, so that few are in the log twice; the middle sentence is
    paid with 1 or with nothing. New answers are worth the same."""
    rng = random.Random(0)
    first, last = [f"{word}, {other}." for word in ("Well", "So", "Oh", "Now") for other in ("yes", "no", "fine")], 20

    def answer(mended: bool) -> str:
        middle = rng.choice(("It works again.", "That did it.") if mended else ("It is as before.", "No change."))
        return f"{rng.choice(first)} {middle} The clock shows {rng.randrange(last)}, said {rng.choice('abcdefgh') * 3}."

    episodes = []
    for number in range(120):
        steps = []
        for _ in range(4):
            mended = rng.random() < 0.3
            steps.append(Played(rng.choice(("pull", "push", "turn")), answer(mended), float(mended)))
        episodes.append(episode(f"e{number}", "A machine.", steps, task=f"t{number}", policy="ab"[number % 2]))
    model, _ = fit_once(episodes, steps=480)
    for mended in (False, True):
        for text in {answer(mended) for _ in range(30)}:
            state = EpisodeState(model.log.language, "new", "", "A machine.", None)
            request = StepRequest(state, "push", 0.5, 0.5, 0)
            (considered,) = model.consider_requests([request])
            (chances,) = model.request_chances([request], [considered])
            given = model.followed(request, considered, chances, text, "exact")
            assert given.mean_reward == pytest.approx(float(mended), abs=0.2), text
