import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from counting import CountingEnv, CountingWorld, SeededPolicy
from worldline.rollout import Rollout, plan
from worldline.types import Decision, EagerPolicy, Info, InputError, LazyActions, StepResult, Turn, turns

FELL = r"r-000001 \(task 2\): RuntimeError: the floor gave way \(.*counting.py, line \d+\)"


def test_result_does_not_depend_on_the_batch_size() -> None:
    world = CountingWorld()
    episodes = plan(world, "train", 40, seed=7, run="r")
    by_batch = [
        {t.id: t for t in Rollout(world, SeededPolicy(), batch_size=size).play(episodes)} for size in (1, 5, 64)
    ]
    assert len(by_batch[0]) == 40
    assert by_batch[0] == by_batch[1] == by_batch[2]


class Eager(SeededPolicy):
    """Decides the odd places first, then the even ones; notes what it is told of the turns to come."""

    def __init__(self) -> None:
        super().__init__()
        self.foreseen: list[Turn] = []
        self.met: list[bool] = []

    def decide(self, turns: Sequence[Turn]) -> Iterator[dict[int, Decision]]:
        self.met += [any(turn is other for other in self.foreseen) for turn in turns if turn.step]
        decisions = super().act(list(turns))
        for start in (1, 0):
            yield {place: decisions[place] for place in range(start, len(turns), 2)}

    def foresee(self, turns: Sequence[Turn]) -> None:
        self.foreseen += turns


def test_an_eager_policy_plays_the_same_in_the_same_order_and_foresees_every_turn() -> None:
    world, policy = CountingWorld(), Eager()
    episodes = plan(world, "train", 20, seed=7, run="r")
    assert isinstance(policy, EagerPolicy)
    assert list(Rollout(world, policy, batch_size=5).play(episodes)) == list(
        Rollout(world, SeededPolicy(), batch_size=5).play(episodes)
    )
    assert policy.met
    assert all(policy.met)


def test_a_forgiving_rollout_loses_the_episodes_at_which_the_policy_raises() -> None:
    class Careful(SeededPolicy):
        def act(self, turns: Sequence[Turn]) -> list[Decision]:
            if any(turn.task == "2" and turn.history for turn in turns):
                raise KeyError("a door")
            return super().act(list(turns))

    world = CountingWorld()
    episodes = plan(world, "train", 9, seed=7, run="r")
    rollout = Rollout(world, Careful(), batch_size=4, forgiving=True)
    whole = {t.id: t for t in Rollout(world, SeededPolicy(), batch_size=4).play(episodes)}
    others = {name: t for name, t in whole.items() if t.task_id != "2"}
    assert others and {t.id: t for t in rollout.play(episodes)} == others
    assert len(rollout.failed) == len(rollout.undecided) == 9 - len(others)
    assert rollout.undecided[0].startswith("KeyError: 'a door' (") and rollout.undecided[0] in rollout.failed[0]
    strict = Rollout(world, Careful(), batch_size=4)
    with pytest.raises(KeyError):
        list(strict.play(episodes))
    assert strict.failing_task == rollout.failing_task == "2"


def test_a_policy_that_raises_at_many_turns_alone_ends_the_rollout_and_no_task_is_blamed() -> None:
    class Narrow(SeededPolicy):
        def act(self, turns: Sequence[Turn]) -> list[Decision]:
            if len(turns) > 2:
                raise IndexError("too wide")
            return super().act(list(turns))

    rollout = Rollout(CountingWorld(), Narrow(), batch_size=4)
    with pytest.raises(IndexError, match="too wide"):
        list(rollout.play(plan(CountingWorld(), "train", 9, seed=7, run="r")))
    assert rollout.failing_task == ""


def test_a_forgiving_rollout_forgives_no_memory_error_and_no_wrong_decisions() -> None:
    def raising(error: Exception) -> SeededPolicy:
        policy = SeededPolicy()
        policy.act = lambda turns: (_ for _ in ()).throw(error)  # type: ignore[method-assign]  # raises when it is read
        return policy

    episodes = plan(CountingWorld(), "train", 4, seed=7, run="r")
    for error in (MemoryError("full"), OSError("no disk"), InputError("one line")):
        with pytest.raises(type(error)):
            list(Rollout(CountingWorld(), raising(error), forgiving=True).play(episodes))
    nobody = Rollout(CountingWorld(), raising(ValueError("never")), forgiving=True)
    assert list(nobody.play(episodes)) == [] and len(nobody.undecided) == 4


def test_an_eager_policy_acts_on_all_turns_at_once_where_environments_are_eager() -> None:
    class Beginning(CountingEnv):
        def begin(self, action: str) -> None: ...

    class BeginningWorld(CountingWorld):
        def make(self) -> CountingEnv:
            return Beginning()

    world, policy = BeginningWorld(), Eager()
    assert len(list(Rollout(world, policy).play(plan(world, "train", 3, seed=7, run="r")))) == 3
    assert not policy.met


