"""Collecting: resumable, shareable, never overwritten; what a killed run leaves is whole."""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM

from collect_process import start_collect
from counting import CountingWorld, SeededPolicy
from worldline import envs, files, store
from worldline.cli import main
from worldline.cli.verb_result import Speed
from worldline.collect import CollectConfig, collect, collect_tasks
from worldline.collect_notes import refuse_other_policy
from worldline.evaluate import EvaluateConfig, evaluate
from worldline.types import Decision, InputError, Trajectory, Turn, WorldlineError, policy_label


def config(out: Path | None = None, **settings: object) -> CollectConfig:
    return CollectConfig.model_validate(
        {"env": "counting:CountingWorld", "policy": "counting:SeededPolicy", "episodes": 30, "out": out, **settings}
    )


def content(folder: Path) -> dict[str, Trajectory]:
    return {trajectory.id: trajectory for trajectory in store.read(folder)}


def test_summary_tells_success_with_an_honest_interval(tmp_path: Path) -> None:
    summary = collect(config(tmp_path / "log", max_steps=3)).summary()
    episodes = content(tmp_path / "log").values()
    assert summary["episodes"] == 30 == len(episodes)
    assert summary["success"] == pytest.approx(sum(t.success for t in episodes) / 30)
    assert summary["success_low"] < summary["success"] < summary["success_high"]
    assert summary["steps"] == sum(len(t) for t in episodes)


def test_wilson_interval_is_open_at_the_edges() -> None:
    summary = collect(config(policy="expert", episodes=3)).summary()
    # Wilson for 3 of 3: [n / (n + z^2), 1].
    assert summary["success"] == 1.0
    assert summary["success_low"] == pytest.approx(3 / (3 + 1.959964**2))
    assert summary["success_high"] == pytest.approx(1.0)


def test_the_same_run_twice_is_refused_resumed_or_overwritten(tmp_path: Path) -> None:
    collect(config(tmp_path, episodes=10))
    before = content(tmp_path)
    with pytest.raises(InputError, match="holds 10 episodes of this very run: --resume goes on, --overwrite"):
        collect(config(tmp_path, episodes=10))
    assert content(tmp_path) == before
    summary = collect(config(tmp_path, episodes=30, resume=True)).summary()
    assert summary["episodes"] == 30
    collect(config(tmp_path / "whole"))
    assert content(tmp_path) == content(tmp_path / "whole"), "resumed equals undisturbed"
    collect(config(tmp_path, episodes=5, overwrite=True))
    assert len(content(tmp_path)) == 5


def test_other_runs_share_the_folder_and_survive_an_overwrite(tmp_path: Path) -> None:
    collect(config(tmp_path, episodes=4, seed=1))
    collect(config(tmp_path, episodes=4, seed=2))
    collect(config(tmp_path, episodes=6, seed=2, overwrite=True))
    assert store.count(tmp_path) == 10
    store.check_unique(tmp_path)


def retrained(model: Path) -> None:
    """Other weights in the same folder."""
    lm = AutoModelForCausalLM.from_pretrained(model)
    lm.get_input_embeddings().weight.data += 0.01
    lm.save_pretrained(model)


def test_a_folder_holds_episodes_of_one_set_of_options(tmp_path: Path) -> None:
    """Two levels have tasks of the same names: an estimator would take them for the same tasks."""
    tiny = {"env": "household", "policy": "random", "episodes": 2, "options": {"level": "tiny"}}
    collect(config(tmp_path / "log", **tiny))
    collect(config(tmp_path / "log", **tiny, name="again"))
    before = content(tmp_path / "log")
    with pytest.raises(InputError, match=r"household with --options.level tiny.*give another --out"):
        collect(config(tmp_path / "log", **{**tiny, "options": {"level": "small"}, "name": "other"}))
    with pytest.raises(InputError, match="--options.level tiny"):
        collect(config(tmp_path / "log", **{**tiny, "options": {}, "name": "default"}))
    explicit = {
        name: value for name, value in envs.settings("household", {"level": "tiny"}).items() if value is not None
    }
    collect(config(tmp_path / "log", **{**tiny, "options": explicit, "name": "explicit"}))
    assert before.items() <= content(tmp_path / "log").items() and len(content(tmp_path / "log")) == 6
    (tmp_path / "log" / ".options.json").write_text("{broken")
    with pytest.raises(InputError, match=r"options.json: is no JSON: delete it"):
        collect(config(tmp_path / "log", **tiny, seed=5))
    for shard in store.shards(tmp_path / "log"):
        shard.unlink()
    collect(config(tmp_path / "log", **{**tiny, "options": {"level": "small"}}))
    assert len(content(tmp_path / "log")) == 2, "an emptied folder is free again"


