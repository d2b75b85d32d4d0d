"""Which episodes share hidden facts, against worlds whose hidden facts and chances are written here."""

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from kernel_fits import fewer_updates
from written_logs import Played, episode, state_after, text_chances

from worldline.kernel.features import SHARED_FACTS
from worldline.kernel.fitting import fit_once
from worldline.kernel.model import KernelModel
from worldline.kernel.shared_facts import WHOLE, Fact, SharedFacts, TaskRecords, part_of
from worldline.types import Trajectory

YES, SURE, NO, NEVER = range(4)
Answer = Callable[[int, random.Random], int]
"""What a thing answers, by the hidden fact of the task and by chance."""


def facts_of(answer: Answer, tasks: int = 400, each: int = 3, things: int = 4, questions: int = 3) -> list[list[Fact]]:
    """What episodes of tasks were told, each of which hides 0 or 1 by turns, of some of the things."""
    rng = random.Random(5)
    return [
        [(thing, answer(task % 2, rng)) for thing in rng.sample(range(things), questions)]
        for task in range(tasks)
        for _ in range(each)
    ]


def names(tasks: int = 400, each: int = 3) -> list[str]:
    return [f"t{task}" for task in range(tasks) for _ in range(each)]


def certain(hidden: int, rng: random.Random) -> int:
    return (YES, NO)[hidden]


def in_other_words(hidden: int, rng: random.Random) -> int:
    return rng.choice(((YES, SURE), (NO, NEVER))[hidden])


def by_chance(hidden: int, rng: random.Random) -> int:
    return rng.choice((YES, NO))


def ratios(answer: Answer, value: int) -> dict[int, float]:
    """What `value` of a thing says of episodes that were told each answer of it, and nothing else."""
    of_one_thing = facts_of(answer, things=1, questions=1)
    facts = SharedFacts(of_one_thing, names())
    log_ratios = facts.record([(0, value)]).log_ratios
    return {one[0][1]: float(log_ratios[at]) for at, one in enumerate(of_one_thing)}


def test_what_a_task_settles_is_worth_its_log_ratio() -> None:
    """Half of the tasks hide each: p(yes, yes | same task) / p(yes)^2 = .5 / .25, and yes with no never comes."""
    worth = ratios(certain, YES)
    assert worth[YES] == pytest.approx(math.log(2), abs=0.02)
    assert worth[NO] < -4


def test_a_paraphrase_is_worth_as_much_as_the_very_words() -> None:
    """p(yes, sure | same task) / (p(yes) p(sure)) = (.5 * .25) / (.25 * .25)."""
    worth = ratios(in_other_words, YES)
    assert worth[YES] == pytest.approx(math.log(2), abs=0.2)
    assert worth[SURE] == pytest.approx(math.log(2), abs=0.2)
    assert max(worth[NO], worth[NEVER]) < -3


def test_what_chance_answers_is_worth_nothing() -> None:
    assert all(abs(one) < 0.15 for one in ratios(by_chance, YES).values())


def test_a_coin_is_worth_nothing_beside_settled_things_with_the_same_answers() -> None:
    """Four things follow the hidden fact, and the fifth falls as it will."""
    rng = random.Random(11)
    mixed = [
        [*((thing, (YES, NO)[task % 2]) for thing in range(4)), (4, by_chance(0, rng))]
        for task in range(400)
        for _ in range(3)
    ]
    facts = SharedFacts(mixed, names())
    assert abs(facts.agreement(facts.record([(4, YES)]), [(4, YES)])) < 0.1
    assert facts.agreement(facts.record([(0, YES)]), [(0, YES)]) == pytest.approx(math.log(2), abs=0.05)


def test_a_value_that_no_other_part_of_the_log_has_is_as_one_that_nobody_has() -> None:
    """What is judged does not tell itself by being in the log."""
    everything = facts_of(certain)
    everything[0] = [(0, 77), *everything[0][1:]]
    facts, part = SharedFacts(everything, names()), part_of(0)
    record = facts.record([(0, YES)], part)
    assert facts.agreement(record, [(0, 77)]) == facts.agreement(record, [(0, 78)]) == 0
    assert facts.agreement(facts.record([(0, YES)]), [(0, 77)]) < 0, "the whole log knows it"
    assert facts.record([(0, 77)], part).log_ratios[0] == 0


def test_episodes_with_many_values_leave_no_pairs_by_rounding() -> None:
    facts = SharedFacts([[(0, value) for value in range(7)], [(0, value) for value in range(1, 8)]], ["t", "t"])
    for part in {part_of(0), part_of(1)}:
        assert not facts.record([(0, 3)], part).log_ratios.any()


def test_a_rare_answer_is_worth_more_than_a_frequent_one() -> None:
    """One task in twenty answers so: 1 / .05, less what so few pairs leave open."""
    rare = [[(0, YES if task % 20 == 0 else NO)] for task in range(400) for _ in range(3)]
    facts = SharedFacts(rare, names())
    of_rare = facts.record([(0, YES)]).log_ratios[0]
    assert math.log(10) < of_rare < math.log(21)
    assert facts.record([(0, NO)]).log_ratios[3] == pytest.approx(math.log(1 / 0.95), abs=0.02)


