"""Eq. 11 is one number and one gradient, however its rows are batched, ordered, padded or dealt to processes."""

import json
import os
import random
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
import transformers
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from tiny import random_experience, tiny_lm
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from worldline import store
from worldline.paw.actor import Actor
from worldline.paw.batches import action_starts, micro_batches, pack
from worldline.paw.evaluation import observation_cross_entropy
from worldline.paw.gradient import Experience, UpdateConfig, gradient
from worldline.paw.model import LearnerConfig, frozen_copy, read_packed, wrap
from worldline.paw.recipe import TrainConfig
from worldline.paw.sequences import TokenSequence, token_sequences
from worldline.paw.train import train
from worldline.paw.update import score, update
from worldline.types import InputError

CONFIG = UpdateConfig(kl=0.1, entropy=0.01, mini_batch=0)
KIND, RHO = "cmae", 0.02


def naive(
    experience: Experience, kind: str = KIND, rho: float = RHO, config: UpdateConfig = CONFIG
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The objective row by row, from full logits, with no batching at all."""
    lm = tiny_lm()
    starts = action_starts(experience.rows)
    rows = len(experience.rows)
    high = 1 + (config.clip if config.clip_high is None else config.clip_high)
    total = torch.zeros(())
    for index, row in enumerate(experience.rows):
        tokens = row.prompt + row.response + row.continuation
        logp = torch.log_softmax(lm(torch.tensor([tokens])).logits[0].float(), dim=-1)
        here = slice(starts[index], starts[index + 1])
        first, last = len(row.prompt), len(row.prompt) + len(row.response)
        acting = logp[first - 1 : last - 1]
        chosen = acting.gather(1, torch.tensor(row.response)[:, None])[:, 0]
        a = experience.advantages[here]
        ratio = (chosen - experience.old_logprobs[here]).exp()
        surrogate = torch.minimum(ratio * a, ratio.clamp(1 - config.clip, high) * a)
        surrogate = torch.where(a < 0, torch.maximum(surrogate, 3 * a), surrogate)
        gap = experience.reference_logprobs[here] - chosen
        entropy = -(acting.exp() * acting).sum(dim=1)
        tokens_loss = -surrogate + CONFIG.kl * (gap.exp() - gap - 1).clamp(max=10) - CONFIG.entropy * entropy
        size = {"token": starts[-1], "sequence": rows * len(row.response), "constant": rows * config.constant}
        total = total + tokens_loss.sum() / size[config.aggregation]
        if experience.world_weights[index] > 0:
            p = logp[last - 1 : -1].gather(1, torch.tensor(row.continuation)[:, None])[:, 0].exp()
            each = {"cmae": (1 - p) * (p.detach() <= rho), "mae": 1 - p, "ce": -p.log()}[kind]
            total = total + experience.world_weights[index] * each.mean()
    return total, list(torch.autograd.grad(total, list(lm.parameters())))


def run(
    experience: Experience, config: UpdateConfig = CONFIG, kind: str = KIND, dtype: torch.dtype = torch.float32
) -> tuple[float, list[torch.Tensor]]:
    accelerator = Accelerator(cpu=True)
    learner = accelerator.prepare(wrap(packing_lm(dtype) if config.packing else tiny_lm().to(dtype), LearnerConfig()))
    sums = gradient(learner, experience, list(range(len(experience.rows))), config, accelerator, kind=kind, rho=RHO)
    return sums["loss"], [p.grad.clone() for p in accelerator.unwrap_model(learner).lm.parameters()]


def same(one: tuple[float | torch.Tensor, list[torch.Tensor]], two: tuple[float, list[torch.Tensor]]) -> None:
    assert float(torch.as_tensor(one[0]).detach()) == pytest.approx(float(two[0]), abs=1e-5)
    for left, right in zip(one[1], two[1], strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["cmae", "mae", "ce"])
@pytest.mark.parametrize("budget", [1, 40, 10_000])
def test_any_micro_batch_size_gives_the_naive_loss_and_gradient(budget: int, kind: str) -> None:
    experience = random_experience()
    same(naive(experience, kind), run(experience, CONFIG.model_copy(update={"batch_tokens": budget}), kind))


def packing_lm(dtype: torch.dtype = torch.float32) -> Any:
    lm = tiny_lm().to(dtype)
    read_packed(lm)
    return lm


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("aggregation", ["token", "sequence", "constant"])
@pytest.mark.parametrize("budget", [1, 60, 10_000])
def test_batching_changes_nothing_with_clip_higher_and_any_aggregation(
    budget: int, aggregation: str, packing: bool
) -> None:
    changes = {"batch_tokens": budget, "aggregation": aggregation, "constant": 7, "clip": 0.1, "clip_high": 0.4}
    changes |= {"packing": packing}
    config = CONFIG.model_copy(update=changes)
    experience = random_experience()
    same(naive(experience, config=config), run(experience, config))
    order = random.Random(1).sample(range(len(experience.rows)), len(experience.rows))
    same(naive(experience, config=config), run(permuted(experience, order), config))


@pytest.mark.parametrize("kind", ["cmae", "mae", "ce"])
@pytest.mark.parametrize("clip_high", [None, 0.28])
def test_packed_rows_are_rows_alone_in_float64(kind: str, clip_high: float | None) -> None:
    """GRPO + PaW: budget 1 reads each sequence in a pass of its own."""
    experience = random_experience()
    names = ("advantages", "world_weights", "old_logprobs", "reference_logprobs")
    experience = replace(experience, **{name: getattr(experience, name).double() for name in names})
    config = CONFIG.model_copy(update={"clip_high": clip_high})
    alone = run(experience, config.model_copy(update={"batch_tokens": 1}), kind, torch.float64)
    for budget in (50, 10_000):
        changed = config.model_copy(update={"packing": True, "batch_tokens": budget})
        loss, slopes = run(experience, changed, kind, torch.float64)
        assert loss == pytest.approx(alone[0], abs=1e-6)  # losses are summed in float32
        for left, right in zip(slopes, alone[1], strict=True):
            torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("settings", [{"lora": 2}, {"critic": "own"}, {"gradient_checkpointing": True}])
def test_packed_scores_and_steps_are_those_of_padded_rows(settings: dict[str, Any]) -> None:
    ppo = "critic" in settings
    experience = random_experience(ppo=ppo)
    accelerator = Accelerator(cpu=True)
    results = []
    for packed in (False, True):
        learner = wrap(packing_lm() if packed else tiny_lm(), LearnerConfig(**settings), critic=ppo)
        config = UpdateConfig(mini_batch=6, batch_tokens=60, packing=packed)
        before = score(learner, experience.rows, accelerator, 60, 0.7, packed=packed)
        reference = score(
            frozen_copy(learner, torch.float32), experience.rows, accelerator, 60, 0.7, packed=packed
        ).logprob
        entropy = observation_cross_entropy(learner, experience.rows, accelerator, 60, packed=packed)
        trained = [weight for weight in learner.parameters() if weight.requires_grad]
        log = update(learner, torch.optim.SGD(trained, lr=0.1), experience, config, accelerator)
        results.append((before, reference, entropy, trained, log))
    (one, ref, ce, weights, log), (two, other_ref, other_ce, other_weights, other_log) = results
    for name in ("logprob", "entropy", "value"):
        torch.testing.assert_close(getattr(one, name), getattr(two, name), rtol=0, atol=1e-5)
    torch.testing.assert_close(ref, other_ref, rtol=0, atol=1e-5)
    assert ce == pytest.approx(other_ce, abs=1e-5)
    assert log == pytest.approx(other_log, rel=1e-4, abs=1e-5)
    for left, right in zip(weights, other_weights, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)


def test_models_that_cannot_read_packed_rows_are_refused() -> None:
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "vocab_size": 61}
    window = transformers.MistralConfig(
        **sizes, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32, sliding_window=4
    )
    bloom = transformers.BloomConfig(**sizes, n_head=2)
    for config in (window, bloom):
        with pytest.raises(InputError, match=r"--update\.packing: \w+ForCausalLM has layers other than full attention"):
            read_packed(transformers.AutoModelForCausalLM.from_config(config))


@pytest.mark.parametrize("critic", ["shared", "own"])
def test_actor_and_critic_are_clipped_apart(critic: str) -> None:
    """The step is the sum of two gradients, each scaled to its own norm, taken here one loss at a time."""
    experience = random_experience(ppo=True)
    accelerator = Accelerator(cpu=True)
    config = UpdateConfig(mini_batch=0, max_norm=0.01, critic_max_norm=0.002, kl=0.0)

    def learner() -> Any:
        made = wrap(tiny_lm(), LearnerConfig(critic=critic), critic=True)
        torch.nn.init.constant_(made.critic.head.weight, 0.1)  # so that the value reaches the states below it
        return made

    expected: list[torch.Tensor] = []
    norms = []
    for terms, most in ((("policy", "world"), 0.01), (("value",), 0.002)):
        alone = learner()
        gradient(alone, experience, range(len(experience.rows)), config, accelerator, terms=terms)
        slopes = [torch.zeros_like(p) if p.grad is None else p.grad for p in alone.parameters()]
        norm = torch.cat([slope.flatten() for slope in slopes]).norm()
        norms.append(float(norm))
        assert norm > most
        scaled = [slope * most / norm for slope in slopes]
        expected = [one + other for one, other in zip(expected, scaled, strict=True)] if expected else scaled
    trained = learner()
    before = [p.detach().clone() for p in trained.parameters()]
    log = update(trained, torch.optim.SGD(trained.parameters(), lr=1.0), experience, config, accelerator)
    for start, slope, after in zip(before, expected, trained.parameters(), strict=True):
        torch.testing.assert_close(after.detach(), start - slope, rtol=1e-3, atol=1e-6)
    assert [log["grad_norm"], log["critic_grad_norm"]] == pytest.approx(norms, rel=1e-4)
    assert {"value_loss", "pg_loss", "wm_loss"} <= log.keys()


def permuted(experience: Experience, order: list[int]) -> Experience:
    starts = action_starts(experience.rows)
    places = torch.tensor([i for index in order for i in range(starts[index], starts[index + 1])])
    moved = {name: getattr(experience, name)[places] for name in ("advantages", "old_logprobs", "reference_logprobs")}
    rows = [experience.rows[index] for index in order]
    return replace(experience, rows=rows, world_weights=experience.world_weights[order], **moved)


def test_row_order_does_not_matter() -> None:
    experience = random_experience()
    order = random.Random(1).sample(range(len(experience.rows)), len(experience.rows))
    config = CONFIG.model_copy(update={"batch_tokens": 50})
    same(run(experience, config), run(permuted(experience, order), config))


def test_padding_weighs_nothing() -> None:
    """Each row alone in a batch, padded far beyond its length with a real token of the vocabulary."""
    experience = random_experience()
    rows, starts = experience.rows, action_starts(experience.rows)
    learner = wrap(tiny_lm(), LearnerConfig())
    world = [True] * len(rows)
    for index in range(len(rows)):
        alone = token_sequences(rows, [index], world)
        plain = learner(pack(rows, starts, alone, world), entropy=True)
        longer = TokenSequence(alone[0].tokens + (7,) * 30, alone[0].members)
        padded = learner(pack(rows, starts, [longer, TokenSequence((3,) * 60, ())], world), entropy=True)
        for name, value in plain.items():
            torch.testing.assert_close(value, padded[name], rtol=0, atol=1e-5)


def test_action_logits_are_the_same_with_and_without_observations() -> None:
    experience = random_experience()
    rows, starts = experience.rows, action_starts(experience.rows)
    learner = wrap(tiny_lm(), LearnerConfig())

    def scores(world: list[bool] | None) -> tuple[torch.Tensor, torch.Tensor]:
        table = torch.zeros(2, starts[-1])
        for chosen in micro_batches(token_sequences(rows, range(len(rows)), world), 64):
            batch = pack(rows, starts, chosen, world)
            out = learner(batch, entropy=True)
            table[0, batch.action_index], table[1, batch.action_index] = (
                out["logprob"].detach(),
                out["entropy"].detach(),
            )
        return table

    torch.testing.assert_close(scores(None), scores([True] * len(rows)), rtol=0, atol=1e-5)


def test_mini_batches_average_to_the_whole_update() -> None:
    """The world-model term of every mini-batch estimates eq. 11's, and their row-weighted mean is exactly it."""
    experience = random_experience(12)
    accelerator = Accelerator(cpu=True)
    learner = wrap(tiny_lm(), LearnerConfig())
    experience = replace(experience, advantages=torch.zeros_like(experience.advantages), reference_logprobs=None)
    config = UpdateConfig(kl=0.0)
    whole = gradient(learner, experience, range(12), config, accelerator)["loss"]
    parts = [
        gradient(learner, experience, chosen, config, accelerator)["loss"] * len(chosen) / 12
        for chosen in ([0, 1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11])
    ]
    assert whole > 0
    assert sum(parts) == pytest.approx(whole, abs=1e-6)


def test_score_reads_every_response_token_once_and_a_frozen_copy_agrees() -> None:
    experience = random_experience()
    accelerator = Accelerator(cpu=True)
    learner = wrap(tiny_lm(), LearnerConfig())
    scores = score(learner, experience.rows, accelerator, batch_tokens=50, temperature=1.0)
    starts = action_starts(experience.rows)
    for index, row in enumerate(experience.rows):
        logits = tiny_lm()(torch.tensor([row.prompt + row.response])).logits[0, len(row.prompt) - 1 : -1]
        logp = torch.log_softmax(logits.float(), dim=-1)
        here = slice(starts[index], starts[index + 1])
        torch.testing.assert_close(
            scores.logprob[here], logp[range(len(row.response)), row.response].detach(), rtol=0, atol=1e-5
        )
        torch.testing.assert_close(scores.entropy[here], -(logp.exp() * logp).sum(1).detach(), rtol=0, atol=1e-5)
    copy = score(frozen_copy(learner, torch.float32), experience.rows, accelerator, batch_tokens=500, temperature=1.0)
    torch.testing.assert_close(copy.logprob, scores.logprob, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "settings", [{"lora": 2}, {"critic": "shared"}, {"critic": "own"}, {"gradient_checkpointing": True}]
)
def test_adapters_critics_and_checkpointing_learn(settings: dict[str, object]) -> None:
    ppo = "critic" in settings
    experience = random_experience(ppo=ppo)
    accelerator = Accelerator(cpu=True)
    learner = wrap(tiny_lm(), LearnerConfig(**settings), critic=ppo)
    before = {name: p.detach().clone() for name, p in learner.named_parameters()}
    optimizer = torch.optim.AdamW([p for p in learner.parameters() if p.requires_grad], lr=1e-3)
    config = UpdateConfig(mini_batch=6, batch_tokens=60)
    log = update(learner, optimizer, experience, config, accelerator)
    assert log["steps"] == 2
    assert ("value_loss" in log) == ppo
    changed = {name for name, p in learner.named_parameters() if not torch.equal(p, before[name])}
    if "lora" in settings:
        assert changed
        assert all("lora_" in name for name in changed)
    else:
        assert changed == set(before)


def test_a_step_that_is_not_finite_is_not_taken() -> None:
    experience = random_experience()
    experience.advantages[3] = float("nan")
    accelerator = Accelerator(cpu=True)
    learner = wrap(tiny_lm(), LearnerConfig())
    before = [p.detach().clone() for p in learner.parameters()]
    optimizer = torch.optim.AdamW(learner.parameters(), lr=1e-2)
    log = update(learner, optimizer, experience, CONFIG, accelerator)
    assert (log["steps"], log["skipped"]) == (0, 1)
    assert all(torch.equal(p, q) for p, q in zip(before, learner.parameters(), strict=True))


def _process(rank: int, port: int, folder: str, start: str) -> None:
    AcceleratorState._reset_state(reset_partial_state=True)  # that of the process which this is a fork of
    torch.set_num_threads(1)
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    learner = accelerator.prepare(wrap(tiny_lm(), LearnerConfig()))
    experience = random_experience()
    sums = gradient(learner, experience, list(range(len(experience.rows))), SPLIT, accelerator, kind=KIND, rho=RHO)
    scores = score(learner, experience.rows, accelerator, batch_tokens=60, temperature=1.0)
    grads = [p.grad for p in accelerator.unwrap_model(learner).lm.parameters()]
    torch.save((sums["loss"], grads, scores.logprob), Path(folder) / f"{rank}.pt")
    train(short_run(start, Path(folder) / "two"))
    _sharded(accelerator, Path(folder) / f"sharded{rank}.pt")
    torch.distributed.destroy_process_group()


def _sharded(accelerator: Accelerator, file: Path) -> None:
    """The same with every weight cut in two (FSDP2) and packed rows, and the actor that gathers the weights."""
    learner = wrap(packing_lm(), LearnerConfig())
    actor = Actor(learner, torch.float32, sharded=True)
    mesh = init_device_mesh("cpu", (2,))
    for layer in learner.plain.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(learner, mesh=mesh)
    experience = random_experience()
    config = SPLIT.model_copy(update={"packing": True})
    sums = gradient(learner, experience, list(range(len(experience.rows))), config, accelerator, kind=KIND, rho=RHO)
    grads = [p.grad.full_tensor() for p in learner.lm.parameters()]
    torch.optim.SGD(learner.parameters(), lr=0.1).step()
    actor.refresh()
    torch.save((sums["loss"], grads, list(actor.model.parameters())), file)


SPLIT = CONFIG.model_copy(update={"batch_tokens": 60})


def short_run(start: str, out: Path) -> TrainConfig:
    """Uneven shares: seven episodes, micro-batches of a few sequences."""
    settings = {
        "env": "counting:CountingWorld",
        "model": start,
        "out": out,
        "updates": 2,
        "groups": 1,
        "group_size": 7,
        "rollout": {"max_new_tokens": 4, "device": "cpu"},
        "evaluation": {"every": 2, "episodes": 5},
        "update": {"lr": 1e-3, "mini_batch": 16, "batch_tokens": 50},
    }
    return TrainConfig.model_validate(settings)


def test_two_processes_are_one(tmp_path: Path, start: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.start_processes(_process, (port, str(tmp_path), str(start)), nprocs=2, start_method="fork")
    experience = random_experience()
    alone = run(experience, SPLIT)
    expected = score(wrap(tiny_lm(), LearnerConfig()), experience.rows, Accelerator(cpu=True), 1000, 1.0)
    for rank in range(2):
        loss, grads, logprob = torch.load(tmp_path / f"{rank}.pt")
        same(alone, (loss, grads))
        torch.testing.assert_close(logprob, expected.logprob, rtol=0, atol=1e-5)
        loss, grads, weights = torch.load(tmp_path / f"sharded{rank}.pt")
        same(alone, (loss, grads))
        for before, slope, after in zip(tiny_lm().parameters(), alone[1], weights, strict=True):
            torch.testing.assert_close(after.detach(), before.detach() - 0.1 * slope, rtol=1e-4, atol=1e-5)

    train(short_run(str(start), tmp_path / "one"))
    one, two = ((tmp_path / name / "metrics.jsonl").read_text().splitlines() for name in ("one", "two"))
    assert len(one) == len(two) == 3
    for left, right in zip(map(json.loads, one), map(json.loads, two), strict=True):
        assert left.keys() == right.keys()
        for key in left:
            if not key.startswith(("seconds", "peak")):
                assert left[key] == pytest.approx(right[key], rel=1e-4, abs=1e-5), key
    assert sorted(e.id for e in store.read(tmp_path / "one")) == sorted(e.id for e in store.read(tmp_path / "two"))