VENDING = """
class Vending:
    tasks = ("a", "b", "c", "d")

    def __init__(self, jam=0.1):
        self.jam = jam

    def reset(self, *, seed=None, task=None):
        return "a machine", {"admissible": ("press", "wait")}

    def step(self, action):
        return "done", 1.0, True, False, {"won": True}
"""


@pytest.fixture
def vending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the user's own in the working directory."""
    (tmp_path / "vending.py").write_text(VENDING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "vending", raising=False)
    return tmp_path / "vending.py"


def test_an_environment_that_was_changed_is_noted(vending: Path, tmp_path: Path) -> None:
    """By its file, whoever goes on in the folder; a run that replaces all that was there is told nothing."""
    log, own = tmp_path / "log", {"env": "vending:Vending", "policy": "random"}
    assert collect(config(log, **own, episodes=2)).notes == ()
    assert collect(config(log, **own, episodes=3, resume=True)).notes == ()
    vending.write_text(VENDING.replace("1.0", "0.5"))
    for given in ({"resume": True}, {"name": "another"}):
        (note,) = collect(config(log, **own, episodes=4, **given)).notes
        assert note.startswith("vending.py was changed since the first episodes of vending:Vending in")
    alone = tmp_path / "alone"
    collect(config(alone, **own, episodes=2))
    vending.write_text(VENDING)
    assert collect(config(alone, **own, episodes=2, overwrite=True)).notes == ()
    assert collect(config(alone, **own, episodes=3, resume=True)).notes == ()


def test_a_policy_that_was_changed_is_noted(vending: Path, tmp_path: Path) -> None:
    """Under its name: under another one the change mixes nothing."""
    log, own = tmp_path / "log", {"env": "counting:CountingWorld", "policy": "vending:press"}
    press = "def press(turn):\n    return 'up'\n"
    vending.write_text(press)
    for given in ({"episodes": 2}, {"episodes": 3, "resume": True}, {"episodes": 2, "seed": 1}):
        assert collect(config(log, **own, **given)).notes == ()
    vending.write_text(press.replace("up", "stay"))
    assert collect(config(log, **own, name="second", episodes=2)).notes == ()
    for given in ({"seed": 0, "resume": True}, {"seed": 2}):
        (note,) = collect(config(log, **own, episodes=4, **given)).notes
        assert note.startswith("vending.py was changed since the first episodes of 'vending:press' in")
        assert "another --name keeps them apart" in note
    assert collect(config(log, **own, name="second", episodes=3, resume=True)).notes == ()
    vending.write_text(press)
    assert collect(config(log, **own, name="second", episodes=2, overwrite=True)).notes == ()


@pytest.mark.usefixtures("vending")
def test_an_evaluation_at_other_options_than_its_log_says_so(tmp_path: Path) -> None:
    own = {"env": "vending:Vending", "policy": "random", "episodes": 4}
    collect(config(tmp_path / "own", **own, options={"jam": 0.1}))
    collect(config(tmp_path / "house", env="household", policy="random", episodes=4, options={"level": "tiny"}))
    cases: list[tuple[str, dict[str, object], str]] = [
        ("own", {"options": {"jam": 0.9}}, "--options.jam 0.1"),
        ("own", {"options": {"jam": 0.1}}, ""),
        ("own", {"env": "vending:Vending"}, "--options.jam 0.1"),
        ("own", {}, ""),
        ("house", {"options": {"level": "small"}}, "--options.level tiny"),
        ("house", {"env": "household", "options": {"level": "tiny"}}, ""),
    ]
    for log, given, there in cases:
        settings = {"policy": ("random",), "estimators": ("naive",), "certificate": False, **given}
        warnings = evaluate(EvaluateConfig(log=(tmp_path / log,), **settings)).warnings
        notes = [line for line in warnings if "were played with" in line]
        assert [there in line for line in notes] == [True] * bool(there), (log, given)


def test_an_empty_slice_of_tasks_is_called_one(tmp_path: Path) -> None:
    tiny = {"env": "household", "policy": "random", "options": {"level": "tiny"}}
    with pytest.raises(InputError, match=r"--tasks: '5:2' is an empty slice of the \d+ tasks"):
        collect(config(tmp_path / "log", **tiny, tasks="5:2"))