def test_an_eager_policy_must_decide_every_turn() -> None:
    class Forgetful(Eager):
        def decide(self, turns: Sequence[Turn]) -> Iterator[dict[int, Decision]]:
            yield from list(super().decide(turns))[:1]

    world = CountingWorld()
    with pytest.raises(InputError, match=r"policy '.*' left 2 of 3 turns undecided"):
        list(Rollout(world, Forgetful()).play(plan(world, "train", 3, seed=0, run="r")))


def test_half_a_run_is_the_same_half() -> None:
    world = CountingWorld()
    episodes = plan(world, "train", 20, seed=7, run="r")
    whole = {t.id: t for t in Rollout(world, SeededPolicy()).play(episodes)}
    rest = {t.id: t for t in Rollout(world, SeededPolicy()).play(episodes[11:])}
    assert rest == {e.id: whole[e.id] for e in episodes[11:]}


def test_finished_episodes_are_not_decoded_and_new_ones_enter() -> None:
    world, policy = CountingWorld(), SeededPolicy()
    done = list(Rollout(world, policy, batch_size=4).play(plan(world, "train", 10, seed=0, run="r")))
    assert sum(policy.calls) == sum(len(t) for t in done)
    assert max(policy.calls) == 4
    assert policy.calls[0] == 4 and policy.calls[1] == 4, "a place that falls free is taken in the next tick"


def test_trajectory_tells_what_happened() -> None:
    world = CountingWorld(max_steps=3)

    class Up:
        name = "up"

        def act(self, turns: list[Turn]) -> list[Decision]:
            return [Decision("up" if turn.step != 1 else "fly", "raw", logprob=-0.5) for turn in turns]

    one, two, three = sorted(Rollout(world, Up()).play(plan(world, "test", 3, seed=0, run="r")), key=lambda t: t.id)
    assert (one.success, one.terminated, one.truncated, one.episode_return) == (True, True, False, 1.0)
    assert [s.observation for s in two.steps] == ["at 0", "at 1", "at 1"]
    assert [s.valid for s in two.steps] == [True, False, True]
    assert two.final_observation == "at 2"
    assert two.terminated
    assert (three.success, three.terminated, three.truncated) == (False, False, True)
    assert three.steps[0].admissible == ("up", "stay")
    assert three.steps[0].logprob == -0.5


def test_what_was_asked_while_playing_is_what_a_log_asks_again_task_included() -> None:
    world, acted_on = CountingWorld(), []

    class Noting(SeededPolicy):
        def act(self, turns: Sequence[Turn]) -> list[Decision]:
            acted_on.extend(turns)
            return super().act(turns)

    (episode,) = Rollout(world, Noting()).play(plan(world, "train", 1, seed=0, run="r", tasks=(2,)))
    assert acted_on == list(turns(episode))
    assert {turn.task for turn in acted_on} == {"3"}


def test_plan_covers_tasks_in_canonical_order_and_wraps() -> None:
    world = CountingWorld()
    episodes = plan(world, "train", 5, seed=0, run="r")
    assert [e.task for e in episodes] == ["1", "2", "3", "1", "2"]
    assert len({e.seed for e in episodes}) == 5
    assert [e.task for e in plan(world, "train", 3, seed=0, run="r", tasks=(2, 0))] == ["3", "1", "3"]


class CrashOnTwo:
    """Crashes the environment of every episode of task 2, the first `times` times."""

    name = "crash"

    def __init__(self, times: int) -> None:
        self.times = times

    def act(self, turns: list[Turn]) -> list[Decision]:
        actions = []
        for turn in turns:
            crash = turn.goal == "count to 2" and self.times > 0
            self.times -= crash
            actions.append("crash" if crash else "up")
        return [Decision(action, action) for action in actions]


def test_a_raising_environment_is_retried_then_left_out_and_counted() -> None:
    world = CountingWorld()
    recovered = Rollout(world, CrashOnTwo(1))
    assert len(list(recovered.play(plan(world, "train", 3, seed=0, run="r")))) == 3
    assert (recovered.retried, recovered.failed) == (1, [])
    assert re.fullmatch(FELL, recovered.mishap)
    lost = Rollout(world, CrashOnTwo(9))
    assert len(list(lost.play(plan(world, "train", 3, seed=0, run="r")))) == 2
    assert lost.retried == 1
    assert len(lost.failed) == 1
    assert re.fullmatch(FELL, lost.failed[0])


