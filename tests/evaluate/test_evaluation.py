"""`evaluate` as a whole: the shape of its result, and a clear line for every kind of bad input."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from goal_seekers import GoalSeeker, Write
from rich.console import Console

import faults
import worldline.evaluate
from worldline import files, policies, store
from worldline.cli import main
from worldline.evaluate import EvaluateConfig, Evaluation, evaluate, read_evaluation, views
from worldline.evaluate import evaluation as module
from worldline.evaluate.candidates import Candidate
from worldline.evaluate.result import Recommendation
from worldline.ope.estimation import ESTIMATORS, Estimator
from worldline.types import InputError, Trajectory, Turn

LINEAR = tuple(name for name in ESTIMATORS if name != "fqe")
QUICK = ("naive", "is", "wis", "pdwis", "lfqe", "dr")


def without_logprobs(episodes: list[Trajectory]) -> list[Trajectory]:
    return [
        t.model_copy(update={"steps": tuple(s.model_copy(update={"logprob": None}) for s in t.steps)}) for t in episodes
    ]


def with_rewards(episodes: list[Trajectory], reward: float) -> list[Trajectory]:
    return [
        t.model_copy(update={"steps": tuple(s.model_copy(update={"reward": reward}) for s in t.steps)})
        for t in episodes
    ]


def test_evaluation_json_has_the_contracts_shape(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    truth.write_text('{"keen": 0.16, "keen@0.5": 0.1, "lazy": 0.1, "lazy@0.5": 0.05}')
    out = tmp_path / "run"
    config = EvaluateConfig(
        log=(write(episodes),),
        epsilon=(0.0, 0.5),
        estimators=QUICK,
        truth=truth,
        out=out,
        bootstrap=200,
        certificate=False,
    )
    seekers = {"keen": GoalSeeker(1.3, "keen"), "lazy": GoalSeeker(0.8, "lazy")}
    result = evaluate(config, seekers)
    content = json.loads((out / "evaluation.json").read_text())
    assert content == json.loads(json.dumps(result.as_dict()))
    assert set(content) == {"policies", "comparison", "agreement", "recommended", "warnings", "audit", "meta"}
    assert [(p["name"], p["epsilon"]) for p in content["policies"]] == [
        ("keen", 0.0), ("keen", 0.5), ("lazy", 0.0), ("lazy", 0.5)
    ]  # packed lines read better  # fmt: skip
    for row in content["policies"]:
        assert set(row) == {"name", "epsilon", "estimates", "predictors", "diagnostics", "truth"}
        for name in QUICK:
            assert {"value", "low", "high", "n"} <= set(row["estimates"][name])
    assert sorted(row["estimates"]["dr"]["rank"] for row in content["policies"])[0] == 1
    keys = {"spearman", "spearman_low", "spearman_high", "kendall", "regret@1", "mae", "rmse", "coverage"}
    assert keys <= set(content["agreement"]["dr"])
    assert {"-epsilon", "behaviour mean", "nearest logger", "episode length"} <= set(content["agreement"])
    with pytest.raises(InputError, match="--overwrite"):
        evaluate(config, seekers)


def test_diagnostics_are_printed_before_any_estimate(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), estimators=QUICK, features="ngrams:64")
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - the console keeps it
    for part in views(evaluate(config)):
        console.print(part)
    text = console.export_text()
    assert text.index("effective episodes") < text.index("from others: error") < text.index("interval, rank")


def test_names_of_policies_are_whole_on_a_narrow_terminal(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(
        log=(write(episodes[:80]),), policy=("random",), epsilon=(0.25, 0.75), estimators=QUICK, features="ngrams:64"
    )
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - the console keeps it
    for part in views(evaluate(config)):
        console.print(part)
    table = console.export_text().split("What the log can tell")[1].split("How well each")[0]
    assert "random@0.25" in table and "random@0.75" in table and "largest weight's share" in table


def test_agreement_is_whole_on_a_narrow_terminal(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    truth.write_text(json.dumps({"random": 0.3, "random@0.5": 0.2}))
    config = EvaluateConfig(
        log=(write(episodes[:80]),),
        policy=("random",),
        epsilon=(0, 0.5),
        estimators=QUICK,
        features="ngrams:64",
        truth=truth,
    )
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - the console keeps it
    for part in views(evaluate(config)):
        console.print(part)
    table = console.export_text().split("Agreement with the truth")[1]
    assert "…" not in table
    assert all(name in table for name in (*QUICK, "behaviour mean", "spearman", "regret@1", "mae", "coverage"))


def test_five_lines_of_python(episodes: list[Trajectory], write: Write) -> None:
    result = worldline.evaluate(log=[write(episodes[:80])], policy=["random"], estimators=["wis"], certificate=False)
    estimate = result.value("random", "wis")
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.low <= estimate.value
    with pytest.raises(InputError, match="unknown setting 'polcy'"):
        worldline.evaluate(log=["x"], polcy=[])


def test_estimators_from_above(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes[:40]),), policy=("random",), estimators=("am",), certificate=False)
    result = evaluate(
        config, extra=lambda candidate, evidence: {"am": Estimator(lambda log, gamma: np.full(log.episodes, 0.25))}
    )
    assert result.value("random", "am").value == 0.25


def test_no_behaviour_logprobs(episodes: list[Trajectory], write: Write) -> None:
    folder = write(without_logprobs(episodes[:80]))
    result = evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=QUICK))
    for name in ("is", "wis", "pdwis", "dr"):
        assert "column 'logprob' is empty" in (result.value("random", name).refused or "")
        assert result.value("random", name).value is None
    for name in ("naive", "lfqe"):
        assert result.value("random", name).value is not None
    assert any("column 'logprob' is empty" in note for note in result.warnings)


def test_loggers_stand_in_for_missing_logprobs(episodes: list[Trajectory], write: Write) -> None:
    folder = write(without_logprobs(episodes[:80]))
    config = EvaluateConfig(log=(folder,), policy=("random",), estimators=("wis",))
    result = evaluate(config, {"seeker0.6": GoalSeeker(0.6)})
    assert result.value("random", "wis").value is not None
    null = result.value("seeker0.6", "wis").value
    assert null == pytest.approx(np.mean([t.episode_return for t in episodes[:80]]))


def test_a_logger_that_is_not_the_one_gives_a_warning(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), logger=("seeker0.6=random",))
    result = evaluate(config)
    assert any("is not the policy that logged 'seeker0.6'" in note for note in result.warnings)
    with pytest.raises(InputError, match="no policy of the log is called so"):
        evaluate(EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), logger=("nobody=random",)))


def test_every_estimator_refuses(
    episodes: list[Trajectory], write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is estimated: the command fails in one line, and writes nothing."""
    given = ["--log", str(write(without_logprobs(episodes[:80]))), "--policy", "random", "--no-certificate"]
    assert main(["evaluate", *given, "--estimators", "wis", "pdwis", "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "--estimators: none of these values any candidate: wis, pdwis: needs behaviour log-probs" in line
    assert "NAME=clone estimates it" in line
    assert not (tmp_path / "run" / "evaluation.json").exists()
    assert main(["evaluate", *given, "--estimators", "wis", "naive"]) == 0, "one value is something"


def test_logprobs_are_not_missed_where_no_weights_are_used(episodes: list[Trajectory], write: Write) -> None:
    result = evaluate(EvaluateConfig(log=(write(without_logprobs(episodes[200:280])),), policy=("seeker0.6",)))
    assert result.estimators == ("logged",)
    assert not [note for note in result.warnings if "logprob" in note]


def test_no_interval_of_the_comparison_goes_beyond_a_win_and_a_loss(episodes: list[Trajectory], write: Write) -> None:
    ends = [[t for t in episodes if t.episode_return == outcome][:3] for outcome in (0.0, 1.0)]
    mixed = [one for pair in zip(*ends, strict=True) for one in pair]
    few = [t.model_copy(update={"task_id": f"t{i}", "policy": f"v{i // 3}"}) for i, t in enumerate(mixed)]
    result = evaluate(EvaluateConfig(log=(write(few),), policy=("v0", "v1"))).comparison
    assert result is not None
    winner = result.winner
    assert winner is not None
    assert 0 <= winner.low <= winner.corrected <= winner.high <= 1
    assert all(0 <= (each.low or 0) <= (each.high or 0) <= 1 for each in result.simultaneous.values())
    assert all(-1 <= (each.low or 0) <= (each.high or 0) <= 1 for each in result.differences)
    assert any(each.high == 1 or each.low == -1 for each in result.differences), "so few say next to nothing"


def test_a_candidate_with_a_loggers_name_is_scored_as_itself(episodes: list[Trajectory], write: Write) -> None:
    """Whether specified or given, and whoever stands for the logger of that name."""
    folder, name = write(episodes[:80]), "seeker0.6"
    wanted = {"estimators": ("wis",), "certificate": False, "log": (folder,)}
    alone = evaluate(EvaluateConfig(policy=("mine=random",), **wanted), {"keen": GoalSeeker(1.6)})
    at_random, keen = (alone.value(who, "wis").value for who in ("mine", "keen"))
    itself = GoalSeeker(0.6)
    both = EvaluateConfig(policy=(f"{name}=random",), logger=(f"{name}=expert",), **wanted)
    assert evaluate(both).value(name, "wis").value == pytest.approx(at_random)
    specified = evaluate(EvaluateConfig(policy=(f"{name}=random",), **wanted), loggers={name: itself})
    assert specified.value(name, "wis").value == pytest.approx(at_random)
    assert not any("is not the policy that logged" in note for note in specified.warnings)
    given = evaluate(EvaluateConfig(**wanted), {name: GoalSeeker(1.6)}, loggers={name: itself})
    assert given.value(name, "wis").value == pytest.approx(keen)
    assert not any("is not the policy that logged" in note for note in given.warnings)


def test_one_episode(episodes: list[Trajectory], write: Write) -> None:
    result = evaluate(EvaluateConfig(log=(write(episodes[:1]),), policy=("random",), estimators=(*QUICK, "magic")))
    estimate = result.value("random", "wis")
    assert estimate.value is not None
    assert (estimate.low, estimate.high) == (None, None)
    assert "needs two episodes" in (result.value("random", "magic").refused or "")
    assert any("one episode" in note for note in result.warnings)


def test_zero_reward_everywhere(episodes: list[Trajectory], write: Write) -> None:
    folder = write(with_rewards(episodes[:80], 0.0))
    result = evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=LINEAR, features="ngrams:64"))
    assert any("every reward in the log is 0" in note for note in result.warnings)
    for name, estimate in result.policies[0].estimates.items():
        assert estimate.value == pytest.approx(0.0, abs=1e-3), name


