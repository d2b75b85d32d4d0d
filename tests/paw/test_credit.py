"""Every estimator against a reference written with loops and the statistics module, on ragged random updates."""

import statistics
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from worldline.paw import credit

F = torch.float64


@dataclass
class Update:
    """Rows of a random update, in a random order that keeps each trajectory's own time order."""

    returns: list[float]
    penalties: list[float]
    rewards: list[float]
    groups: list[int]
    trajectories: list[int]
    anchors: list[int]

    def args(self, *names: str) -> list[torch.Tensor]:
        return [
            torch.tensor(getattr(self, name), dtype=F if name in ("returns", "penalties", "rewards") else torch.long)
            for name in names
        ]


@st.composite
def updates(draw: st.DrawFn) -> Update:
    rng = draw(st.randoms(use_true_random=False))
    rows: list[tuple[int, int, float, float, float, int]] = []
    pending: list[list[tuple[int, int, float, float, float, int]]] = []
    trajectory = 0
    for group in range(draw(st.integers(1, 4))):
        label = rng.randrange(1000) * 10 + group  # labels need be neither dense nor sorted
        for _ in range(draw(st.integers(1, 4))):
            rewards = [rng.choice([0.0, 0.0, 0.5]) for _ in range(draw(st.integers(1, 5)))]
            rewards[-1] += rng.choice([0.0, 10.0])
            total = sum(rewards)
            pending.append(
                [
                    (label, 50 - trajectory, total, rng.choice([0.0, -0.1]), r, label * 10 + rng.randrange(3))
                    for r in rewards
                ]
            )
            trajectory += 1
    while pending:
        rows.append(rng.choice(pending).pop(0))
        pending = [p for p in pending if p]
    groups, trajectories, returns, penalties, rewards_, anchors = (list(column) for column in zip(*rows, strict=True))
    return Update(returns, penalties, rewards_, groups, trajectories, anchors)


def relative(scores: list[float], labels: list[int], norm: str) -> list[float]:
    out = []
    for score, label in zip(scores, labels, strict=True):
        peers = [s for s, other in zip(scores, labels, strict=True) if other == label]
        if len(peers) == 1:
            out.append(0.0)
        elif norm == "mean":
            out.append(score - statistics.fmean(peers))
        else:
            out.append((score - statistics.fmean(peers)) / (statistics.stdev(peers) + 1e-6))
    return out


def group_relative(update: Update, preset: str, norm: str) -> list[float]:
    if preset == "verl_agent":
        scores = [r + p for r, p in zip(update.returns, update.penalties, strict=True)]
        return relative(scores, update.groups, norm)
    of = {t: (r, g) for t, r, g in zip(update.trajectories, update.returns, update.groups, strict=True)}
    advantages = dict(zip(of, relative([r for r, _ in of.values()], [g for _, g in of.values()], norm), strict=True))
    return [advantages[t] + p for t, p in zip(update.trajectories, update.penalties, strict=True)]


def close(actual: torch.Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=F), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("preset", ["textbook", "verl_agent"])
@pytest.mark.parametrize("norm", ["mean_std", "mean"])
@given(update=updates())
@settings(max_examples=25, deadline=None)
def test_grpo(update: Update, preset: str, norm: str) -> None:
    actual = credit.grpo(*update.args("returns", "penalties", "groups", "trajectories"), preset, norm)
    close(actual, group_relative(update, preset, norm))


@pytest.mark.parametrize("preset", ["textbook", "verl_agent"])
@given(update=updates())
@settings(max_examples=25, deadline=None)
def test_rloo_is_each_return_against_the_mean_of_the_others(update: Update, preset: str) -> None:
    def against_the_others(scores: list[float], labels: list[int]) -> list[float]:
        out = []
        for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
            others = [s for j, s in enumerate(scores) if labels[j] == label and j != i]
            out.append(score - statistics.fmean(others) if others else 0.0)
        return out

    if preset == "verl_agent":
        expected = against_the_others(
            [r + p for r, p in zip(update.returns, update.penalties, strict=True)], update.groups
        )
    else:
        of = {t: (r, g) for t, r, g in zip(update.trajectories, update.returns, update.groups, strict=True)}
        each = against_the_others([r for r, _ in of.values()], [g for _, g in of.values()])
        advantages = dict(zip(of, each, strict=True))
        expected = [advantages[t] + p for t, p in zip(update.trajectories, update.penalties, strict=True)]
    close(credit.rloo(*update.args("returns", "penalties", "groups", "trajectories"), preset), expected)


