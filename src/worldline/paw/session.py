"""What a training run holds in its hands: the world, the models, the policies that play."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from accelerate.utils import gather_object

from worldline import envs
from worldline.paw import model, noise, processes, quantization
from worldline.paw.actor import Actor
from worldline.paw.evaluation import evaluation_plan, observation_cross_entropy, outcomes
from worldline.paw.groups import Groups, Refilled, plan_groups, plan_more_groups, play, refilled
from worldline.paw.learning_rate import RateDefaults, rate_defaults
from worldline.paw.recipe import TrainConfig
from worldline.paw.rewards import Penalised, penalised, rule
from worldline.paw.rows import StepRow, to_rows
from worldline.paw.server import PatientPolicy, RolloutServer
from worldline.paw.update import TokenScores, score
from worldline.policies.language_model.hf import HFPolicy, from_model
from worldline.policies.language_model.in_place import InPlaceSampler
from worldline.rollout import Episode, Rollout
from worldline.types import InputError, Trajectory

Playing = Callable[[str, int, int, int | None], None]
"""Hears of every episode that ends: of which rollout, how many have ended, of how many, how many of them were won.

The last is None while the environment says of none whether it was."""


class Session:
    """Everything that lives as long as the run does."""

    def __init__(self, config: TrainConfig, playing: Playing = lambda what, ended, planned, won: None) -> None:
        if config.rollout.mode != "generate":
            raise InputError("--rollout.mode: training needs the policy's own tokens; only 'generate' gives them")
        if config.algo != "ppo" and config.group_size < 2:
            raise InputError(f"--group-size: {config.algo} compares the episodes of a group: give at least 2")
        if config.algo == "ppo" and config.refill:
            raise InputError("--refill: PPO plays one episode of each task, so no group has a spread: leave it at 0")
        self.config = config
        self._playing = playing
        self.accelerator = processes.join(config.rollout.device, bf16=config.precision == "bf16")
        self.world = envs.load(config.env, config.data, config.options)
        self.split = _split(self.world.splits(), config.split, "--split", default=0)
        self.rule = rule(self.world.family, self.world.max_return, config.credit.invalid)
        sharded = processes.is_sharded(self.accelerator)
        _check_savings(config, sharded=sharded)
        compute = torch.bfloat16 if config.precision == "bf16" else torch.float32
        quantized = quantization.four_bit(self.accelerator.device, compute) if config.learner.quantize else {}
        lm, self.tokenizer = model.load(config.model, **quantized)
        if config.update.packing:
            model.read_packed(lm)
        learner = model.wrap(lm, config.learner, critic=config.algo == "ppo", seed=config.seed)
        self.reference = self._reference(learner)
        self.actor = Actor(learner, getattr(torch, config.rollout.dtype), sharded=sharded).to(self.accelerator.device)
        if sharded and config.server.url:
            raise InputError("--server.url: weights of a sharded learner cannot be sent: use one process or DDP")
        self.server: RolloutServer | None = None
        if config.server.url:
            parts = config.server, learner, config.out, config.rollout, config.model, self.accelerator
            self.server = RolloutServer(*parts)
        self._sampler: InPlaceSampler | None = None  # what one rollout has recorded serves the next
        self.version = 0
        defaults = rate_defaults(lm.num_parameters(), lora=bool(config.learner.lora))
        optimizer = _optimizer(learner, config, defaults)
        self.rates = tuple(group["lr"] for group in optimizer.param_groups)
        """The full learning rate of each of the optimizer's groups."""
        self.warmup = defaults.warmup if config.update.warmup is None else config.update.warmup
        self.learner, self.optimizer = self.accelerator.prepare(learner, optimizer)
        self.encode = noise.encoder(self.tokenizer, self.world.family, config.world.skip, novel=config.world.novel)
        self.context = getattr(learner.plain.config.get_text_config(), "max_position_embeddings", None)

    def refresh(self, update: int) -> None:
        """The weights after `update` play from now on. Every rank must call this."""
        self.actor.refresh()
        self.version = update
        if self.server is not None:
            self.server.refresh(update, self.accelerator)
            self.version = self.server.version

    def rollout(self, name: str) -> Rollout:
        """The current policy at work on training tasks."""
        return self._player(self.config.rollout.temperature, name)

    def play_groups(self, update: int) -> Refilled:
        """The groups of an update, played by the current policy; with --refill, those without variance replaced."""
        groups, size = self.config.shape
        split, seed, name = self.split, self.config.seed, f"update-{self.version:06d}"

        def played(episodes: list[Episode], first: int) -> Groups:
            return play(
                self.rollout(name),
                episodes,
                size,
                self.accelerator,
                first=first,
                watch=lambda ending, planned: self._watched(f"update {update}", ending, planned),
            )

        def more(first: int, count: int) -> Groups:
            return played(plan_more_groups(self.world, split, update, first, count, size, seed), first)

        start = played(plan_groups(self.world, split, update, groups, size, seed), 0)
        taken = Refilled(start, start, 0)
        if self.config.refill:
            taken = refilled(start, more, lambda t: sum(self.rule.rewards(t)), groups, self.config.refill)
        self._forget_prompts()
        return taken

    @property
    def pays(self) -> Penalised:
        """Which steps of the last rollout pay the invalid-action penalty."""
        return penalised(self.config.credit.penalty, self._policy.encoder.template, self.world.family)

    def rows(self, trajectories: Sequence[Trajectory]) -> list[StepRow]:
        world = self.config.world
        return to_rows(
            trajectories,
            self.encode,
            horizon=world.horizon,
            max_continuation=world.max_tokens,
            max_length=self.context,
            last_answer=self.world.family != "shop",
        )

    def score(self, rows: Sequence[StepRow]) -> TokenScores:
        """The present policy's view of the rows."""
        return score(
            self.learner,
            rows,
            self.accelerator,
            self.config.update.batch_tokens,
            self.config.rollout.temperature,
            packed=self.config.update.packing,
        )

    def reference_logprobs(self, rows: Sequence[StepRow]) -> torch.Tensor | None:
        """The starting policy's view of the rows: a frozen copy's, or the learner's own without its adapters."""
        if not self.config.update.kl:
            return None
        apart = self.accelerator.unwrap_model(self.learner).lm.disable_adapter() if self.config.learner.lora else None
        with apart or nullcontext(), self.accelerator.autocast():
            return score(
                self.reference or self.learner,
                rows,
                self.accelerator,
                self.config.update.batch_tokens,
                self.config.rollout.temperature,
                packed=self.config.update.packing,
            ).logprob

    def play_held_out(self, most: int | None = None) -> list[Trajectory]:
        """The current policy's episodes of the evaluation's tasks, in planned order; at most the first `most`."""
        wanted = self.config.evaluation
        split = _split(self.world.splits(), wanted.split, "--evaluation.split", default=1)
        episodes = evaluation_plan(self.world, split, wanted, self.config.seed)[:most]
        share = episodes[self.accelerator.process_index :: self.accelerator.num_processes]
        player = self._player(wanted.temperature, "evaluation")
        played = gather_object(list(self._watched("evaluation", player.play(share), len(share))))
        self._forget_prompts()
        return sorted(played, key=lambda trajectory: trajectory.id)

    def evaluation(self, played: Sequence[Trajectory], start: Sequence[Trajectory]) -> dict[str, Any]:
        """What an evaluation's episodes came to, if any, and how well the present model predicts the `start`'s."""
        metrics = outcomes(played, self.rule, self.config.evaluation.repeats) if played else {}
        rows = to_rows(
            start,
            noise.encoder(self.tokenizer, self.world.family),
            max_continuation=self.config.world.max_tokens,
            max_length=self.context,
            last_answer=self.world.family != "shop",
        )
        if any(row.targets for row in rows):
            metrics["eval_observation_ce"] = observation_cross_entropy(
                self.learner,
                rows,
                self.accelerator,
                self.config.update.batch_tokens,
                packed=self.config.update.packing,
            )
        return metrics

    def _watched(self, what: str, ending: Iterator[Trajectory], planned: int) -> Iterator[Trajectory]:
        won: int | None = None
        for ended, trajectory in enumerate(ending, start=1):
            won = won if trajectory.success is None else (won or 0) + trajectory.success
            self._playing(what, ended, planned, won)
            yield trajectory

    def shortened(self) -> int:
        """How many prompts of the last rollout had to leave something out, on all ranks."""
        counts = self._policy.counts
        return sum(gather_object([counts.dropped_history + counts.cut_observation]))

    def _player(self, temperature: float, name: str) -> Rollout:
        settings = self.config.rollout.model_copy(update={"temperature": temperature, "keep_prompts": True})
        self._policy: HFPolicy | PatientPolicy
        if self.server is not None:
            self._policy = self.server.policy(self.tokenizer, settings, name)
        else:
            self._policy = from_model(self.actor.model, self.tokenizer, settings, name, self._sampler)
            self._sampler = self._policy.sampler
        return Rollout(
            self.world,
            self._policy,
            batch_size=self.config.batch_size,
            policy_name=name,
            max_steps=self.config.max_steps,
        )

    def _forget_prompts(self) -> None:
        """The next rollout has other prompts or other weights, and the update needs the memory."""
        if isinstance(self._policy, HFPolicy):
            self._policy.forget()

    def _reference(self, learner: model.Learner) -> Any:
        """A frozen copy of the start, where there is a divergence to measure and no adapter to switch off."""
        if not self.config.update.kl or self.config.learner.lora:
            return None
        dtype = torch.bfloat16 if self.config.precision == "bf16" else torch.float32
        return processes.placed(model.frozen_copy(learner, dtype), self.accelerator)