def test_of_more_answers_than_are_compared_in_pairs_equality_is_worth_as_much() -> None:
    """A hundred tasks with an answer each: .95 sure, 1 % of the log."""
    own = [[(0, task)] for task in range(100) for _ in range(3)]
    facts = SharedFacts(own, names(100))
    log_ratios = facts.record([(0, 7)]).log_ratios
    assert log_ratios[21:24] == pytest.approx(math.log((0.95 + 0.05 * 0.01) / 0.01), abs=0.02)
    assert log_ratios[:21] == pytest.approx(math.log(0.05), abs=0.02)


def test_facts_add_up_and_count_once() -> None:
    everything = facts_of(certain)
    facts = SharedFacts(everything, names())
    one, other = ((thing, YES) for thing in (0, 1))
    sums = facts.record([one]).log_ratios + facts.record([other]).log_ratios
    both = facts.extended(facts.record([one]), [other, one])
    assert both.log_ratios == pytest.approx(sums)
    assert both.facts == {one, other}
    assert not facts.record().log_ratios.any()


def test_a_possible_answer_is_worth_what_it_is_beside_those_that_are_known() -> None:
    everything = facts_of(in_other_words)
    facts = SharedFacts(everything, names())
    record = facts.record([(0, YES), (1, NO)])
    assert facts.agreement(record, [(0, SURE)]) == pytest.approx(math.log(2), abs=0.2)
    assert facts.agreement(record, [(1, NEVER)]) == pytest.approx(math.log(2), abs=0.2)
    assert facts.agreement(record, [(0, NEVER)]) < -3
    assert facts.agreement(record, [(2, YES), (0, 99), (99, YES)]) == 0, "nothing is known of these"
    both = facts.agreement(record, [(0, SURE), (1, NEVER)])
    assert both == pytest.approx(facts.agreement(record, [(0, SURE)]) + facts.agreement(record, [(1, NEVER)]))


def test_of_many_answers_the_same_is_likelier_and_another_one_is_not() -> None:
    own = [[(0, task)] for task in range(100) for _ in range(3)]
    facts = SharedFacts(own, names(100))
    record = facts.record([(0, 7)])
    assert facts.agreement(record, [(0, 7)]) == pytest.approx(math.log((0.95 + 0.05 * 0.01) / 0.01), abs=0.02)
    assert facts.agreement(record, [(0, 8)]) == pytest.approx(math.log(0.05), abs=0.02)


def test_where_no_task_has_two_episodes_nothing_is_known() -> None:
    everything = facts_of(certain, each=1)
    facts = SharedFacts(everything, names(each=1))
    assert not facts.record(everything[0]).log_ratios.any()


def test_what_nobody_was_told_says_nothing() -> None:
    facts = SharedFacts(facts_of(certain), names())
    assert not facts.record([(99, YES), (0, 99)]).log_ratios.any()


def test_an_episode_with_two_answers_to_a_thing_counts_once() -> None:
    """Counted by hand: of tasks with two episodes each, one of which answers both ways, half of the pairs agree."""
    both = [[(0, YES), (0, NO)] if again else [(0, YES if task % 2 else NO)] for task in range(200) for again in (0, 1)]
    facts = SharedFacts(both, names(200, 2))
    log_ratios = facts.record([(0, YES)]).log_ratios
    assert log_ratios[1] == pytest.approx((log_ratios[2] + log_ratios[0]) / 2)
    assert abs(log_ratios[1]) < 0.05


def gain_of_partners(facts: SharedFacts, all_facts: Sequence[Sequence[Fact]], whole: bool) -> tuple[float, float]:
    """How much more an episode's record says of the next one of its task than of others, and the standard error."""
    gains = []
    for at in range(0, len(all_facts), 2):
        record = facts.record(all_facts[at], WHOLE if whole else part_of(at))
        gains.append(record.log_ratios[at + 1] - np.delete(record.log_ratios, [at, at + 1]).mean())
    return float(np.mean(gains)), float(np.std(gains) / len(gains) ** 0.5)


def test_an_episode_does_not_decide_what_its_own_agreements_are_worth() -> None:
    """Rare answers by chance: a pair that is counted once is likelier, but not to the episodes that are the pair."""
    rng = random.Random(7)
    rare = [[(thing, rng.randrange(40)) for thing in range(8)] for _ in range(400)]
    facts = SharedFacts(rare, names(200, 2))
    mean, error = gain_of_partners(facts, rare, whole=False)
    assert abs(mean) < 3 * error
    mean, error = gain_of_partners(facts, rare, whole=True)
    assert mean > 10 * error, "all parts together know the pairs"


