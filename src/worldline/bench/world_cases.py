"""Who plays in `bench worlds`: in each world three loggers that explore, none of them optimal, and ten targets.

The best policy of a world is among its targets. Worlds that are held out were written to be judged in.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from worldline.bench.policy_suite import SUITES, PolicySuite
from worldline.envs.small.script import Script
from worldline.policies.faulty_expert import Faults

TASKS = 140
"""Tasks that each logger plays once: 420 logged episodes."""


@dataclass(frozen=True)
class SmallCase:
    """A small world in the bench: which one, who plays, and how much."""

    env: str
    loggers: Mapping[str, Script]
    targets: Mapping[str, Script]
    options: Mapping[str, Any] = field(default_factory=dict)
    truth: int = 6
    """Times each target plays every task for its true value."""
    exact: bool = False
    """The true values are summed over all chances, and nobody plays for them."""
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
        "logger-steady": Script("steady", 0.35),
        "logger-dry": Script("as if dry", 0.3),
        "logger-random": Script("random"),
    },
    _named(
        "optimal",
        Script("steady", 0.03),
        "mistaken near the flag",
        "mistaken at the start",
        "mistaken in the middle",
        "mistaken at the edge",
        Script("steady", 0.2),
        Script("steady", 0.4),
        "as if dry",
        "worst",
    ),
    exact=True,
)

SMALL_CASES: dict[str, SmallCase] = {
    "lake": LAKE,
    "lake reworded": replace(LAKE, options={"actions": "bare", "observations": "squares"}),
    "blackjack": SmallCase(
        "blackjack",
        {
            "logger-seventeen": Script("sticks at 17", 0.3),
            "logger-thirteen": Script("sticks at 13", 0.3),
            "logger-random": Script("random"),
        },
        _named(
            "optimal",
            "sticks at 18",
            "always sticks",
            Script("optimal", 0.5),
            "bold against weak cards",
            "sticks at 20",
            Script("inverted", 0.7),
            Script("inverted", 0.5),
            "sticks at 21",
            "inverted",
        ),
        exact=True,
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
            "generous",
            "begs, then takes",
            "takes at once",
            "talks",
            Script("patient", 0.8),
            "hard",
            "walks away",
            "leaves half the time",
            "stingy",
        ),
        truth=15,
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
            Script("halves", 0.2),
            "a quarter up",
            "within",
            Script("halves", 0.4),
            "forgets",
            Script("within", 0.6),
            "in threes",
            "low end",
            "mishears",
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
            "doubts",
            Script("optimal", 0.5),
            "runs",
            Script("reads half", 0.6),
            "first key",
            "last key",
            "misreads",
            "no key",
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
            Script("high only", 0.3),
            "backwards",
            "low only",
            "high only",
            "claps",
        ),
        truth=8,
    ),
    "vault": SmallCase(
        "vault",
        {
            "logger-consistent": Script("consistent", 0.5),
            "logger-places": Script("counts places only", 0.3),
            "logger-forgets": Script("forgets", 0.3),
        },
        _named(
            "splits most",
            "consistent",
            "counts places only",
            "counts digits only",
            Script("splits most", 0.85),
            Script("consistent", 0.92),
            Script("any consistent", 0.7),
            "forgets",
            "mixes up",
            Script("any consistent", 0.15),
        ),
        held_out=True,
    ),
    "helpdesk": SmallCase(
        "helpdesk",
        {
            "logger-good": Script("optimal", 0.4),
            "logger-refunds": Script("refunds all", 0.4),
            "logger-asks": Script("asks again", 0.3),
        },
        _named(
            "optimal",
            "never waits",
            "asks again",
            "refunds all",
            "replaces all",
            "polite",
            "mixes up",
            "waits for all",
            "too polite",
            "guesses the order",
        ),
        truth=12,
        held_out=True,
    ),
    "burrow": SmallCase(
        "burrow",
        {
            "logger-explores": Script("explores", 0.3),
            "logger-onwards": Script("onwards", 0.1),
            "logger-random": Script("random"),
        },
        _named(
            "optimal",
            "half optimal",
            "explores",
            Script("right hand", 0.08),
            Script("explores", 0.5),
            "onwards",
            "sniffs",
            Script("paces", 0.3),
            Script("paces", 0.6),
            "paces",
        ),
        held_out=True,
    ),
    "granary": SmallCase(
        "granary",
        {
            "logger-usual": Script("usual", 0.5),
            "logger-twos": Script("in twos", 0.4),
            "logger-random": Script("random"),
        },
        _named(
            "optimal",
            "cautious",
            Script("optimal", 0.5),
            "in twos",
            "one by one",
            "buys dear",
            Script("usual", 0.7),
            Script("hoards", 0.5),
            "hoards",
            "backwards",
        ),
        truth=15,
        held_out=True,
    ),
}

LARGE_SUITES: dict[str, PolicySuite] = {
    "household": PolicySuite(
        options={"level": "small"},
        loggers={
            "logger-chance": Faults(chance=0.6),
            "logger-fumbles": Faults(fumble=0.6, chance=0.2),
            "logger-forgets": Faults(memory=3, chance=0.3),
        },
        targets={
            "expert": Faults(),
            "dawdles": Faults(again=0.5, chance=0.2),
            "hurries": Faults(haste=0.5, hasty="go to"),
            "fumbles": Faults(fumble=0.7),
            "errs": Faults(chance=0.45),
            "dawdles a lot": Faults(again=0.8),
            "forgets": Faults(memory=2, chance=0.1),
            "errs and fumbles": Faults(chance=0.5, fumble=0.5),
            "errs a lot": Faults(chance=0.8),
            "chance": Faults(chance=1.0),
        },
    ),
    "shop": replace(SUITES["shop"], language_models={}, cloning={}),
    "searchqa": replace(SUITES["searchqa"], language_models={}, cloning={}),
}
"""The built-in worlds, played by experts with faults."""

DATA_SUITES: dict[str, PolicySuite] = {
    "alfworld": PolicySuite(
        split="valid_seen",
        loggers={
            "logger-chance": Faults(chance=0.7),
            "logger-fumbles": Faults(fumble=0.75, chance=0.2),
            "logger-forgets": Faults(memory=3, chance=0.2),
        },
        targets={
            "expert": Faults(),
            "dawdles": Faults(again=0.6),
            "hurries": Faults(haste=0.5, hasty="go to"),
            "fumbles": Faults(fumble=0.85),
            "errs": Faults(chance=0.65),
            "dawdles a lot": Faults(again=0.8),
            "dawdles and errs": Faults(again=0.7, chance=0.3),
            "forgets": Faults(memory=2),
            "errs and fumbles": Faults(chance=0.7, fumble=0.5),
            "hardly thinks": Faults(chance=0.85),
        },
    ),
    "webshop": LARGE_SUITES["shop"],
}
"""Worlds that need their data."""