def test_a_policy_that_never_acts_so(episodes: list[Trajectory], write: Write) -> None:
    class Never(GoalSeeker):
        def logprobs(self, turns: object, actions: list[list[str]]) -> list[np.ndarray]:  # type: ignore[override]  # narrower than the protocol: lists are given
            return [np.full(len(options), -np.inf) for options in actions]

    config = EvaluateConfig(log=(write(episodes[:80]),), estimators=QUICK, certificate=False)
    result = evaluate(config, {"never": Never(1.0)})
    for name in ("is", "wis", "pdwis"):
        assert "all importance weights are 0" in (result.value("never", name).refused or "")
    flag = result.value("never", "dr").flag
    assert flag is not None
    assert "0.0 effective episodes" in flag
    assert result.policies[0].diagnostics.never == 1.0


def test_a_reward_that_is_no_number_is_named(episodes: list[Trajectory], write: Write) -> None:
    with pytest.raises(InputError, match="step 1: reward is nan"):
        evaluate(EvaluateConfig(log=(write(with_rewards(episodes[:4], float("nan"))),), policy=("random",)))


def test_an_episode_in_two_folders_is_named(episodes: list[Trajectory], write: Write) -> None:
    folders = (write(episodes[:4]), write(episodes[3:6]))
    with pytest.raises(InputError, match=f"'{episodes[3].id}' occurs 2 times"):
        evaluate(EvaluateConfig(log=folders, policy=("random",)))


