"""`wm` as a world, and on its way from `fit` through a folder to `evaluate`."""

import json
import random
from pathlib import Path

import pytest
from kernel_fits import fit_of_lamps, fit_of_shelves, fit_of_walks
from written_logs import COLOURS, OPENS, RED, TO_GREEN, lamps, walk

from worldline import store
from worldline.adwm.ensemble import KERNEL_FOLDER, Ensemble, save_kernel, save_log
from worldline.adwm.fitting.survey import facts_of
from worldline.adwm.kernel_env import KernelWorld
from worldline.cli import main
from worldline.kernel import gate, lists, outcome, wordings
from worldline.kernel.fitting import fit_kernel
from worldline.kernel.model import KernelModel
from worldline.policies import PolicyConfig, load
from worldline.rollout import Rollout, plan
from worldline.types import Environment, InputError, Trajectory, World, WorldlineError

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def _brief(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (gate, lists, outcome, wordings):
        monkeypatch.setattr(module, "_STEPS", 50)


@pytest.fixture(scope="module")
def model() -> KernelModel:
    return fit_of_lamps()[0]


@pytest.fixture(scope="module")
def dream(model: KernelModel) -> KernelWorld:
    return KernelWorld(model, facts_of(model.log.episodes))


def steps_of(world: World, batch_size: int, episodes: int = 12, *, backwards: bool = False) -> dict[str, object]:
    player = Rollout(world, load("random", world, PolicyConfig()), batch_size=batch_size)
    wanted = plan(world, "log", episodes, seed=1, run="x")
    played = player.play(wanted[::-1] if backwards else wanted)
    return {e.id: [(s.observation, s.action, s.reward, s.admissible) for s in e.steps] for e in played}


def test_it_is_a_world_like_any_other(dream: KernelWorld, model: KernelModel) -> None:
    log = model.log.episodes
    assert isinstance(dream, World)
    assert isinstance(dream.make(), Environment)
    assert dream.num_tasks("log") == 10
    assert dream.max_steps == max(len(episode) for episode in log)
    observation, info = dream.make().reset(seed=1, task="t3")
    assert observation in {episode.steps[0].observation for episode in log if episode.task_id == "t3"}
    assert info["admissible"] == ("press", "wait")
    with pytest.raises(InputError, match="is not in the log"):
        dream.make().reset(seed=0, task="t99")


@pytest.mark.parametrize("bag", [False, True])
def test_a_batch_imagines_what_single_episodes_do_in_any_order(model: KernelModel, bag: bool) -> None:
    world = KernelWorld(model, facts_of(model.log.episodes), bag=bag)
    alone = steps_of(world, 1)
    assert len({str(steps) for steps in alone.values()}) > 6, "episodes differ"
    assert steps_of(world, 12) == alone
    assert steps_of(world, 5, backwards=True) == alone
    assert steps_of(KernelWorld(model, facts_of(model.log.episodes), bag=bag), 3) == alone, "another world, no memory"


def test_waiting_episodes_are_answered_together_whatever_their_order(dream: KernelWorld) -> None:
    def played(order: list[int]) -> list[object]:
        environments = [dream.make() for _ in range(6)]
        for seed, environment in enumerate(environments):
            environment.reset(seed=seed, task="t1")
        for at in order:
            environments[at].begin("wait")
        assert len(dream.waiting) == 6
        results = [environment.step("wait") for environment in environments]
        assert dream.waiting == []
        return list(results)

    orders = [list(range(6)) for _ in range(3)]
    for number, order in enumerate(orders):
        random.Random(number).shuffle(order)
    assert all(played(order) == played(list(range(6))) for order in orders)


def test_a_clone_goes_on_equally_and_alone(dream: KernelWorld) -> None:
    environment = dream.make()
    environment.reset(seed=5, task="t2")
    environment.step("wait")
    twin = environment.clone()
    third = environment.clone()
    for _ in range(3):
        assert twin.step("wait") == environment.step("wait")
    assert environment.state.step == twin.state.step == 4
    assert third.state.step == 1, "what the others did is not its own"
    assert third.step("wait")[0] == environment.state.answers[1]


def test_an_episode_ends_where_the_world_ends_it_or_with_the_horizon(dream: KernelWorld) -> None:
    """Waiting never ends it; pressing may at any time."""
    environment = dream.make()
    environment.reset(seed=3, task="t1")
    for step in range(dream.max_steps):
        _, _, terminated, truncated, _ = environment.step("wait")
        assert not terminated
        assert truncated == (step + 1 == dream.max_steps)
    with pytest.raises(WorldlineError, match="over"):
        environment.step("wait")
    ends = []
    for seed in range(60):
        environment.reset(seed=seed, task="t1")
        ends.append(environment.step("press")[2])
    assert 0.1 < sum(ends) / 60 < 0.42, "a quarter of the presses"


def test_imagined_steps_follow_the_table(dream: KernelWorld) -> None:
    """The share of green after red and press, over 150 imagined episodes."""
    starts = [e.task_id for e in dream.model.log.episodes if e.steps[0].observation == RED]
    answers = []
    for seed in range(150):
        environment = dream.make()
        observation, _ = environment.reset(seed=seed, task=starts[seed % len(starts)])
        if observation == RED:
            answers.append(environment.step("press")[0] != RED)
    assert len(answers) > 40
    assert sum(answers) / len(answers) == pytest.approx(TO_GREEN[RED, "press"], abs=0.2)


def test_steps_are_counted_by_how_the_log_supports_them(model: KernelModel) -> None:
    world = KernelWorld(model, facts_of(model.log.episodes))
    environment = world.make()
    environment.reset(seed=0, task="t0")
    environment.step("wait")
    environment.step("sing to the moon")
    environment.step("sing to the moon")
    assert world.support.steps == 3
    assert world.support.unsupported == 2, "what was made up once supports nothing"
    assert world.support.near["exact"] == 1


def test_lists_of_an_imagined_world_are_those_of_its_rule() -> None:
    """Played by chance: whatever is held can be dropped, everything else taken."""
    model = fit_of_shelves()[0]
    world = KernelWorld(model, facts_of(model.log.episodes))
    player = Rollout(world, load("random", world, PolicyConfig()), batch_size=8)
    for episode in player.play(plan(world, "log", 8, seed=1, run="x")):
        held: set[str] = set()
        for step in episode.steps:
            things = {action.partition(" ")[2] for action in step.admissible or ()} - {""}
            assert {f"drop {x}" if x in held else f"take {x}" for x in things} | {"rest"} == set(step.admissible or ())
            held ^= {step.action.partition(" ")[2]} - {""}


def same_answers(first: KernelModel, second: KernelModel, log: list[Trajectory]) -> bool:
    facts = facts_of(log)
    return steps_of(KernelWorld(first, facts), 8, 24) == steps_of(KernelWorld(second, facts), 8, 24)


@pytest.mark.usefixtures("_brief")
def test_a_loaded_model_answers_as_the_one_that_was_saved(tmp_path: Path) -> None:
    """A log with more alike rows than are looked at: which ones are must not change."""
    log = lamps(200, seed=1)
    model = fit_kernel(log, seed=3, steps=60)[0]
    save_log(log, tmp_path / "wm")
    save_kernel(model, tmp_path / "wm")
    loaded = Ensemble.load(tmp_path / "wm")
    assert loaded.members == ()
    for name, value in model.state_dict().items():
        assert value.equal(loaded.kernel.state_dict()[name]), name
    assert same_answers(model, loaded.kernel, log)


def collected(folder: Path) -> list[str]:
    words = ["collect", "echo", "--policy", "random", "--episodes", "16", "--seed", "1", "--out", str(folder), "--json"]
    assert main(words) == 0
    return ["--log", str(folder), "--policy", "random"]


@pytest.mark.usefixtures("_brief")
def test_from_a_log_to_a_value_by_the_command_line(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The candidate is the policy that logged: it has the value that the log has."""
    log, wm, out = tmp_path / "log", tmp_path / "wm", tmp_path / "out"
    words = collected(log)
    assert main(["fit", str(log), *"--members 0 --text-steps 60 --replayed-episodes 4 --out".split(), str(wm)]) == 0
    figures = json.loads((wm / "figures.json").read_text())["figures"]
    assert {"wm_nats", "wm_exact", "wm_replay_error", "wm_replay_error_of_the_bag"} <= figures.keys()
    assert "wm: share of answers that it can give" in capsys.readouterr().out, "figures are printed in words"
    ensemble = Ensemble.load(wm)
    assert ensemble.members == ()
    assert ensemble.kernel_replay_error == figures["wm_replay_error"]
    words += ["--world-model", str(wm), *"--estimators naive wm wm-bag --rollouts 2 --no-refit --out".split(), str(out)]
    assert main(["evaluate", *words]) == 0
    (policy,) = json.loads((out / "evaluation.json").read_text())["policies"]
    logged = sum(episode.episode_return for episode in store.read(log)) / 16
    assert policy["estimates"]["naive"]["value"] == pytest.approx(logged)
    assert policy["estimates"]["wm"]["value"] == pytest.approx(logged, abs=0.15)
    assert 0 < policy["estimates"]["wm-bag"]["value"] < logged, "it forgets how many calls there were, and ends early"
    imagined = list(store.read(out / "imagined"))
    assert imagined
    assert {episode.env for episode in imagined} == {"imagined:echo"}
    capsys.readouterr()

    shard, *_ = store.shards(wm / "log")
    whole = shard.read_bytes()
    with store.StoreWriter(wm / "log") as writer:
        writer.append(next(iter(store.read(log))).model_copy(update={"id": "another"}))
    assert main(["evaluate", *words, "--overwrite"]) == 2
    assert_one_line(capsys, f"{wm / 'log'}: not the episodes that this world model was fitted on: restore")
    for more in store.shards(wm / "log"):
        more.unlink()
    shard.write_bytes(whole)

    kept = (wm / "figures.json").read_text()
    for text, why in [
        ("{", "corrupt: not JSON"),
        ("[]", "corrupt: a JSON object is expected"),
        ("{}", "corrupt: has no 'figures'"),
        ('{"figures": {"wm_replay_error": "x"}}', "corrupt: 'wm_replay_error' is no number"),
    ]:
        (wm / "figures.json").write_text(text)
        assert main(["evaluate", *words, "--overwrite"]) == 2
        assert_one_line(capsys, f"{wm / 'figures.json'}: {why}")
    (wm / "figures.json").write_text(kept)

    weights = wm / KERNEL_FOLDER / "kernel.safetensors"
    written = weights.read_bytes()
    weights.write_bytes(written[:-9] + bytes([written[-9] ^ 64]) + written[-8:])
    assert main(["evaluate", *words, "--overwrite"]) == 2
    assert_one_line(capsys, f"{wm / KERNEL_FOLDER}: not a readable kernel model")
    with monkeypatch.context() as another_version:
        another_version.setattr("worldline.adwm.ensemble.FEATURES", -1)
        weights.write_bytes(written)
        assert main(["evaluate", *words, "--overwrite"]) == 2
        assert_one_line(capsys, f"{wm / KERNEL_FOLDER}: was fitted by another version")
    weights.write_bytes(written[:-100])
    assert main(["evaluate", *words, "--overwrite"]) == 2
    assert_one_line(capsys, f"{wm / KERNEL_FOLDER}: not a readable kernel model")
    weights.write_bytes(b"\x00" * 50)
    assert main(["evaluate", *words, "--overwrite"]) == 2
    assert_one_line(capsys, f"{wm / KERNEL_FOLDER}: not a readable kernel model")


def assert_one_line(capsys: Captured, what: str) -> None:
    captured = capsys.readouterr()
    (line,) = [line for line in captured.err.splitlines() if "worldline evaluate" in line]
    assert what in line
    assert "Traceback" not in captured.err


def test_a_note_of_the_start_is_remembered_to_the_end_of_an_imagined_episode() -> None:
    """Two keys, one walk each, in the same imagined world: only the key of the note opens."""
    model = fit_of_walks()[0]
    world = KernelWorld(model, facts_of(model.log.episodes), starts=[walk("s", c, c, 1) for c in COLOURS])
    for seed in range(4):
        opened = []
        for taken in COLOURS:
            environment = world.make()
            note, _ = environment.reset(seed=seed, task="cellar")
            for action in ("walk on", f"take the {taken} key", "walk on", "walk on"):
                environment.step(action)
            if environment.step("open the gate")[0] == OPENS:
                opened.append(taken)
        assert [f"the {colour} key fits" in note for colour in opened] == [True]