@pytest.mark.parametrize("preset", ["textbook", "verl_agent"])
@pytest.mark.parametrize("norm", ["mean_std", "mean"])
@given(update=updates(), omega=st.floats(0, 2))
@settings(max_examples=25, deadline=None)
def test_gigpo_adds_the_step_advantage_of_each_anchor(update: Update, omega: float, preset: str, norm: str) -> None:
    g = []
    for row, trajectory in enumerate(update.trajectories):
        later = [r for r, t in zip(update.rewards[row:], update.trajectories[row:], strict=True) if t == trajectory]
        g.append(sum(0.95**k * r for k, r in enumerate(later)))
    step_returns = credit.step_returns(*update.args("rewards", "trajectories"), gamma=0.95)
    close(step_returns, g)

    paid = [x + p for x, p in zip(g, update.penalties, strict=True)]
    step = relative(paid if preset == "verl_agent" else g, update.anchors, norm)
    expected = [e + omega * s for e, s in zip(group_relative(update, preset, norm), step, strict=True)]
    returns, penalties, groups, trajectories, anchors = update.args(
        "returns", "penalties", "groups", "trajectories", "anchors"
    )
    actual = credit.gigpo(returns, penalties, step_returns, groups, trajectories, anchors, omega, preset, norm)
    close(actual, expected)


@pytest.mark.parametrize("preset", ["textbook", "verl_agent"])
def test_a_group_in_which_all_failed_does_not_blow_up_a_penalty(preset: str) -> None:
    n = 40
    penalties = torch.zeros(n, dtype=F)
    penalties[7] = -0.1
    zeros = torch.zeros(n, dtype=F)
    advantages = credit.grpo(zeros, penalties, torch.zeros(n), torch.arange(n) // 5, preset)
    assert -7 < advantages[7] < 0  # never more than (n-1)/sqrt(n), what a z-score can reach
    assert advantages[torch.arange(n) != 7].abs().max() < 0.2


def test_textbook_gigpo_pays_a_penalty_once_and_as_it_is() -> None:
    n = 40
    penalties = torch.zeros(n, dtype=F)
    penalties[7] = -0.1
    zeros, labels = torch.zeros(n, dtype=F), torch.zeros(n)
    advantages = credit.gigpo(zeros, penalties, zeros, labels, torch.arange(n) // 5, labels)
    close(advantages, penalties.tolist())


@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    gamma=st.floats(0.5, 1),
    lam=st.floats(0, 1),
    seed=st.integers(0, 999),
)
@settings(max_examples=30, deadline=None)
def test_gae_is_the_discounted_sum_of_temporal_differences(
    lengths: list[int], gamma: float, lam: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    width = max(lengths) + 2
    values = torch.randn(len(lengths), width, dtype=F, generator=generator)
    scores = torch.randn(len(lengths), dtype=F, generator=generator)
    mask = (torch.arange(width) < torch.tensor(lengths)[:, None]).to(F)
    expected, flat = torch.zeros_like(values), []
    for row, length in enumerate(lengths):
        v = [*values[row, :length].tolist(), 0.0]
        reward = [0.0] * (length - 1) + [float(scores[row])]
        delta = [reward[t] + gamma * v[t + 1] - v[t] for t in range(length)]
        for t in range(length):
            expected[row, t] = sum((gamma * lam) ** k * delta[t + k] for k in range(length - t))
        flat += expected[row, :length].tolist()
    result = credit.gae(scores, values, mask, gamma, lam)
    torch.testing.assert_close(result.returns, (expected + values) * mask, rtol=1e-9, atol=1e-9)
    if len(flat) > 1:
        white = (expected - statistics.fmean(flat)) / (statistics.variance(flat) + 1e-8) ** 0.5 * mask
        torch.testing.assert_close(result.advantages, white, rtol=1e-6, atol=1e-6)


def test_with_gamma_and_lambda_one_the_value_target_is_the_score_at_every_token() -> None:
    mask = torch.tensor([[1.0, 1, 1], [1, 0, 0]], dtype=F)
    result = credit.gae(torch.tensor([10.0, -0.1], dtype=F), torch.randn(2, 3, dtype=F), mask)
    torch.testing.assert_close(result.returns, torch.tensor([[10.0, 10, 10], [-0.1, 0, 0]], dtype=F))