def test_a_name_in_a_folder_stands_for_one_policy(start: Path, tmp_path: Path) -> None:
    """Sampling among the admissible actions is another policy than writing freely, though the model is the same."""
    settings = {"policy": f"hf:{start}", "max_new_tokens": 4, "device": "cpu", "max_steps": 2, "episodes": 2}
    collect(config(tmp_path / "log", **settings, mode="choose"))
    with pytest.raises(InputError, match=r"with --mode choose, and this run has --mode generate.*another --name"):
        collect(config(tmp_path / "log", **settings))
    with pytest.raises(InputError, match=r"with --temperature 1.0, and this run has --temperature 0.5"):
        collect(config(tmp_path / "log", **settings, mode="choose", temperature=0.5))
    collect(config(tmp_path / "log", **settings, name="writing"))
    collect(config(tmp_path / "log", **settings, mode="choose", seed=1, epsilon=0.5))
    assert len(content(tmp_path / "log")) == 6
    (tmp_path / "log" / ".policies.json").write_text("{broken")
    with pytest.raises(InputError, match=r"policies.json: is no JSON: delete it"):
        collect(config(tmp_path / "log", **settings, mode="choose", seed=2))
    for shard in store.shards(tmp_path / "log"):
        shard.unlink()
    collect(config(tmp_path / "log", **settings))
    assert len(content(tmp_path / "log")) == 2, "an emptied folder is free again"


def test_a_name_in_a_folder_stands_for_one_specification(tmp_path: Path) -> None:
    log, notes = tmp_path / "log", tmp_path / "log" / ".policies.json"
    collect(config(log, name="agent", episodes=2))
    before = content(log)
    for policy in ("random", "test_collect:crash"):
        line = f"of 'agent' with --policy counting:SeededPolicy, and this run has --policy {policy}: .*another --name"
        with pytest.raises(InputError, match=line) as caught:
            collect(config(log, name="agent", policy=policy, seed=1, overwrite=True))
        assert caught.value.exit_code == 2 and content(log) == before
    collect(config(log, name="agent", episodes=2, seed=1, epsilon=0.5))
    collect(config(log, name="master", policy="expert", episodes=2))
    with pytest.raises(InputError, match="of 'master' with --policy expert, and this run has --policy counting"):
        collect(config(log, name="master", episodes=2))
    noted = json.loads(notes.read_text())
    del noted["agent"]["policy"], noted["master"]
    notes.write_text(json.dumps(noted))
    collect(config(log, name="agent", episodes=2, seed=2))  # a log of an earlier version, which noted no specification
    collect(config(log, name="master", policy="expert", episodes=2, seed=1))
    assert len(content(log)) == 10


def test_the_address_of_a_server_is_no_part_of_a_policy(tmp_path: Path) -> None:
    """And what it holds besides, such as a key, is not written down."""
    given = {"name": "agent", "episodes": 2}
    collect(config(tmp_path, **given))
    for address in ("http://a:key@one:8000/v1", "https://two/v1"):
        refuse_other_policy(config(tmp_path, name="model", policy=f"vllm:my/model@{address}"), tmp_path)
    assert json.loads((tmp_path / ".policies.json").read_text())["model"]["policy"] == "vllm:my/model"


def test_a_checkpoint_that_was_retrained_is_another_run(start: Path, tmp_path: Path) -> None:
    model, log = tmp_path / "model", tmp_path / "log"
    shutil.copytree(start, model)
    settings = {"policy": f"hf:{model}", "max_new_tokens": 4, "device": "cpu", "max_steps": 2}
    collect(config(log, **settings, episodes=4))
    before = content(log)
    (model / "training_state.pt").write_bytes(b"not read by anyone who plays")
    collect(config(log, **settings, episodes=6, resume=True))
    assert content(log).items() > before.items()
    retrained(model)
    for how in ({}, {"resume": True}):
        with pytest.raises(InputError, match=f"holds 6 episodes that hf:{model} played before it was changed: --overw"):
            collect(config(log, **settings, episodes=6, **how))
    assert len(content(log)) == 6
    collect(config(log, **settings, episodes=6, overwrite=True))
    after = content(log)
    assert not after.keys() & before.keys()
    assert {name[-6:]: e.seed for name, e in before.items()}.items() < {
        n[-6:]: e.seed for n, e in after.items()
    }.items()
    collect(config(log, **settings, episodes=6, name="the second"))
    retrained(model)
    collect(config(log, **settings, episodes=6, name="the third"))
    assert len(content(log)) == 18


