"""Fitted Q evaluation with a network (Le et al. 2019; ADWM appendix F.4). The only module of `ope` that needs torch.

One network per target, and per epsilon: the backup itself averages over the epsilon-mixed policy's probabilities of all
admissible actions, not over its likeliest action only. An episode's end is worth 0. `worldline.ope.values.linear_fqe`
is the same backup in closed form.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from worldline.ope.estimators import Value
from worldline.ope.features import Features
from worldline.ope.log import Choices, RaggedLog


class QNetwork(nn.Module):
    """Two hidden layers of SiLU units over [state, action]; the first is split, so that a state is embedded once."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.state = nn.Linear(width, hidden)
        self.action = nn.Linear(width, hidden, bias=False)
        self.rest = nn.Sequential(nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, states: Tensor, actions: Tensor, table: Tensor, rows: Tensor) -> Tensor:
        """Q of `states[rows[i]]` with the action of code `actions[i]`."""
        embedded = self.action(table)[actions] if len(table) < len(actions) else self.action(table[actions])
        value: Tensor = self.rest(self.state(states)[rows] + embedded).squeeze(-1)
        return value


@dataclass(frozen=True)
class FQEConfig:
    """The paper's settings; `gamma` is the evaluation's own."""

    hidden: int = 256
    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 1e-3
    polyak: float = 0.005
    """Raised on logs too small for it: see `_polyak`."""
    seed: int = 0


def fit(log: RaggedLog, gamma: float, features: Features, choices: Choices, config: FQEConfig | None = None) -> Value:
    """Q and V of the policy whose probabilities `choices` holds, read at every logged step."""
    config = config or FQEConfig()
    generator = torch.Generator().manual_seed(config.seed)
    data = _Data(log, features, choices)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        online = QNetwork(features.states.shape[1], config.hidden)
    target = copy.deepcopy(online).requires_grad_(False)
    polyak = _polyak(config, log)
    optimiser = torch.optim.Adam(online.parameters(), lr=config.learning_rate)
    for _ in range(config.epochs):
        for batch in torch.split(torch.randperm(log.steps, generator=generator), config.batch_size):
            with torch.no_grad():
                after = data.expected(target, batch[data.goes_on[batch]] + 1)
            y = data.rewards[batch].index_put(
                (data.goes_on[batch].nonzero().squeeze(-1),), gamma * after, accumulate=True
            )
            loss = nn.functional.mse_loss(data.taken(online, batch), y)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
            optimiser.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                    slow.lerp_(fast, polyak)
    return data.read(online)


def _polyak(config: FQEConfig, log: RaggedLog) -> float:
    """The target network must move once per step of the horizon or the reward never reaches the start.

    With the paper's 0.005 that takes some 200 updates a step: on 6,000 steps of 12-step episodes the 20 epochs are over
    before it is done, and a policy worth 1.0 comes out at 0.7.
    """
    updates = config.epochs * -(-log.steps // config.batch_size)
    return min(1.0, max(config.polyak, 5 * log.horizon / updates))


class _Data:
    """The log as tensors, and the two ways of reading a network at its steps."""

    def __init__(self, log: RaggedLog, features: Features, choices: Choices) -> None:
        self.rewards = torch.tensor(log.rewards, dtype=torch.float32)
        self.goes_on = torch.ones(log.steps, dtype=torch.bool)
        self.goes_on[torch.from_numpy(log.ends)] = False
        self.states = torch.tensor(features.states, dtype=torch.float32)
        self.table = torch.tensor(features.table, dtype=torch.float32)
        self.logged = torch.from_numpy(features.logged)
        self.probabilities = torch.tensor(np.exp(choices.logprobs), dtype=torch.float32)
        self.actions = torch.from_numpy(choices.actions)
        self.offsets = torch.from_numpy(choices.offsets)

    def taken(self, network: QNetwork, steps: Tensor) -> Tensor:
        """Q(h_t, a_t)."""
        q: Tensor = network(self.states[steps], self.logged[steps], self.table, torch.arange(len(steps)))
        return q

    def expected(self, network: QNetwork, steps: Tensor) -> Tensor:
        """V(h_t) = sum_a pi(a|h_t) Q(h_t, a)."""
        counts = self.offsets[steps + 1] - self.offsets[steps]
        rows = torch.repeat_interleave(torch.arange(len(steps)), counts)
        first = torch.cumsum(counts, 0) - counts
        choice = torch.arange(len(rows)) + (self.offsets[steps] - first)[rows]
        q = network(self.states[steps], self.actions[choice], self.table, rows)
        return torch.zeros(len(steps)).index_add(0, rows, self.probabilities[choice] * q)

    @torch.no_grad()
    def read(self, network: QNetwork, chunk: int = 1024) -> Value:
        parts = torch.split(torch.arange(len(self.rewards)), chunk)
        q = torch.cat([self.taken(network, part) for part in parts])
        v = torch.cat([self.expected(network, part) for part in parts])
        return Value(q.double().numpy(), v.double().numpy())
