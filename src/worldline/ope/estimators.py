"""The weight-based and doubly robust estimators: pure functions to one value per episode, whose mean is the estimate.

`weights` is log rho_{1:t} per step (plain, balanced or clipped), `value` a fitted Q and V at
the logged steps. Self-normalised estimators return linearised values, so that one interval function serves all. The
formulas are those of COBS (Voloshin et al. 2019) and of ADWM appendix F.2 (44-47), made ragged.
"""

from dataclasses import dataclass

import numpy as np

from worldline.ope.log import Episodes, RaggedLog, RefusalError, Steps
from worldline.ope.weights import NO_EVIDENCE, exp, left_out, normalised, previous, self_normalised


@dataclass(frozen=True, eq=False)
class Value:
    """A value function read at the log: Q(h_t, a_t) and V(h_t) = sum_a pi_e(a|h_t) Q(h_t, a) of every step."""

    q: Steps
    v: Steps


def naive(log: RaggedLog, gamma: float) -> Episodes:
    """NAIVE: mean of G under the loggers; ignores the target."""
    return log.returns(gamma)


def importance(log: RaggedLog, gamma: float, weights: Steps) -> Episodes:
    """IS: rho_{1:T} G (Precup, Sutton & Singh 2000)."""
    final = log.last(weights)
    _refuse_without_evidence(final)
    return exp(final) * log.returns(gamma)


def weighted_importance(log: RaggedLog, gamma: float, weights: Steps) -> Episodes:
    """WIS: sum_i w_i G_i / sum_i w_i, w = rho_{1:T} (Precup et al. 2000)."""
    final = log.last(weights)
    _refuse_without_evidence(final)
    scaled = np.exp(final - final.max())
    returns = log.returns(gamma)
    estimate = float(scaled @ returns / scaled.sum())
    influence = scaled / scaled.mean() * (returns - estimate) * left_out(scaled / scaled.sum())
    return np.asarray(estimate + influence - influence.mean())


def per_decision(log: RaggedLog, gamma: float, weights: Steps) -> Episodes:
    """PDIS: sum_t gamma^(t-1) rho_{1:t} r_t (Precup et al. 2000)."""
    _refuse_without_evidence(log.each_episode(lambda part, steps: weights[steps][part.starts]))
    return log.each_episode(lambda part, steps: part.total(exp(weights[steps]) * part.rewards * part.discounts(gamma)))


def weighted_per_decision(log: RaggedLog, gamma: float, weights: Steps) -> Episodes:
    """PDWIS: sum_t gamma^(t-1) sum_i rho_{1:t} r_t / sum_i rho_{1:t}, ended episodes at their last weight (ibid.)."""
    return self_normalised(log.rewards, normalised(weights, log.last(weights), log), log, gamma)


def doubly_robust(log: RaggedLog, gamma: float, weights: Steps, value: Value) -> Episodes:
    """DR: sum_t gamma^(t-1) [rho_{1:t} (r_t - Q_t) + rho_{1:t-1} V_t] (Jiang & Li 2016; COBS DR_v2; ADWM eq. 47)."""
    step = exp(weights) * (log.rewards - value.q) + exp(previous(weights, log)) * value.v
    return log.total(step * log.discounts(gamma))


def weighted_doubly_robust(log: RaggedLog, gamma: float, weights: Steps, value: Value) -> Episodes:
    """WDR: DR with both weights self-normalised per step (Thomas & Brunskill 2016)."""
    now = normalised(weights, weights[log.ends], log)
    before = normalised(previous(weights, log), weights[log.ends], log)
    correction = self_normalised(log.rewards - value.q, now, log, gamma)
    return correction + self_normalised(value.v, before, log, gamma)


def start_value(log: RaggedLog, gamma: float, value: Value) -> Episodes:
    """FQE, LFQE, Q-Reg: V(h_1), the fitted value where each logged episode began (Le et al. 2019).

    The episode's Bellman residuals, centred, are added: the mean stays, and the spread knows that Q was fitted on
    episodes that scatter. Unweighted, they are the influence of an episode when target and loggers act alike.
    """
    residual = log.total(log.discounts(gamma) * (log.rewards + gamma * following(value.v, log) - value.q))
    return np.asarray(value.v[log.starts] + (residual - residual.mean()))


def check_imagined(log: RaggedLog, imagined: Episodes) -> None:
    """RefusalError unless there is one imagined return for each logged start."""
    if len(imagined) != log.episodes:
        raise RefusalError(
            f"{len(imagined)} imagined returns for {log.episodes} logged starts: one per episode is needed"
        )


def model_based(log: RaggedLog, gamma: float, imagined: Episodes) -> Episodes:
    """AM: mean return of rollouts imagined from each logged start, by any world model (ADWM eq. 10)."""
    check_imagined(log, imagined)
    return imagined


def imagined_critic(log: RaggedLog, gamma: float, weights: Steps, imagined: Episodes) -> Episodes:
    """WM-DR: V + rho_{1:T} (G - V), V the world model's imagined value of the episode's start.

    This is DR (eq. 47) with the critic Q_t = V_t = what V leaves after the rewards so far, whose sum telescopes. It
    takes an imagined value per task; one per logged step would cost as many imagined episodes as the log has steps.
    Such a critic looks at no action, so the mean is the target's value whatever V is (E rho = 1), and the better V is,
    the less the weights scatter it. The world model is fitted on the log itself: by as much as one episode decides its
    own V, the estimate leans on it.
    """
    check_imagined(log, imagined)
    _refuse_without_evidence(log.last(weights))
    return control_variate(log, gamma, weights, imagined)


def control_variate(log: RaggedLog, gamma: float, weights: Steps, imagined: Episodes) -> Episodes:
    """V + rho_{1:T} (G - V), V imagined from the episode's start; AM-DR, where the weights are clipped.

    Unbiased without clipping whatever V is; where nothing overlaps, rho is 0 and the world model is left.
    """
    return np.asarray(imagined + exp(log.last(weights)) * (log.returns(gamma) - imagined))


def following(x: Steps, log: RaggedLog) -> Steps:
    """x at the next step; 0 after the last step of an episode."""
    shifted = np.empty_like(x)
    shifted[:-1] = x[1:]
    shifted[log.ends] = 0.0
    return shifted


def _refuse_without_evidence(weights: Episodes) -> None:
    if np.isneginf(weights).all():
        raise RefusalError(NO_EVIDENCE)