def test_the_lock_is_held_through_the_last_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who takes it next sees every episode."""
    flush, seen = store.StoreWriter.flush, []

    def watched(writer: store.StoreWriter) -> None:
        (lock,) = tmp_path.glob(".*.lock")
        with pytest.raises(InputError, match="taken"), files.locked(lock, taken="taken"):
            pass
        flush(writer)
        seen.append(store.count(tmp_path))

    monkeypatch.setattr(store.StoreWriter, "flush", watched)
    collect(config(tmp_path, episodes=70))
    assert seen == [64, 70]
    assert not list(tmp_path.glob(".*.lock"))


def test_bad_tasks_and_splits_are_one_line() -> None:
    with pytest.raises(InputError, match="--split: .* has no split 'dev': it has train, test"):
        collect(config(split="dev"))
    for tasks in ("x", "5:9", "7", ":0"):
        with pytest.raises(InputError, match="--tasks"):
            collect(config(tasks=tasks))


def test_tasks_choose_what_is_played(tmp_path: Path) -> None:
    collect(config(tmp_path, tasks="2,0", episodes=4))
    assert sorted(t.task_id for t in store.read(tmp_path)) == ["1", "1", "3", "3"]


def test_a_world_in_which_every_episode_fails_is_one_line() -> None:
    with pytest.raises(WorldlineError, match=r"every episode failed, the first was .*: the floor gave way \(.*, line"):
        collect(config(policy="test_collect:crash", episodes=2))


def crash(turn: Turn) -> str:
    return "crash"


class Failing:
    """Raises after some calls."""

    name = "failing"
    calls = 0

    def act(self, turns: list[Turn]) -> list[Decision]:
        Failing.calls += 1
        if Failing.calls > 8:
            raise RuntimeError("out\nof memory")
        return [Decision("up", "up") for _ in turns]


def test_a_policy_that_raises_loses_nothing(tmp_path: Path) -> None:
    Failing.calls = 0
    with pytest.raises(
        WorldlineError, match=r"RuntimeError: out of memory \(.*, line \d+\); finished episodes are"
    ) as caught:
        collect(config(tmp_path, policy="test_collect:Failing", batch_size=2))
    assert caught.value.exit_code == 1
    assert content(tmp_path)
    with pytest.raises(WorldlineError, match="policy 'test_collect:Failing' failed .*; without --out nothing is kept$"):
        collect(config(policy="test_collect:Failing", batch_size=2))


def test_a_policy_that_was_mended_goes_on_where_it_raised(
    vending: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, own = tmp_path / "log", {"policy": "vending:press", "batch_size": 2}
    mended = "def press(turn):\n    return 'up'\n"
    vending.write_text(mended.replace("'up'", "'up' if turn.task != '3' else turn.door"))
    with pytest.raises(WorldlineError, match="at task 3: AttributeError: .*; finished episodes are kept, --resume"):
        collect(config(log, **own))
    kept = content(log)
    assert kept
    vending.write_text(mended)
    monkeypatch.delitem(sys.modules, "vending")
    assert len(collect(config(log, **own, resume=True)).notes) == 1, "the code was changed"
    assert len(content(log)) == 30 and kept.items() <= content(log).items()


def test_the_task_at_which_a_policy_raises_is_named() -> None:
    line = r"'test_collect:Stumbling' failed in the middle, at task 3: KeyError: 'a door' \(.*, line \d+\); without"
    with pytest.raises(WorldlineError, match=line) as caught:
        collect(config(policy="test_collect:Stumbling"))
    assert caught.value.exit_code == 1


class Stumbling(SeededPolicy):
    """Raises at one task of many that it acts on at once."""

    def act(self, turns: list[Turn]) -> list[Decision]:
        if any(turn.task == "3" for turn in turns):
            raise KeyError("a door")
        return super().act(turns)


def test_a_policy_that_exits_is_one_line() -> None:
    with pytest.raises(WorldlineError, match="'test_collect:exiting' failed in the middle, at task 1: SystemExit: 3"):
        collect(config(policy="test_collect:exiting", episodes=2))


def exiting(turn: Turn) -> str:
    raise SystemExit(3)


def test_kill_nine_then_resume_equals_the_undisturbed_run(tmp_path: Path) -> None:
    words = ("--episodes", "400", "--batch-size", "8")
    killed = start_collect(tmp_path / "a", *words)
    while not store.shards(tmp_path / "a"):
        assert killed.poll() is None
        time.sleep(0.01)
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    kept = store.count(tmp_path / "a")
    assert 0 < kept < 400, "killed in the middle"
    again = [start_collect(tmp_path / "a", *words, "--resume"), start_collect(tmp_path / "b", *words)]
    assert [process.wait() for process in again] == [0, 0]
    store.check_unique(tmp_path / "a")
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_two_processes_share_a_folder(tmp_path: Path) -> None:
    both = [start_collect(tmp_path, "--episodes", "100", "--seed", str(seed)) for seed in (1, 2)]
    assert [process.wait() for process in both] == [0, 0]
    store.check_unique(tmp_path)
    assert store.count(tmp_path) == 200


def test_the_very_same_run_at_once_is_refused(tmp_path: Path) -> None:
    first = start_collect(tmp_path, "--episodes", "600")
    while not list(tmp_path.glob(f".{'?' * 10}.lock")):  # the run's own, by its name: others are held for a moment
        time.sleep(0.01)
    first.send_signal(signal.SIGSTOP)  # it holds the lock for as long as the second takes to start
    try:
        second = start_collect(tmp_path, "--episodes", "600", "--resume")
        assert second.wait() == 2
        assert b"another process is collecting this very run" in (second.stderr.read() if second.stderr else b"")
    finally:
        first.send_signal(signal.SIGCONT)
    assert first.wait() == 0
    store.check_unique(tmp_path)


def test_tasks_are_played_by_an_object_and_only_once(tmp_path: Path) -> None:
    class Counter(SeededPolicy):
        turns = 0

        def act(self, turns: Sequence[Turn]) -> list[Decision]:
            self.turns += len(turns)
            return super().act(turns)

    world, policy = CountingWorld(), Counter()

    def play(tasks: int) -> list[Trajectory]:
        return collect_tasks(
            world, policy, name="p", split=world.splits()[0], tasks=tasks, repeats=2, seed=1, out=tmp_path
        )

    first, turns = play(3), policy.turns
    assert turns == sum(len(episode) for episode in first)
    assert [episode.id for episode in first] == [f"p-{repeat}-{task:05d}" for repeat in range(2) for task in range(3)]
    assert play(3) == first and policy.turns == turns, "everything was there"
    assert play(4)[:3] == first[:3] and policy.turns > turns
    assert store.count(tmp_path) == 8


def test_the_table_names_the_policy_as_the_log_does_and_what_the_intervals_are_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["collect", "counting:CountingWorld", "--policy", "expert", "--tasks", "0:4", "--out", str(tmp_path)]
    assert main([*words, "--episodes", "12", "--epsilon", "0.3"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    (label,) = {policy_label(t.policy, t.epsilon) for t in store.read(tmp_path)}
    assert label == "expert@0.3" and f"{label} in counting:CountingWorld" in out
    tasks = len({t.task_id for t in store.read(tmp_path)})
    assert 1 < tasks < 12 and f"intervals: {tasks} tasks are the units, not 12 episodes" in out
    assert main([*words, "--episodes", "1"]) == 0
    assert "are the units" not in capsys.readouterr().out
    assert main([*words[:-4], "--tasks", "0:1", "--episodes", "3"]) == 0
    assert "intervals: one task is the unit, not 3 episodes" in capsys.readouterr().out


def test_a_log_without_log_probs_is_announced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a resumed run too, whose episodes are read from the log; not where nothing is written."""
    line = "no log-probs are written: policy 'counting:SeededPolicy' gives none"
    words = ["collect", "counting:CountingWorld", "--policy", "counting:SeededPolicy", "--episodes", "4", "--json"]
    assert main(words) == 0
    assert line not in capsys.readouterr().err
    for more in ([], ["--resume"]):
        assert main([*words, "--out", str(tmp_path), *more]) == 0
        captured = capsys.readouterr()
        summary = json.loads(captured.out)
        assert line in captured.err and summary["steps_without_logprob"] == summary["steps"]
    words[words.index("counting:SeededPolicy")] = "expert"
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert "no log-probs" not in capsys.readouterr().err


def test_watching_begins_with_what_is_there(tmp_path: Path) -> None:
    counts: list[int] = []
    for episodes in (10, 12):
        collect(config(tmp_path, episodes=episodes, resume=True), lambda tally: counts.append(len(tally.returns)))
    assert counts == [*range(11), 10, 11, 12]


def test_speed_is_that_since_the_start() -> None:
    """Sixty-five episodes that end within a millisecond of each other, after twenty seconds of play."""
    speed = Speed()
    assert speed.at(35, 100.0) == 0.0  # 35 were there before
    assert [round(speed.at(35 + k, 120.0 + k / 65e3), 2) for k in (1, 65)] == [0.05, 3.25]
