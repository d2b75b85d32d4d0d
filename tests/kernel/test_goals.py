import itertools

import pytest
from written_logs import Played, episode, state_after

from worldline.kernel import goals
from worldline.kernel.candidates import KINDS
from worldline.kernel.episode_state import EpisodeState
from worldline.kernel.fitting import fit_once
from worldline.kernel.goals import GoalNames, aligned
from worldline.kernel.model import KernelModel
from worldline.kernel.step_table import StepTable
from worldline.types import Trajectory

THINGS, PLACES = ("cup", "egg", "pan", "hat", "jar", "net"), ("desk", "bin", "sofa", "shelf", "bed", "cart")


def fetched(thing: str, place: str, *, polite: bool) -> Trajectory:
    """The thing lies in the hall."""
    goal = f"Please bring some {thing} to the {place}." if polite else f"A {thing} belongs on a {place}!"
    steps = [
        Played("go to hall 1", f"In the hall 1 there is a {thing} 2."),
        Played(f"take {thing} 2 from hall 1", "Done."),
        Played(f"go to {place} 3", f"The {place} 3 is empty."),
        Played(f"put {thing} 2 on {place} 3", "Done.", 1.0),
    ]
    return episode(f"{thing}-{place}", "A house.", steps, task=f"{thing}-{place}", goal=goal)


LOG = [fetched(t, p, polite=n % 2 == 0) for n, (t, p) in enumerate(zip(THINGS, PLACES, strict=True))]


def test_a_name_stands_for_one_with_the_same_roles_however_the_goals_are_worded() -> None:
    names = GoalNames(LOG, StepTable.of(LOG).language.phrasing)
    assert names.of(LOG[0].goal) == {"cup", "desk"}
    assert dict(names.renaming(LOG[0].goal, LOG[1].goal)) == {"cup": "egg", "desk": "bin"}
    half = fetched("cup", "bin", polite=True).goal
    assert dict(names.renaming(LOG[0].goal, half)) == {"desk": "bin"}, "the cup is the same"


def test_goals_that_are_long_texts_have_no_counterparts(monkeypatch: pytest.MonkeyPatch) -> None:
    names = GoalNames(LOG, StepTable.of(LOG).language.phrasing)
    monkeypatch.setattr(goals, "_NAMES", 2)
    assert dict(names.renaming("cup desk", "egg bin")) == {"cup": "egg", "desk": "bin"}
    assert names.renaming("cup desk", "egg bin sofa") == names.renaming("cup desk shelf", "egg bin") == ()


def test_renamings_are_forgotten_where_they_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals, "_REMEMBERED", 2)
    names = GoalNames(LOG, StepTable.of(LOG).language.phrasing)
    for first, second in itertools.permutations(LOG, 2):
        assert names.renaming(first.goal, second.goal)
        assert len(names._renamings) <= 2


def test_what_a_goal_names_is_shown_if_the_action_has_it_not() -> None:
    names = GoalNames(LOG, StepTable.of(LOG).language.phrasing)
    assert names.shows(LOG[0].goal, "go to hall 1", "There is a cup 2.")
    assert not names.shows(LOG[0].goal, "go to hall 1", "There is an egg 2.")
    assert not names.shows(LOG[0].goal, "take cup 2 from hall 1", "You have the cup 2.")


def test_what_others_found_of_theirs_may_be_found_of_ours() -> None:
    """Nobody has looked for a lid: what lies in the hall may be one, as it was a cup for who looked for a cup."""
    strange = fetched("lid", "tray", polite=True)
    logged = fetched("lid", "tray", polite=False)
    model = KernelModel([*LOG, logged])
    possible = model.consider(state_after(model, strange, 0), "go to hall 1", own=len(LOG)).candidates
    by_goal = {t for t, kind in zip(possible.texts, possible.kinds, strict=True) if KINDS[kind] == "renamed by goal"}
    assert by_goal == {"In the hall 1 there is a lid 2."}
    assert model.log.goal_shown.reshape(-1, 4).tolist() == [[True, False, False, False]] * (len(LOG) + 1)


def test_terms_have_counterparts_in_a_goal_that_is_worded_alike() -> None:
    old = "In maps, bring 796e60c (fixes an off-by-one in cache) from develop to release/1.6, with all tests passing."
    new = "In wave, bring e5be908 (fixes a stale key in totals) from develop to release/4.5, with all tests passing."
    pairs = dict(aligned(old, new))
    assert pairs.items() >= {"maps": "wave", "796e60c": "e5be908", "release/1.6": "release/4.5"}.items()
    assert aligned(old, old) == ()
    assert aligned("Put a clean mug on the desk.", "Heat some egg, then bring it here.") == (), "worded differently"
    assert aligned("a " * 200 + "cup", "a " * 200 + "jug") == (), "too long to be compared with all others"


def test_an_answer_names_what_the_goal_of_this_episode_names() -> None:
    """No action has the repository's name. Every logged answer ends with its own."""
    names = ("maps", "wave", "parcel", "notes", "cal", "tiny", "forge", "brook")
    log = [
        episode(
            f"e{n}",
            "Ready.",
            [Played("push", f"Pushed. ~/{name} $"), Played("test", f"48 passed. ~/{name} $")],
            task=f"t{n}",
            goal=f"In the repository {name}: run all tests and push the branch.",
        )
        for n, name in enumerate(names)
    ]
    model, _ = fit_once(log * 3, 0)
    state = EpisodeState(model.log.language, "new", log[0].goal.replace("maps", "quartz"), "Ready.", None)
    considered = model.consider(state, "push")
    (weighed,) = model.weighed([considered], [model.described(considered, -1)])
    ours = [text == "Pushed. ~/quartz $" for text in considered.candidates.texts]
    assert any(ours)
    assert float(weighed[ours].sum()) > 0.5
