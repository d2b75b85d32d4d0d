"""What a case does with a log that contradicts itself: missing log-probs, another logger, disjoint tasks, clones."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from goal_seekers import GoalSeeker, Write

from worldline.evaluate import EvaluateConfig, evaluate
from worldline.types import InputError, Step, Trajectory


def changed(trajectory: Trajectory, logprobs: dict[int, float | None]) -> Trajectory:
    steps = tuple(
        step.model_copy(update={"logprob": logprobs[index]}) if index in logprobs else step
        for index, step in enumerate(trajectory.steps)
    )
    return trajectory.model_copy(update={"steps": steps})


def blank(trajectory: Trajectory) -> Trajectory:
    return changed(trajectory, dict.fromkeys(range(len(trajectory.steps))))


def test_one_missing_log_prob_costs_its_episode_only(episodes: list[Trajectory], write: Write) -> None:
    whole = [changed(episodes[0], {1: None}), *episodes[1:240]]
    settings = {"policy": ("random",), "estimators": ("wis", "naive"), "certificate": False}
    result = evaluate(EvaluateConfig(log=(write(whole),), **settings))
    without = evaluate(EvaluateConfig(log=(write(episodes[1:240]),), **settings))
    assert result.value("random", "wis").value == without.value("random", "wis").value
    note = next(line for line in result.warnings if "are left out" in line)
    assert "steps 2 to 2 of 1 episodes (1 of seeker0.6)" in note
    assert "0.4% of the log; with them the mean return of the log would differ by 0.0042 at most" in note


def test_where_most_log_probs_are_missing_weights_refuse(episodes: list[Trajectory], write: Write) -> None:
    log = [*map(blank, episodes[:60]), *episodes[60:80]]
    settings = {"policy": ("random",), "estimators": ("naive", "wis"), "certificate": False}
    result = evaluate(EvaluateConfig(log=(write(log),), **settings))
    assert "column 'logprob' is empty" in (result.value("random", "wis").refused or "")
    assert any("--logger NAME=clone estimates it" in note for note in result.warnings)


def test_policies_that_were_given_are_not_asked_for_again(episodes: list[Trajectory], write: Write) -> None:
    """They give no log-probs: the notes say that, and what would give them."""
    log = [*map(blank, episodes[:60]), *map(blank, episodes[240:300])]
    loggers = ("seeker0.6=sample_functions:first", "seeker1=sample_functions:first")
    settings = {"policy": ("mine=sample_functions:first",), "estimators": ("wis", "naive"), "logger": loggers}
    result = evaluate(EvaluateConfig(log=(write(log),), **settings))
    logprobs, certificate = (
        next(note for note in result.warnings if note.startswith(start))
        for start in ("column 'logprob' is empty", "certificate of seeker0.6, seeker1")
    )
    for note in (logprobs, certificate):
        assert "was given, and gives no log-probs" in note and "an object with `logprobs` does" in note
    assert not any("--logger NAME=SPEC" in note for note in result.warnings)
    trials = {trial.policy: trial.refused for trial in result.meta.certificate.trials}
    for name in ("seeker0.6", "seeker1"):
        assert f"needs the log-probs of {name}, which was given, and gives no log-probs" in trials[name]["wis"]
    assert "functions and API agents give none, an object with `logprobs` does" in (
        result.value("mine", "wis").refused or ""
    )


def test_a_cache_that_keeps_nothing_of_ones_own_code_says_so(
    episodes: list[Trajectory], write: Write, tmp_path: Path
) -> None:
    """Once, whatever number of candidates and loggers it makes; not where there is no cache."""
    spec = "sample_functions:first"
    settings = {"policy": (f"mine={spec}", "random"), "epsilon": (0.0, 0.2), "logger": (f"seeker0.6={spec}",)}
    config = EvaluateConfig(log=(write(episodes[:60]),), estimators=("naive",), **settings)
    line = f"the cache keeps nothing of {spec}: code may change, so every evaluation computes it again"
    assert line not in evaluate(config).warnings
    cached = evaluate(config.model_copy(update={"cache": tmp_path / "cache"}))
    assert cached.warnings.count(line) == 1
    assert not (tmp_path / "cache").exists()


def test_what_is_asked_for_is_what_is_missing(episodes: list[Trajectory], write: Write) -> None:
    log = [*map(blank, episodes[:60]), *map(blank, episodes[240:320])]
    config = EvaluateConfig(log=(write(log),), policy=("random",), estimators=("wis", "naive"))
    half = evaluate(config, loggers={"seeker0.6": GoalSeeker(0.6)})
    for start in ("column 'logprob' is empty", "certificate of seeker1: only"):
        note = next(note for note in half.warnings if note.startswith(start))
        assert "is not given: --logger NAME=SPEC gives it" in note
    assert "(seeker1)" in next(note for note in half.warnings if note.startswith("column"))
    whole = evaluate(config, loggers={"seeker0.6": GoalSeeker(0.6), "seeker1": GoalSeeker(1.0)})
    assert any("is empty" in note and note.endswith("--logger fills it") for note in whole.warnings)
    assert not any("is not given" in note for note in whole.warnings)


def test_a_logger_that_contradicts_the_log_flags_every_weight(episodes: list[Trajectory], write: Write) -> None:
    """Either the policy that is given or the log-probs that were logged are wrong: weights say so, not only a note."""
    names = ("wis", "dr", "lfqe", "naive")
    config = EvaluateConfig(
        log=(write(episodes[:240]),), policy=("random",), logger=("seeker0.6=random",), estimators=names
    )
    result = evaluate(config)
    for name in ("wis", "dr", "lfqe"):
        assert "contradict --logger seeker0.6=random" in (result.value("random", name).flag or ""), name
    assert "contradict" not in (result.value("random", "naive").flag or "")
    assert result.audit is not None
    assert len(result.audit.reasons) == 1


@pytest.mark.parametrize(("every", "nats", "same"), [(50, 20.0, True), (1, 0.1, False)])
def test_a_few_steps_that_cannot_be_scored_again_make_no_other_logger(
    episodes: list[Trajectory], write: Write, every: int, nats: float, same: bool
) -> None:
    """A model may sample tokens that nobody would make of their text; another policy differs at many steps."""
    steps = iter(range(1_000_000))
    log = [
        changed(one, {i: (step.logprob or 0.0) - nats for i, step in enumerate(one.steps) if next(steps) % every == 0})
        for one in episodes[:80]
    ]
    config = EvaluateConfig(log=(write(log),), policy=("random",), estimators=("wis",), certificate=False)
    result = evaluate(config, loggers={"seeker0.6": GoalSeeker(0.6)})
    assert same is not any("is not the policy that logged" in note for note in result.warnings)


def test_log_probs_of_half_the_temperature_are_noticed(episodes: list[Trajectory], write: Write) -> None:
    """The log-probs are those of a policy of twice the zeal, which is half the temperature."""
    sharper = GoalSeeker(2 * 1.3)
    log = []
    for trajectory in episodes[480:]:
        from worldline.types import turns

        met = list(turns(trajectory))
        options = [list(turn.admissible or ()) for turn in met]
        scores = sharper.logprobs(met, options)
        taken = {
            t: float(scores[t][options[t].index(step.action)])
            for t, step in enumerate(trajectory.steps)
            if step.action in options[t]
        }
        log.append(changed(trajectory, taken))
    result = evaluate(EvaluateConfig(log=(write(log),), policy=("random",), estimators=("is", "wis")))
    assert "are not those it acted with" in (result.value("random", "is").flag or "")
    honest = evaluate(EvaluateConfig(log=(write(episodes[480:]),), policy=("random",), estimators=("is", "wis")))
    assert honest.audit is not None
    assert honest.audit.reasons == ()


def test_loggers_on_disjoint_tasks_are_neither_balanced_nor_certified(episodes: list[Trajectory], write: Write) -> None:
    tasks = sorted({t.task_id for t in episodes})
    first, second = episodes[0].policy, episodes[240].policy
    log = [t for t in episodes[:240] if t.task_id in tasks[:4]] + [
        t for t in episodes[240:480] if t.task_id in tasks[4:]
    ]
    seekers = {first: GoalSeeker(0.6), second: GoalSeeker(float(second.removeprefix("seeker")))}
    config = EvaluateConfig(log=(write(log),), policy=("random",), estimators=("naive", "wis", "lfqe"))
    result = evaluate(config, loggers=seekers)
    assert result.audit is not None
    assert not result.audit.shared_tasks
    assert any("weights are not balanced over the loggers" in note for note in result.warnings)
    assert result.meta.certificate.trials == ()
    assert "certified" not in (result.recommended.reason if result.recommended else "")
    shared = evaluate(config.model_copy(update={"log": (write(episodes[:480]),)}), loggers=seekers)
    assert shared.audit is not None
    assert shared.audit.shared_tasks
    assert len(shared.meta.certificate.trials) == 2


def test_a_clone_stands_in_for_log_probs_that_were_never_logged(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(
        log=(write([blank(t) for t in episodes[480:]]),), policy=("random",), logger=("seeker2.5=clone",),
        estimators=("wis", "pdwis"),
    )  # packed lines read better  # fmt: skip
    name = episodes[480].policy
    config = config.model_copy(update={"logger": (f"{name}=clone",)})
    result = evaluate(config)
    estimate = result.value("random", "wis")
    assert estimate.value is not None
    assert f"the log-probs of '{name}' are estimated by a clone" in (estimate.flag or "")
    exact = evaluate(EvaluateConfig(log=(write(episodes[480:]),), policy=("random",), estimators=("wis", "pdwis")))
    assert estimate.value == pytest.approx(exact.value("random", "wis").value, abs=0.1)
    kept = evaluate(config.model_copy(update={"log": (write(episodes[480:]),)}))
    assert any("not used, the log has the log-probs" in note for note in kept.warnings)


def test_a_logger_known_by_a_file_is_certified(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    from worldline.types import turns

    log, specs = [*episodes[:120], *episodes[240:360]], []
    for name, zeal in ((episodes[0].policy, 0.6), (episodes[240].policy, None)):
        seeker = GoalSeeker(zeal if zeal is not None else float(name.removeprefix("seeker")))
        rows = []
        for trajectory in log:
            scores = seeker.logprobs(list(turns(trajectory)), [[step.action] for step in trajectory.steps])
            rows.append({"id": trajectory.id, "logprobs": [float(score[0]) for score in scores]})
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        specs.append(f"{name}=logprobs:{path}")
    config = EvaluateConfig(log=(write(log),), policy=("random",), logger=tuple(specs), estimators=("naive", "wis"))
    result = evaluate(config)
    assert [sorted(trial.estimates) for trial in result.meta.certificate.trials] == [["naive", "wis"]] * 2


def test_no_candidate_is_scored_for_estimators_that_need_no_score(episodes: list[Trajectory], write: Write) -> None:
    class Unscored(GoalSeeker):
        def logprobs(self, turns: object, actions: object) -> list[np.ndarray]:
            raise AssertionError("nobody needs this")

    config = EvaluateConfig(log=(write(episodes[:20]),), estimators=("naive",))
    assert evaluate(config, {"mine": Unscored(1.0)}).value("mine", "naive").value is not None


def test_the_text_of_a_log_is_not_read_for_weights_from_a_file(
    episodes: list[Trajectory], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.jsonl"
    rows = [{"id": t.id, "logprobs": [step.logprob for step in t.steps]} for t in episodes[:40]]
    path.write_text("\n".join(map(json.dumps, rows)))
    folder = write(episodes[:40])
    monkeypatch.setattr("worldline.store.read", lambda *given: pytest.fail("the text was read"))
    names = ("is", "wis", "pdis", "pdwis", "is-clip")
    result = evaluate(EvaluateConfig(log=(folder,), policy=(f"mine=logprobs:{path}",), estimators=names))
    expected = np.mean([t.episode_return for t in episodes[:40]])
    assert result.value("mine", "is").value == pytest.approx(expected)


def test_breakdown_columns_that_are_not_there_are_named(episodes: list[Trajectory], write: Write) -> None:
    with pytest.raises(InputError, match="--by colour: the log has no such column: there are family"):
        evaluate(EvaluateConfig(log=(write(episodes[:20]),), policy=("random",), by="colour"))


@pytest.mark.parametrize("name", ["mine:Hasty", "hf:../clone/model", "meta-llama/Llama-3", "a=b", "a"])
def test_a_logger_may_have_any_name(episodes: list[Trajectory], write: Write, name: str) -> None:
    """The names that `collect` gives by default, and those of API agents: what stands before `=SPEC`."""
    log = write([blank(t).model_copy(update={"policy": name}) for t in episodes[:60]])
    settings = {"policy": ("random",), "estimators": ("wis", "naive"), "certificate": False}
    filled = evaluate(EvaluateConfig(log=(log,), logger=(f"{name}=clone",), **settings))
    assert filled.value("random", "wis").refused is None
    spec = f"{name}=sample_functions:first"
    given = evaluate(EvaluateConfig(log=(log,), logger=(spec,), **settings))
    assert any("was given, and gives no log-probs" in note for note in given.warnings)
    with pytest.raises(InputError, match="--logger b:c=clone: no policy of the log is called so"):
        evaluate(EvaluateConfig(log=(log,), logger=("b:c=clone",), **settings))


def test_what_episodes_that_are_left_out_can_change(tmp_path: Path, write: Write) -> None:
    """Log-probs are missing in the successes, all by one action: the mean return is in the bound, a value is not."""

    def episode(number: int, action: str, reward: float, logprob: float | None) -> Trajectory:
        step = Step(observation="room", admissible=("left", "right"), action=action, reward=reward, logprob=logprob)
        return Trajectory(
            id=f"e{number}", env="toy", task_id=f"t{number}", goal="go", policy="a", steps=(step,), terminated=True
        )

    kinds = [("left", 0.0)] * 180 + [("right", 1.0)] * 18 + [("right", 0.0)] * 2
    chance = {"left": 0.9, "right": 0.1}
    whole = [episode(k, action, reward, math.log(chance[action])) for k, (action, reward) in enumerate(kinds)]
    log = [changed(one, {0: None}) if one.steps[0].reward else one for one in whole]
    other = tmp_path / "other.jsonl"
    rows = [{"id": one.id, "logprobs": [math.log(1 - chance[one.steps[0].action])]} for one in whole]
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"policy": (f"other=logprobs:{other}",), "estimators": ("naive", "wis"), "certificate": False}
    part, full = (evaluate(EvaluateConfig(log=(write(episodes),), **settings)) for episodes in (log, whole))
    note = next(line for line in part.warnings if "are left out" in line)
    assert "the mean return of the log would differ by 0.09 at most, the value of a policy that" in note
    means, values = ([each.value("other", name).value or 0.0 for each in (part, full)] for name in ("naive", "wis"))
    assert abs(means[0] - means[1]) <= 0.09 + 1e-9 and abs(values[0] - values[1]) > 0.5
    assert (part.meta.tasks, part.meta.episodes, full.meta.tasks) == (182, 182, 200)


@pytest.mark.parametrize(
    ("steps", "given", "used", "noted"),
    [(15, 0.5, True, False), (15, 0.505, True, True), (15, 0.523, False, True), (2, 0.523, True, True)],
)
def test_a_logger_that_is_near_in_a_step_may_be_far_in_an_episode(
    steps: int, given: float, used: bool, noted: bool, tmp_path: Path, write: Write
) -> None:
    """Left with .523 in the place of .5 is .046 nats a step away: .69 in 15 steps, .09 in two."""
    rng = np.random.default_rng(0)

    def episode(number: int, policy: str) -> Trajectory:
        actions = [("left", "right")[k] for k in rng.integers(2, size=steps)]
        return Trajectory(
            id=f"{policy}{number}", env="toy", task_id=f"t{number}", goal="go", policy=policy, terminated=True,
            steps=tuple(
                Step(observation=f"room {t}", admissible=("left", "right"), action=action, logprob=math.log(0.5),
                     reward=float(action == "left"))
                for t, action in enumerate(actions)
            ),
        )  # packed lines read better  # fmt: skip

    log = [episode(number, policy) for number in range(40) for policy in "ab"]

    def scores(name: str, left: float) -> str:
        path = tmp_path / f"{name}.jsonl"
        rows = [
            {"id": one.id, "logprobs": [math.log(left if s.action == "left" else 1 - left) for s in one.steps]}
            for one in log
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return f"{name}=logprobs:{path}"

    result = evaluate(
        EvaluateConfig(
            log=(write(log),),
            policy=(scores("new", 0.55),),
            logger=(scores("a", given), scores("b", given)),
            estimators=("naive", "wis"),
        )
    )
    assert used is any("is the mixture of all loggers" in note for note in result.warnings)
    distances = [note for note in result.warnings if "a.jsonl'" in note and "per episode" in note]
    assert bool(distances) is noted, result.warnings
    assert not any("contradict" in note for note in result.warnings), "the logged log-probs are taken, and sound"
