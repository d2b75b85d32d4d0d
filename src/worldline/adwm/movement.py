"""One step of a batch of imagined episodes (ADWM algorithm 2): act, sample, decode, read back, judge, list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

from worldline.adwm.diffusion import annealed, guided, sample
from worldline.adwm.ensemble import BOUND, Member
from worldline.adwm.episodes import encoded
from worldline.adwm.lore import Lore
from worldline.adwm.model import Outcome
from worldline.adwm.narrator import Answer, Question
from worldline.adwm.networks import current
from worldline.adwm.reading import texts
from worldline.adwm.rivals import Rivals
from worldline.types import WorldlineError

if TYPE_CHECKING:
    from worldline.adwm.imagine import ImaginedEnvironment, ImaginedWorld

Batch: TypeAlias = "Sequence[ImaginedEnvironment]"


def move(member: Member, batch: Batch, world: ImaginedWorld) -> None:
    """Answer the pending action of every episode in `batch`."""
    model, lore, manner = member.model, member.narrator.lore, world.manner
    begin(member, [environment for environment in batch if environment.state is None])
    actions = [environment.action or "" for environment in batch]
    done = [environment.reader.action(action) for environment, action in zip(batch, actions, strict=True)]
    action = encoded(model.encode_action, done, model.device)
    z = sampled(member, batch, action, world)
    answers = _answers(member, batch, actions, action, z, world)
    proof = [
        lore.evidence.ids(e.chronicle, act, a.text) if model.architecture.text else []
        for e, act, a in zip(batch, actions, answers, strict=True)
    ]
    seen = [environment.reader.observation(answer.text) for environment, answer in zip(batch, answers, strict=True)]
    after = encoded(model.encode_observation, seen, model.device) if manner.reread else z
    _remember(member, batch, after, action)
    told = model.outcome(after, _histories(batch), _padded(proof).to(model.device))
    told = member.heads.read(told) if manner.heads == "calibrated" else Outcome(*(torch.sigmoid(x) for x in told))
    if manner.decode == "copy":
        told = _copied(told, answers, world)
    elif manner.decode == "learned":
        possible = [_may_end(e, act, a, lore) for e, act, a in zip(batch, actions, answers, strict=True)]
        told = told._replace(hazard=told.hazard * torch.tensor(possible, device=model.device))
    for index, (environment, answer) in enumerate(zip(batch, answers, strict=True)):
        environment.latent, environment.seen = z[index], after[index]
        environment.told = Outcome(*(part[index] for part in told))
        world.support.add(answer)
        _settle(environment, answer, world)
    _offer(member, [(e, a) for e, a in zip(batch, answers, strict=True) if not e.over])


def begin(member: Member, batch: Batch) -> None:
    """Read the first observation and the goal of new episodes."""
    if not batch:
        return
    model = member.model
    goals = model.encode_goal(texts([environment.reader.goal() for environment in batch], model.device))
    for index, environment in enumerate(batch):
        environment.goal = None if goals is None else goals[index]
    seen = [environment.reader.observation(environment.chronicle.observation) for environment in batch]
    _remember(member, batch, encoded(model.encode_observation, seen, model.device), model.null_action(len(batch)))


def _remember(member: Member, batch: Batch, z: Tensor, action: Tensor) -> None:
    """Move the histories on by an action and what was seen after it."""
    goals = [environment.goal for environment in batch if environment.goal is not None]
    tokens = member.model.step_tokens(z, action, torch.stack(goals) if goals else None)
    states = member.model.advance(tokens, [environment.state for environment in batch]).split()
    for environment, state in zip(batch, states, strict=True):
        environment.state = state


def _histories(batch: Batch) -> Tensor:
    return current([environment.state for environment in batch if environment.state is not None])


def sampled(member: Member, batch: Batch, action: Tensor, world: ImaginedWorld) -> Tensor:
    """z_{t+1} for every episode, the noise keyed by what was done and how often it had been."""
    model, how = member.model, world.manner
    h = _histories(batch)
    draws = 1 if how.dynamics == "diffusion" and not how.eta else 1 + how.steps  # DDIM draws its start alone
    drawn = [
        environment.noise(
            "latent",
            act := environment.action or "",
            len(environment.chronicle.answers(act)),
            shape=(draws, model.architecture.latent),
        )
        for environment in batch
    ]
    noise = torch.stack(drawn, 1).to(model.device)
    if how.dynamics != "diffusion":
        if member.rivals is None:
            raise WorldlineError(f"{how.dynamics} was not fitted with this world model: fit it with --rivals")
        if how.dynamics == "wm-knn":
            return member.rivals.knn.answers[_neighbours(member.rivals, member, batch, action)]
        return member.rivals.drawn()[how.dynamics].next(h, action, noise)
    log_policy = world.guide(batch) if world.guide is not None and how.alpha else None
    predict = guided(
        model.conditional(h, action),
        model.conditional(h, model.null_action(len(batch))),
        model.abar,
        w=how.w,
        alpha=annealed(how.alpha, model.abar) if log_policy is not None else None,
        log_policy=log_policy,
        clip=how.clip,
    )
    injected = noise[1:] if how.eta > 0 else None
    return sample(predict, noise[0], model.abar, steps=how.steps, eta=how.eta, noise=injected, bound=BOUND)


def _answers(
    member: Member, batch: Batch, actions: Sequence[str], action: Tensor, z: Tensor, world: ImaginedWorld
) -> list[Answer]:
    """What the world says, by the manner's way of decoding."""
    narrator, decode = member.narrator, world.manner.decode
    if decode == "copy" and member.rivals is not None:
        found = _neighbours(member.rivals, member, batch, action)
        return [narrator.copied(int(index)) for index in found]
    if decode == "nearest":
        return narrator.nearest([environment.chronicle for environment in batch], actions, z.cpu())
    listed = narrator.listed([e.situation for e in batch], [e.allowed for e in batch], actions)
    questions = [
        Question(e.chronicle, act, offered, e.uniform("answer", act, len(e.chronicle.answers(act))))
        for e, act, offered in zip(batch, actions, listed, strict=True)
    ]
    return narrator.answers(questions, z)


