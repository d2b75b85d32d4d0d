"""Words that goals give to answers, against logs whose rule is written here."""

import pytest
from written_logs import Played, episode

from worldline.kernel.described_steps import described_steps
from worldline.kernel.goal_words import MOST, GoalWords
from worldline.kernel.model import KernelModel
from worldline.types import Trajectory

PUPILS = "Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gus", "Hana", "Ida", "Jon", "Kim", "Lou"


def lessons(pupils: tuple[str, ...] = PUPILS, silent: tuple[str, ...] = ()) -> list[Trajectory]:
    """The world says the pupil's name in its task alone, unless it is silent. It names Dan and the desk in every task,
    and never what the pupil is like."""
    return [
        episode(
            f"e{n}-{again}",
            f"{one} waits.",
            [
                Played("greet", f"{'Somebody' if one in silent else one}: Hello, and hello to the desk."),
                Played("ask", "No, Dan is out.", float(again)),
            ],
            task=f"t{n}",
            goal=f"Teach {one} at the {'red' if again else 'blue'} desk, for {one} is {'shy' if n % 2 else 'bold'}.",
            policy=f"p{again}",
        )
        for n, one in enumerate(pupils)
        for again in range(2)
    ]


def test_words_that_the_world_repeats_where_the_goal_has_them() -> None:
    words = GoalWords.of(lessons())
    assert words.words == {name.lower() for name in PUPILS if name != "Dan"}
    assert words.given("Teach Cleo and Ada, then cleo.") == ("Cleo", "Ada"), "in its order, as it spells them"
    assert words.of_others("Teach Cleo and Ada.") == words.words - {"ada", "cleo"}
    assert GoalWords.of(lessons(), frozenset({"ada"})).words == words.words - {"ada"}


@pytest.mark.parametrize("episodes", [[], lessons(("Ada",)), lessons()[:1]])
def test_where_all_goals_have_a_word_nobody_knows_whether_they_give_it(episodes: list[Trajectory]) -> None:
    assert "ada" not in GoalWords.of(episodes).words


def test_whether_a_rare_word_is_given_is_not_for_its_own_episodes_to_say() -> None:
    """Ben's task says nothing of him, as if nobody had got so far: the words in his place are given, so is his."""
    assert "ben" in GoalWords.of(lessons(silent=("Ben",))).words
    assert not GoalWords.of(lessons(silent=PUPILS[1:])).words, "two of twelve are too few, also for Ada"


def test_a_goal_gives_no_more_than_so_many_words() -> None:
    names = [f"name{chr(97 + at)}" for at in range(MOST + 4)]
    words = GoalWords(frozenset(names))
    assert words.given(" ".join(names)) == tuple(names[:MOST])


def test_words_stand_for_each_other_in_the_order_of_their_goals() -> None:
    words = GoalWords.of(lessons())
    assert words.in_order("Teach Ada, not Ben.", "Ben and Cleo") == (("Ada", "Ben"), ("Ben", "Cleo"))
    assert words.in_order("Teach Ada.", "Teach Ada and Ben.") == (), "one gives more"


def test_all_parts_of_the_model_know_answers_by_the_same_sorts() -> None:
    """What is answered to one pupil is known of all: by pairs and bids of a task, by wordings."""
    log = [
        episode(
            f"e{n}-{again}",
            "The bell rings.",
            [Played(f"say {40 + again}", f"{one}: Higher."), Played("ask Zoe", f"{one}: I see.", 1.0)],
            task=f"t{n}",
            goal=f"Teach {one}.",
        )
        for n, one in enumerate(PUPILS)
        for again in range(3)
    ]
    model = KernelModel(log)
    sorts = {
        model.log.language.sort(row.answer, phrase)
        for row, phrase in zip(model.log.rows, model.log.phrases, strict=True)
    }
    assert sorts == {"<g0>: higher.", "<g0>: i see."}
    (one,) = described_steps(model, 0, 10**6, [0])[1:]
    others = model.log.episode_of == 0
    assert model.task_pairs.of("t0", one.considered.step.phrase.skeleton, others)[0][1] == "<g0>: i see."
    assert sorted(model.task_bids.of("t0", others)[model.log.phrases[0].skeleton]) == [
        (41.0, "<g0>: higher."),
        (42.0, "<g0>: higher."),
    ]
    assert one.sort in one.considered.wordings.texts
