"""What the figures of a fit say against a world model, in words."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from worldline.adwm.ensemble import Member, possible_answers
from worldline.adwm.model import LogFacts

WIDE, NARROW = 0.1, 0.02
"""Shares of the range of rewards: an error that is large, and by how much one is larger than the bag's."""
LEAST_POSSIBLE = 0.6
"""Share of answers that wm can give, times that of answers at an end, below which its values are often far off."""
LEAST_RANK, USEFUL = 2.0, 0.02
"""Effective rank below which latents do not tell observations apart; nats by which they must be better than noise."""


def kernel_notes(figures: Mapping[str, float | None], facts: LogFacts) -> list[str]:
    """What its figures say against the kernel model, the gravest first."""
    error, bag = figures.get("wm_replay_error"), figures.get("wm_replay_error_of_the_bag")
    left_out, bag_left_out = (figures.get(f"wm_left_out_error{of}") for of in ("", "_of_the_bag"))
    span = facts.reward_high - facts.reward_low
    notes = []
    if error is not None and error > WIDE * span:
        notes.append(f"wm misses the log's own returns by {error:.3g} in replay: its values may be off by as much")
    if possible_answers(figures) < LEAST_POSSIBLE:
        steps, ends = figures.get("wm_possible"), figures.get("wm_possible_ends")
        shares = [] if steps is None else [f"{steps:.0%} of the answers of held-out steps"]
        shares += [] if ends is None else [f"{ends:.0%} of those at the end of an episode"]
        notes.append(
            f"wm can give {' and '.join(shares)}: what it imagines in place of the others may end differently, so "
            "intervals are wider"
        )
    if error is not None and bag is not None and error > bag + NARROW * span:
        notes.append(f"wm does not beat the bag (wm-bag): their errors in replay are {error:.3g} and {bag:.3g}")
    if left_out is not None and left_out > WIDE * span:
        notes.append(
            f"wm misses the returns of policies left out of the log by {left_out:.3g} in replay: "
            "it may miss those of new policies as much"
        )
    if left_out is not None and bag_left_out is not None and left_out > bag_left_out + NARROW * span:
        notes.append(
            f"wm misses the returns of policies left out of the log by {left_out:.3g}, the bag (wm-bag) by "
            f"{bag_left_out:.3g}: go by the certificate of `evaluate --logger`, which measures both on these policies"
        )
    return notes


def latent_notes(members: Sequence[Member]) -> list[str]:
    """What the figures of the members say against the latent model."""
    notes = []
    figures = [member.figures for member in members]
    if any(one["effective_rank"] < LEAST_RANK for one in figures):
        notes.append("the latents collapsed: adwm cannot tell observations apart; fit with another --seed, or use wm")
    if figures and fmean(one["nats_diffusion"] - one["nats_noise"] for one in figures) > -USEFUL:
        notes.append("the sampled latents say no more than noise about what is answered: adwm is not to be trusted")
    return notes