def test_an_environment_that_exits_costs_its_episode() -> None:
    class Exiting(CountingEnv):
        def step(self, action: str) -> StepResult:
            raise SystemExit(3)

    class ExitingWorld(CountingWorld):
        def make(self) -> CountingEnv:
            return Exiting() if (made := super().make()) is self.made[0] else made

    world = ExitingWorld()
    rollout = Rollout(world, SeededPolicy())
    assert len(list(rollout.play(plan(world, "train", 3, seed=0, run="r")))) == 3
    assert rollout.mishap.startswith("r-000000 (task 1): SystemExit: 3 (")


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (None, "policy 'odd' returned a NoneType for 2 turns: `act` must return a list"),
        ([Decision("up", "up")], "policy 'odd' returned 1 decisions for 2 turns"),
        (["up", "up"], "policy 'odd' returned 'up': `act` must return Decisions"),
        ([Decision(3, "")] * 2, "policy 'odd' returned the action 3: no text"),  # type: ignore[arg-type]  # no text
        ([Decision("up", "up", float("nan"))] * 2, "policy 'odd' returned logprob=nan for 'up': it must be at most 0"),
        ([Decision("up", "up", 0.7)] * 2, "policy 'odd' returned logprob=0.7 for 'up': it must be at most 0, or None"),
        ([Decision("up", 3)] * 2, "counting: the policy returned a wrong response: .*, got 3"),  # type: ignore[arg-type]  # no text
    ],
)
def test_what_a_policy_must_return_is_one_line(answer: Any, line: str) -> None:
    class Odd:
        name = "odd"

        def act(self, turns: Sequence[Turn]) -> Any:
            return answer

    world = CountingWorld()
    with pytest.raises(InputError, match=line):
        list(Rollout(world, Odd()).play(plan(world, "train", 2, seed=0, run="r")))


@pytest.mark.parametrize(("key", "name"), [("won", "success"), ("valid", "valid"), ("score", "score")])
def test_values_that_no_log_holds_are_the_environments(key: str, name: str) -> None:
    class Odd(CountingEnv):
        def step(self, action: str) -> StepResult:
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, True, truncated, cast(Info, {**info, key: "perhaps"})

    class OddWorld(CountingWorld):
        def make(self) -> CountingEnv:
            return Odd()

    with pytest.raises(InputError, match=f"counting: the environment returned a wrong {name}: .*, got 'perhaps'") as e:
        list(Rollout(OddWorld(), SeededPolicy()).play(plan(OddWorld(), "train", 1, seed=0, run="r")))
    assert "pydantic" not in str(e.value)


def test_a_world_without_tasks_is_bad_input() -> None:
    class Empty(CountingWorld):
        def num_tasks(self, split: str) -> int:
            return 0

    with pytest.raises(InputError, match="counting: split 'train' has no tasks"):
        plan(Empty(), "train", 3, seed=0, run="r")


def test_a_decision_with_a_failure_costs_its_episode() -> None:
    class Mute(CrashOnTwo):
        def act(self, turns: list[Turn]) -> list[Decision]:
            decided = super().act(turns)
            return [replace(d, failure="no answer") if d.action == "crash" else d for d in decided]

    world = CountingWorld()
    recovered, lost = Rollout(world, Mute(1)), Rollout(world, Mute(9))
    assert len(list(recovered.play(plan(world, "train", 3, seed=0, run="r")))) == 3
    assert recovered.mishap == "r-000001 (task 2): WorldlineError: no answer"
    assert len(list(lost.play(plan(world, "train", 3, seed=0, run="r")))) == 2
    assert lost.failed == ["r-000001 (task 2): WorldlineError: no answer"]


def test_bad_input_is_not_retried() -> None:
    class Refusing(CountingWorld):
        def make(self) -> None:  # type: ignore[override]  # it never makes one
            raise InputError("data: no such file")

    with pytest.raises(InputError, match="no such file"):
        list(Rollout(Refusing(), SeededPolicy()).play(plan(CountingWorld(), "train", 1, seed=0, run="r")))


def test_a_raising_policy_ends_the_rollout_but_keeps_what_was_finished() -> None:
    class Dies(SeededPolicy):
        def act(self, turns: list[Turn]) -> list[Decision]:
            if len(self.calls) == 4:
                raise ValueError("out of ideas")
            return super().act(turns)

    world, kept = CountingWorld(), []
    with pytest.raises(ValueError, match="out of ideas"):
        kept.extend(Rollout(world, Dies(), batch_size=2).play(plan(world, "train", 9, seed=0, run="r")))
    assert kept
    assert all(t.terminated or t.truncated for t in kept)


def test_a_lazy_admissible_list_nobody_looked_at_is_not_computed() -> None:
    def boom() -> list[str]:
        raise AssertionError("computed")

    lazy = LazyActions(boom)

    class LazyWorld(CountingWorld):
        def make(self):  # type: ignore[no-untyped-def]  # an environment of one's own
            env = super().make()
            reset = env.reset
            env.reset = lambda **kw: (reset(**kw)[0], {**reset(**kw)[1], "admissible": lazy})  # type: ignore[method-assign]  # reset with actions that are made late
            return env

    (trajectory,) = Rollout(LazyWorld(), SeededPolicy()).play(plan(CountingWorld(), "train", 1, seed=0, run="r"))
    assert trajectory.steps[0].admissible is None