def _optimizer(learner: model.Learner, config: TrainConfig, defaults: RateDefaults) -> torch.optim.Optimizer:
    lr, critic_lr = config.update.lr or defaults.lr, config.update.critic_lr or defaults.critic_lr
    critic = {id(weight) for weight in learner.critic.parameters()} if learner.critic is not None else set()
    trained = [weight for weight in learner.parameters() if weight.requires_grad]
    groups = [
        {"params": [weight for weight in trained if id(weight) not in critic], "lr": lr},
        {"params": [weight for weight in trained if id(weight) in critic], "lr": critic_lr},
    ]
    groups = [group for group in groups if group["params"]]
    if config.learner.optimizer == "adamw8bit":
        return quantization.adamw8bit(groups, config.update.weight_decay)
    return torch.optim.AdamW(groups, weight_decay=config.update.weight_decay)


def _check_savings(config: TrainConfig, *, sharded: bool) -> None:
    """InputError for what bitsandbytes cannot do here."""
    learner = config.learner
    wanted = {"--learner.quantize 4bit": bool(learner.quantize)}
    wanted |= {"--learner.optimizer adamw8bit": learner.optimizer == "adamw8bit"}
    for flag in (flag for flag, given in wanted.items() if given):
        quantization.check(flag)
        if sharded:
            raise InputError(f"{flag}: not with FSDP, which cannot cut what bitsandbytes keeps: use one process or DDP")
    if learner.quantize and not learner.lora:
        raise InputError("--learner.quantize 4bit: needs --learner.lora RANK: quantised weights cannot be trained")
    if learner.quantize and config.algo == "ppo" and learner.critic == "own":
        raise InputError("--learner.quantize 4bit: a critic on its own copy cannot be trained: --learner.critic shared")


def _split(splits: Sequence[str], wanted: str, flag: str, default: int) -> str:
    if wanted and wanted not in splits:
        raise InputError(f"{flag}: there is no split '{wanted}': there are {', '.join(splits)}")
    return wanted or splits[min(default, len(splits) - 1)]