def test_bad_settings(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    folder = write(episodes[:8])
    with pytest.raises(InputError, match="did you mean 'pdwis'"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), estimators=("pdwiss",)))
    with pytest.raises(InputError, match="nothing to evaluate"):
        evaluate(EvaluateConfig(log=(folder,)))
    with pytest.raises(InputError, match="no such log"):
        evaluate(EvaluateConfig(log=(tmp_path / "nowhere",), policy=("random",)))
    with pytest.raises(InputError, match="between 0 and 1, got 1.5"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), epsilon=(1.5,)))
    with pytest.raises(InputError, match="--env shop: the log is of household"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), env="shop"))
    with pytest.raises(InputError, match="ngrams:WIDTH"):
        evaluate(EvaluateConfig(log=(folder,), policy=("random",), features="ngrams:many"))


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"interval": "hcope"}, "--bounds: --interval hcope needs"),
        ({"interval": "bernstein"}, "--bounds: --interval bernstein needs"),
        ({"bounds": (1, 0)}, "--bounds: the smallest value must lie below the largest"),
        ({"bounds": (0, "inf")}, "finite number"),
        ({"text_model": "hf:x"}, "--text-model hf:x: needs --world-model"),
        ({"interface": "soft"}, "--interface soft: needs --world-model"),
    ],
)
def test_settings_are_checked_before_anything_is_read(settings: dict[str, object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        worldline.evaluate(log=["nowhere"], policy=["random"], **settings)


@pytest.mark.parametrize(
    ("method", "proven"),
    [("hcope", {"is", "pdis", "naive"}), ("anytime", {"is", "pdis", "naive"}), ("bernstein", {"naive"})],
)
def test_an_interval_is_refused_where_it_is_not_proven(
    episodes: list[Trajectory], write: Write, method: str, proven: set[str]
) -> None:
    names = ("naive", "is", "wis", "pdis", "dr", "lfqe")
    config = EvaluateConfig(
        log=(write(episodes[:80]),), policy=("random",), estimators=names, interval=method, bounds=(0, 1)
    )
    result = evaluate(config)
    for name in names:
        estimate = result.value("random", name)
        if name in proven:
            assert estimate.low is not None, name
        else:
            assert f"no {method} interval is proven for it" in (estimate.refused or ""), name
    with pytest.raises(InputError, match=r"--bounds 0 0.5: episode '\S+' of the log has return 1"):
        evaluate(config.model_copy(update={"bounds": (0, 0.5)}))


def test_expected_error_is_explained_beside_the_error_of_the_certificate(
    episodes: list[Trajectory], write: Write
) -> None:
    config = EvaluateConfig(log=(write(episodes[:80]),), policy=("random",), estimators=("naive", "wis"))
    printed = [part for part in views(evaluate(config)) if isinstance(part, str)]
    assert any(part.startswith("Expected error, by which an estimator is recommended, is") for part in printed)


def test_the_answer_is_printed_first(episodes: list[Trajectory], write: Write) -> None:
    config = EvaluateConfig(log=(write(episodes),), estimators=("naive", "wis", "pdwis"), certificate=False)
    result = evaluate(config, {"keen": GoalSeeker(1.6, "keen"), "lazy": GoalSeeker(0.6, "lazy")})
    assert result.comparison is not None
    (first, *rest) = result.comparison.differences
    assert (first.a, first.b) == ("keen", "lazy")
    assert {d.b for d in rest} == {"logged seeker0.6", "logged seeker1", "logged seeker1.6"}
    wis = {name: result.value(name, result.comparison.estimator).value or 0.0 for name in ("keen", "lazy")}
    assert first.value == pytest.approx(wis["keen"] - wis["lazy"])
    assert sum(result.comparison.p_best.values()) == pytest.approx(1)
    assert result.comparison.sensitivity is not None
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115 - the console keeps it
    for part in views(result):
        console.print(part)
    text = console.export_text()
    assert text.lstrip().startswith("Who is better")
    assert "P(best): " in text
    assert text.index("P(> 0) is of values that are drawn towards those of the other") < text.index("P(best): ")
    assert result.recommended is not None and result.recommended.estimator == result.comparison.estimator


def test_nobody_is_better_by_an_estimate_that_is_not_to_be_trusted(episodes: list[Trajectory], write: Write) -> None:
    """`seeker0.6` hardly ever does what `bold` does: weights vanish, and where they do `dr` has a short interval."""
    config = EvaluateConfig(log=(write(episodes[:240]),), estimators=("naive", "wis", "dr"), by="split")
    alone = evaluate(config, {"bold": GoalSeeker(9.0, "bold")})
    assert alone.value("bold", "dr").flag and alone.value("bold", "dr").low is not None
    assert alone.recommended is None and alone.comparison is None and alone.breakdown is None
    first = views(alone)[0]
    assert first == f"who is better, nothing here can tell: {alone.meta.no_recommendation}"
    assert any(note.startswith("--by split: no groups are shown") for note in alone.warnings)


def test_a_candidate_that_is_flagged_is_not_compared(
    episodes: list[Trajectory], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`wis` is recommended although it is flagged for `bold`: nothing is said of how sure it is of that one."""
    chosen = Recommendation(estimator="wis", policy="bold", reason="it beat the behaviour mean in its trials")
    monkeypatch.setattr(module, "recommend", lambda *_: chosen)
    seekers = {"near": GoalSeeker(0.5, "near"), "bold": GoalSeeker(9.0, "bold"), "same": GoalSeeker(0.6, "same")}
    result = evaluate(EvaluateConfig(log=(write(episodes[:240]),), estimators=("naive", "wis")), seekers)
    assert [p.label for p in result.policies if p.estimates["wis"].flag] == ["bold"]
    assert result.comparison is not None and set(result.comparison.p_best) == {"near", "same"}
    assert "bold" not in {label for each in result.comparison.differences for label in (each.a, each.b)}
    assert "not compared: bold: do not trust their values by wis" in views(result)


def test_nobody_is_compared_where_nothing_looks_at_the_policy(
    episodes: list[Trajectory], write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The behaviour mean is a number about the log, and says nothing of a candidate that weights refuse."""

    def impossible(turns: Sequence[Turn], actions: Sequence[Sequence[str]]) -> list[npt.NDArray[np.float64]]:
        return [np.full(len(options), -np.inf) for options in actions]

    never = GoalSeeker(1.0, "never")
    monkeypatch.setattr(never, "logprobs", impossible)
    result = evaluate(EvaluateConfig(log=(write(episodes[:80]),), estimators=("naive", "wis")), {"never": never})
    assert result.value("never", "wis").refused and result.value("never", "naive").value is not None
    assert result.comparison is None
    assert str(views(result)[0]).startswith("who is better, nothing here can tell: no estimator that depends on")


def test_a_retrained_checkpoint_is_asked_again(
    episodes: list[Trajectory], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other weights under the same path, of the same size and time."""
    monkeypatch.setattr(policies, "load", lambda spec, world, settings: GoalSeeker(float(weights.read_text())))
    weights = tmp_path / "model" / "model.safetensors"
    weights.parent.mkdir()
    config = EvaluateConfig(
        log=(write(episodes[:24]),),
        policy=(f"mine=hf:{weights.parent}",),
        estimators=("wis",),
        certificate=False,
        out=tmp_path / "out",
        overwrite=True,
    )
    values = []
    for zeal in ("0.5", "2.5", "0.5"):
        weights.write_text(zeal)
        os.utime(weights, (1, 1))
        values.append(evaluate(config).value("mine", "wis").value)
    assert values[0] == values[2] != values[1]
    assert len(list((tmp_path / "out" / "cache").iterdir())) == 2


class Dream:
    """A world model without estimators of its own: it has imagined these episodes."""

    names = ()

    def __init__(self, episodes: Sequence[Trajectory]) -> None:
        self.episodes = episodes

    def table(self, candidate: Candidate, evidence: object) -> dict[str, Estimator]:
        return {}

    def null(self, names: Sequence[str]) -> list[Any]:
        return []

    def weak_points(self, name: str) -> list[str]:
        return []

    def leave_out(self, names: Sequence[str]) -> list[Any]:
        return []

    def sensitivity(self, candidates: Sequence[Candidate], starts: int) -> list[dict[str, Any]]:
        return []

    def close(self) -> None: ...

    def imagined_episodes(self) -> Iterator[Trajectory]:
        return iter(self.episodes)


def imagined(episodes: Sequence[Trajectory]) -> list[Trajectory]:
    return [t.model_copy(update={"env": "imagined:household", "id": f"dream-{t.id}"}) for t in episodes]


def content(out: Path) -> tuple[Evaluation, dict[str, bytes], list[Trajectory]]:
    """The evaluation, the kept log-probs and the imagined episodes of a folder, as the next writer finds them."""
    files.remove_leftovers(out)
    kept = {path.name: path.read_bytes() for path in sorted((out / "cache").glob("*.npy"))}
    return read_evaluation(out / "evaluation.json"), kept, list(store.read(out / "imagined"))


@pytest.mark.parametrize("how", ["full", "killed"])
def test_whatever_breaks_the_old_evaluation_or_the_new_one_is_there(
    episodes: list[Trajectory], write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: faults.How
) -> None:
    """Every write, sync, rename, deletion and lock of `evaluate --out --overwrite` fails, or is the last, in turn."""
    monkeypatch.setattr(policies, "load", lambda spec, world, settings: GoalSeeker(float(Path(spec[3:]).name)))
    log, work = write(episodes[:6]), tmp_path / "run"

    def run(zeal: str, dreams: Sequence[Trajectory]) -> None:
        monkeypatch.setattr(module, "_world_model", lambda case: Dream(dreams))
        evaluate(
            EvaluateConfig(
                log=(log,),
                policy=(f"mine=hf:{tmp_path / zeal}",),
                estimators=("naive", "wis"),
                bootstrap=100,
                certificate=False,
                out=work,
                overwrite=True,
            )
        )

    def new(out: Path = work) -> None:
        run("2", imagined(episodes[2:5]))

    run("1", imagined(episodes[:3]))
    old = shutil.copytree(work, tmp_path / "old")
    before = content(work)
    new()
    after = content(work)
    assert before[0] != after[0]
    assert before[2] != after[2]
    shutil.rmtree(work)
    broken = 0
    for state in faults.states_left(new, tmp_path, how, before=lambda out: shutil.copytree(old, out)):
        broken += state.calls
        evaluation, kept, episodes_there = content(work)
        assert evaluation in (before[0], after[0])
        assert all(after[1].get(name) == values for name, values in kept.items())
        assert episodes_there in (before[2], after[2])
        new()
        assert content(work) == after
        assert not [path for path in work.rglob(".*") if path.name != ".lock"]
    assert broken >= 14


def test_one_evaluation_at_a_time_writes_a_folder(episodes: list[Trajectory], write: Write, tmp_path: Path) -> None:
    class Nested(GoalSeeker):
        def logprobs(self, turns: Sequence[object], actions: object) -> list[np.ndarray]:
            with pytest.raises(InputError, match=r"--out \S+out: another evaluation is writing there"):
                evaluate(config, {"inner": GoalSeeker(1.0)})
            return super().logprobs(turns, actions)  # type: ignore[arg-type]  # passed on as they came

    config = EvaluateConfig(log=(write(episodes[:6]),), estimators=("wis",), certificate=False, out=tmp_path / "out")
    evaluate(config, {"outer": Nested(1.0)})
    assert read_evaluation(tmp_path / "out" / "evaluation.json").policies[0].name == "outer"


def test_episodes_that_were_played_are_not_deleted_as_imagined(
    episodes: list[Trajectory], write: Write, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(write(episodes[:6]), out / "imagined")
    config = EvaluateConfig(log=(write(episodes[:6]),), policy=("random",), estimators=("naive",), out=out)
    with pytest.raises(InputError, match="holds episodes that were not imagined: move them, or give another --out"):
        evaluate(config)
    assert len(list(store.read(out / "imagined"))) == 6