def _neighbours(rivals: Rivals, member: Member, batch: Batch, action: Tensor) -> Tensor:
    """The most similar logged step for each episode; one that replays a logged episode is not answered by itself."""
    episodes = torch.from_numpy(member.narrator.lore.memory.episodes)
    own = torch.tensor([[environment.chronicle.episode] for environment in batch]) == episodes
    return rivals.knn.nearest(_histories(batch), action, own.to(action.device))


def _copied(told: Outcome, answers: Sequence[Answer], world: ImaginedWorld) -> Outcome:
    """The neighbour's own end and reward in the place of the heads'."""
    facts = world.ensemble.members[0].model.facts
    sources = [answer.candidate.source for answer in answers if answer.candidate is not None]
    ended = torch.tensor([float(source.ended) for source in sources if source is not None])
    reward = torch.tensor([source.reward for source in sources if source is not None])
    share = (reward - facts.reward_low) / (facts.reward_high - facts.reward_low)
    won = (share > 0).float() * ended
    return Outcome(ended, share, share, won) if len(ended) == len(answers) else told


def _may_end(environment: ImaginedEnvironment, action: str, answer: Answer, lore: Lore) -> bool:
    """Whether the log allows for an end here. What a goal takes is drawn once for each imagined world."""
    if answer.refused:
        return False
    missing = lore.ways.lacking(environment.chronicle, action)
    return not missing or environment.uniform("way", *sorted(missing)) < lore.ways.chance


def _settle(environment: ImaginedEnvironment, answer: Answer, world: ImaginedWorld) -> None:
    """Draw whether the episode is over, and what the step earned."""
    told, facts = environment.told, world.ensemble.members[0].model.facts
    assert told is not None
    if answer.refused:
        environment.settle(answer, 0.0, False, False)
        return
    act, step = environment.action or "", len(environment.chronicle.actions)
    last = step + 1 >= world.max_steps
    if world.manner.heads == "paper":
        ended = told.hazard.item() > 0.5
        share = told.reward_at_end.item() if ended or last else 0.0
    else:
        ended = environment.uniform("end", act, step) < told.hazard.item()
        share = (told.reward_at_end if ended else told.reward_on_way).item()
    won = ended and environment.uniform("won", act, step) < told.success.item()
    earns = facts.dense or ended or world.manner.heads == "paper"
    reward = facts.reward_low + share * (facts.reward_high - facts.reward_low) if earns else 0.0
    environment.settle(answer, reward, ended, won)


def _offer(member: Member, going: Sequence[tuple[ImaginedEnvironment, Answer]]) -> None:
    """What each episode that goes on allows next."""
    if not member.narrator.lore.lists or not going:
        return
    for environment, answer in going:
        environment.situation = member.narrator.lore.situation(
            environment.chronicle, answer.candidate, environment.allowed, environment.first
        )
    situations = [environment.situation for environment, _ in going if environment.situation is not None]
    for (environment, _), allowed in zip(going, member.narrator.allowed(situations), strict=True):
        environment.offer(allowed)


def _padded(rows: Sequence[Sequence[int]]) -> Tensor:
    out = torch.zeros(len(rows), max(map(len, rows), default=0), dtype=torch.long)
    for row, ids in zip(out, rows, strict=True):
        row[: len(ids)] = torch.tensor(ids, dtype=torch.long)
    return out
