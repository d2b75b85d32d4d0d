"""Who plays in the small worlds of `bench worlds`: three loggers that explore, none of them optimal, and ten targets.

The best policy of a world is among its targets. Worlds that are held out were written to be judged in: no setting of
any estimator is chosen on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from worldline.bench.policy_suite import PolicySuite
from worldline.envs.small.script import Script

TASKS = 140
"""Tasks that each logger plays once: 420 logged episodes."""


@dataclass(frozen=True)
class SmallCase:
    """A small world in the bench: which one, who plays, and how much."""

    env: str
    loggers: Mapping[str, Script]
    targets: Mapping[str, Script]
    options: Mapping[str, Any] = field(default_factory=dict)
    truth: int = 15
    """Times each target plays every task for its true value."""
    held_out: bool = False

    @property
    def suite(self) -> PolicySuite:
        return PolicySuite(self.loggers, self.targets, split="test", options=dict(self.options))


def _named(*targets: str | Script) -> dict[str, Script]:
    scripts = [Script(target) if isinstance(target, str) else target for target in targets]
    return {f"{s.rule}, {s.chance:.0%} chance" if s.chance else s.rule: s for s in scripts}


LAKE = SmallCase(
    "lake",
    {
        "logger-good": Script("optimal", 0.4),
        "logger-dry": Script("as if dry", 0.3),
        "logger-random": Script("random"),
    },
    _named(
        "optimal",
        Script("optimal", 0.08),
        Script("optimal", 0.2),
        "optimal or as if dry",
        "optimal above",
        "optimal below",
        "as if dry",
        "south or east",
        "random",
        "worst",
    ),
)

SMALL_CASES: dict[str, SmallCase] = {
    "lake": LAKE,
    "lake reworded": replace(LAKE, options={"actions": "bare", "observations": "squares"}),
    "blackjack": SmallCase(
        "blackjack",
        {
            "logger-seventeen": Script("sticks at 17", 0.3),
            "logger-thirteen": Script("sticks at 13", 0.3),
            "logger-random": Script("always sticks", 1.0),
        },
        _named(
            "optimal",
            "sticks at 15",
            "sticks at 19",
            "sticks at 20",
            "sticks at 21",
            "always sticks",
            "inverted",
            "bold against weak cards",
            "counts no ace",
            Script("optimal", 0.5),
        ),
        truth=100,
    ),
    "haggling": SmallCase(
        "haggling",
        {
            "logger-patient": Script("patient", 0.3),
            "logger-generous": Script("generous", 0.3),
            "logger-talks": Script("talks", 0.4),
        },
        _named(
            "shrewd",
            "offers once",
            "generous",
            "begs, then takes",
            "takes at once",
            "talks",
            "leaves half the time",
            "stingy",
            "never gives in",
            Script("patient", 0.6),
        ),
    ),
    "guess": SmallCase(
        "guess",
        {
            "logger-halves": Script("halves", 0.35),
            "logger-within": Script("within", 0.2),
            "logger-untried": Script("untried", 0.1),
        },
        _named(
            "halves",
            "a quarter up",
            "within",
            "forgets",
            "low end",
            "in threes",
            "mishears",
            "untried",
            Script("halves", 0.2),
            Script("halves", 0.6),
        ),
    ),
    "taxi": SmallCase(
        "taxi",
        {
            "logger-good": Script("optimal", 0.3),
            "logger-walls": Script("forgets walls", 0.4),
            "logger-either": Script("either stand", 0.2),
        },
        _named(
            "optimal",
            "asks everywhere",
            "drops on the way",
            "stand after stand",
            "dithers",
            "forgets walls",
            "cruises",
            "random",
            "never fetches",
            Script("optimal", 0.5),
        ),
        truth=5,
    ),
    "keydoor": SmallCase(
        "keydoor",
        {
            "logger-reader": Script("reads half", 0.25),
            "logger-first": Script("first key", 0.25),
            "logger-doubts": Script("doubts", 0.3),
        },
        _named(
            "optimal",
            "looks first",
            "runs",
            "first key",
            "last key",
            "misreads",
            "no key",
            "doubts",
            Script("optimal", 0.5),
            Script("reads half", 0.3),
        ),
    ),
    "echo": SmallCase(
        "echo",
        {
            "logger-random": Script("random"),
            "logger-stays": Script("stays while in tune", 0.4),
            "logger-low": Script("low and clap", 0.4),
        },
        _named(
            "optimal",
            "high and clap",
            "low and high",
            "low and clap",
            "stays while in tune",
            "random",
            "backwards",
            "low only",
            "high only",
            "claps",
        ),
    ),
}