def test_rows_left_out_of_a_task_tell_nothing() -> None:
    everything = facts_of(certain)
    facts = SharedFacts(everything, names())
    rows = [fact for one in everything for fact in one]
    tasks = [name for name, one in zip(names(), everything, strict=True) for _ in one]
    of_tasks = TaskRecords(facts, tasks, [[fact] for fact in rows])
    own = np.array([task == "t1" for task in tasks])
    assert not of_tasks.of("t1", own).log_ratios.any()
    later = own & (np.cumsum(own) > 3)
    assert of_tasks.of("t1", later).log_ratios == pytest.approx(facts.record(everything[3]).log_ratios)
    assert of_tasks.of("t1", None).log_ratios == pytest.approx(
        facts.record([*everything[3], *everything[4], *everything[5]]).log_ratios
    )
    assert not of_tasks.of("a new task", None).log_ratios.any()


SIGNS = {
    "fever": ("It is hot.", "It is cool."),
    "rash": ("Red spots.", "Clear skin."),
    "cough": ("It barks.", "Quiet."),
}
"""What is seen of a patient who has the one illness or the other."""


def ward(tasks: int, each: int = 2) -> list[Trajectory]:
    """Each patient has one of two illnesses, which shows in all signs; each nurse looks for two of them."""
    rng = random.Random(2)
    out = []
    for task in range(tasks):
        ill = rng.randrange(2)
        for again in range(each):
            looked = rng.sample(sorted(SIGNS), 2)
            steps = [Played(f"look for {sign}", SIGNS[sign][ill]) for sign in looked]
            out.append(episode(f"e{task}-{again}", "A patient.", steps, task=f"t{task}", policy=f"p{again}"))
    return out


def signs_of_illness(task: int) -> list[Trajectory]:
    """A patient of whom the log has seen one sign, and no other."""
    steps = [Played("look for fever", SIGNS["fever"][task % 2])]
    return [episode(f"n{task}-{again}", "A patient.", steps, task=f"n{task}", policy=f"p{again}") for again in (0, 1)]


@pytest.fixture(scope="module")
def of_ward() -> KernelModel:
    """Beside the patients that nurses have looked at, two of whom one sign is known."""
    with fewer_updates():
        return fit_once([*ward(120), *signs_of_illness(0), *signs_of_illness(1)], seed=0, steps=600)[0]


def test_shared_facts_are_kept_where_held_out_steps_gain_by_them(of_ward: KernelModel) -> None:
    """Where every patient has one episode there is nothing to gain."""
    assert of_ward.shares
    with fewer_updates():
        model = fit_once(ward(40, each=1), seed=0, steps=100)[0]
    assert not model.shares
    considered = model.consider(state_after(model, ward(1)[0], 1), "look for rash")
    assert not considered.features[:, SHARED_FACTS].any()


def chance_of_rash(model: KernelModel, shown: Trajectory, steps: int, ill: int) -> float:
    """That the rash is seen which the illness has."""
    return text_chances(model, state_after(model, shown, steps), "look for rash")[SIGNS["rash"][ill]]


@pytest.mark.parametrize("ill", [0, 1])
def test_a_sign_that_nobody_has_looked_for_follows_from_what_the_task_has_shown(of_ward: KernelModel, ill: int) -> None:
    """By their words alone both are as likely: each answers half of the log."""
    assert chance_of_rash(of_ward, signs_of_illness(ill)[0], 0, ill) > 0.9


def test_what_an_action_earned_is_a_fact_however_it_is_spelled(of_ward: KernelModel) -> None:
    language = of_ward.log.language
    phrase = language.phrasing.parse("look for rash")

    def facts(reward: float) -> set[Fact]:
        return set(language.facts_of_step("look for rash", "Red spots.", phrase, reward))

    assert len(facts(1.0) & facts(0.0)) == len(facts(0.0)) - 1
    assert facts(0.5) == facts(float(np.float64(0.5))) == facts(np.float64(0.5))
    assert facts(0.0) == facts(-0.001) == facts(0)


def test_a_sentence_is_about_whom_it_names() -> None:
    log = [
        episode(f"e{n}", "A hall.", [Played(f"ask {who}", f"{who} wears a coat.")], task=f"t{n}")
        for n, who in enumerate(["Ada", "Ben", "Cleo", "Dan"] * 2)
    ]
    language = KernelModel(log).log.language
    ada, ben = (
        dict(language.facts_of_answer(f"ask {who}", f"{who} wears a coat.", language.phrasing.parse(f"ask {who}")))
        for who in ("Ada", "Ben")
    )
    assert not ada.keys() & ben.keys()


@pytest.mark.parametrize("ill", [0, 1])
def test_a_sign_follows_from_what_the_episode_has_shown(of_ward: KernelModel, ill: int) -> None:
    """Of a patient whom the log does not know."""
    looked = [Played(f"look for {sign}", SIGNS[sign][ill]) for sign in ("cough", "fever")]
    assert chance_of_rash(of_ward, episode("new", "A patient.", looked, task="a new patient"), 2, ill) > 0.9
