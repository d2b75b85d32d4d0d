"""Candidates: from `NAME=SPEC` and epsilons to each policy's log-probs of the logged actions and the alternatives.

A policy scores every admissible action of each logged step once, in batches; epsilon is then mixed in exactly (ADWM eq.
39). A language model's log-probs are kept, batch by batch, under a digest of the log, the model's files and its
settings, so that a second evaluation, or one that was interrupted, does not compute them again. Log-probs
computed elsewhere, `NAME=logprobs:FILE`, are read in `logprob_file`.
"""

import hashlib
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt

from worldline import __version__, files
from worldline.ope.log import Choices, TargetLog
from worldline.ope.text import TextLog
from worldline.policies import public_name
from worldline.policies.checked_logprobs import EXPECTED, checked_rows
from worldline.policies.mixing import mixed_logprobs
from worldline.types import InputError, Policy, ScoringPolicy, Turn, WorldlineError, policy_label
from worldline.user_module import error_text, is_of_the_machine

Watch = Callable[[str, int, int], None]
"""What is being done, how much of it is done, of how much."""
BATCH = 2048
ELSEWHERE = "logprobs:"


@dataclass(frozen=True)
class Candidate:
    """A policy to be evaluated, at one epsilon. `load` gives the policy; None for a candidate of a log-prob file."""

    name: str
    epsilon: float
    spec: str
    load: Callable[[], Policy] | None

    @property
    def label(self) -> str:
        return policy_label(self.name, self.epsilon)


@dataclass(frozen=True, eq=False)
class Scores:
    """log pi(a|h) of the policy itself, before epsilon: of the logged action, and of every option if it has them."""

    logged: npt.NDArray[np.float64]
    options: npt.NDArray[np.float64] | None


def named(entries: Sequence[str], flag: str, in_log: Container[str] = ()) -> dict[str, str]:
    """`NAME=SPEC` entries by name; a bare specification is its own name, and so is what the log calls a policy."""
    specs: dict[str, str] = {}
    for entry in entries:
        name, spec = _name_and_spec(entry, in_log)
        if not name or not spec:
            raise InputError(f"{flag} {name}=: write NAME=SPEC, such as mine=hf:runs/mine/model")
        if name in specs:
            raise InputError(f"{flag}: two policies are called '{name}': give each its own NAME=SPEC")
        specs[name] = spec
    return specs


def _name_and_spec(entry: str, in_log: Container[str]) -> tuple[str, str]:
    """The log's policies may have any name, such as `mine:Hasty` or `a=b`: the longest that the entry begins with."""
    if entry in in_log:
        return entry, entry
    cuts = [place for place, character in enumerate(entry) if character == "="]
    for cut in reversed(cuts):
        if entry[:cut] in in_log:
            return entry[:cut], entry[cut + 1 :]
    name, equals, spec = entry.partition("=")
    if not equals or "/" in name or ":" in name:  # a path or URL may hold an equals sign of its own
        return public_name(entry), entry
    return name, spec


def cached(
    load: Callable[[], Policy], identity: str | None, text: TextLog, folder: Path | None, watch: Watch
) -> Scores | None:
    """A policy's log-probs at every step of the log; None where it cannot be scored.

    Batch by batch, each read from or kept in `folder`: what was computed before is not computed again.

    `identity` is everything that decides the policy's answers; where it is None, nothing is kept.
    """
    paths: Iterator[Path | None] = repeat(None)
    if folder is not None and identity is not None:
        paths = (folder / f"{digest}.npy" for digest in _digests(identity, text))
    batches: list[npt.NDArray[np.float64]] = []
    for first, path in zip(range(0, len(text.turns), BATCH), paths, strict=False):
        batch = slice(first, first + BATCH)
        if path is not None and path.is_file():
            batches.append(_read_batch(path, sum(map(len, text.options[batch]))))
            continue
        policy = load()
        if not isinstance(policy, ScoringPolicy):
            return None
        batches.append(_given_logprobs(policy, text.turns[batch], text.options[batch]))
        if path is not None:
            with files.writing(path) as file:
                np.save(file, batches[-1], allow_pickle=False)
        watch(f"log-probs of {policy.name}", min(first + BATCH, len(text.turns)), len(text.turns))
    options = np.concatenate(batches)
    return Scores(options[logged_rows(text)], options)


def _given_logprobs(
    policy: ScoringPolicy, turns: Sequence[Turn], options: Sequence[Sequence[str]]
) -> npt.NDArray[np.float64]:
    """What a policy says of the options of these turns, end to end; InputError where it fails or says too much."""
    try:
        given = policy.logprobs(turns, options)
    except WorldlineError:
        raise
    except (Exception, SystemExit) as error:
        if is_of_the_machine(error):
            raise
        raise InputError(f"policy '{policy.name}' failed: {error_text(error)}: {EXPECTED}") from error
    return np.concatenate(checked_rows(policy.name, given, options))


def _read_batch(path: Path, size: int) -> npt.NDArray[np.float64]:
    try:
        log_probs: npt.NDArray[np.float64] = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{path}: not a cache of log-probs ({error}): delete it") from None
    if log_probs.shape != (size,) or log_probs.dtype != np.float64:
        raise InputError(f"{path}: a cache of log-probs of another shape: delete it")
    return log_probs


def target_log(scores: Scores | None, epsilon: float, read: Callable[[], TextLog]) -> TargetLog | None:
    """(1 - eps) pi + eps uniform over the admissible actions, exactly; where `scores` has all options, normalised.

    The text is read only where it is needed: log-probs of a file, without chance, stand for themselves.
    """
    if scores is None and epsilon < 1:
        return None
    if scores is not None and scores.options is None and not epsilon:
        return TargetLog(scores.logged)
    text = read()
    if epsilon > 0 and text.unlisted:
        raise InputError(
            f"--epsilon {epsilon:g}: {text.unlisted} steps of the log do not say what was admissible "
            "(column 'admissible'), so chance cannot be mixed in: use --epsilon 0"
        )
    if scores is None:
        blank = np.full(len(text.option_codes), -np.inf)
        scores = Scores(blank[logged_rows(text)], blank)
    if text.chance is None:
        return TargetLog(scores.logged)
    logged = mixed_logprobs(scores.logged, text.chance, epsilon)
    if scores.options is None:
        return TargetLog(logged)
    step = np.repeat(np.arange(len(text.listed)), np.diff(text.option_offsets))
    admissible = np.arange(len(step)) - text.option_offsets[step] < text.listed[step]
    uniform = np.where(admissible, -np.log(np.maximum(text.listed, 1))[step], -np.inf)
    mixed = mixed_logprobs(scores.options, uniform, epsilon)
    return TargetLog(logged, _normalised(Choices(mixed, text.option_codes, text.option_offsets)))


def _normalised(choices: Choices) -> Choices:
    """Rescaled to sum to 1 at every step: a model that generates freely puts some mass outside what is listed."""
    top = np.maximum.reduceat(choices.logprobs, choices.offsets[:-1])
    top = np.where(np.isneginf(top), 0.0, top)
    mass = np.add.reduceat(np.exp(choices.logprobs - top[choices.step]), choices.offsets[:-1])
    uniform = -np.log(np.diff(choices.offsets))  # where no option has any mass
    scaled = choices.logprobs - (top + np.log(np.maximum(mass, 1e-300)))[choices.step]
    return Choices(np.where(mass[choices.step] > 0, scaled, uniform[choices.step]), choices.actions, choices.offsets)


def logged_rows(text: TextLog) -> npt.NDArray[np.int64]:
    """Where among the options of each step the logged action stands."""
    places = [options.index(action) for options, action in zip(text.options, text.taken, strict=True)]
    return text.option_offsets[:-1] + np.array(places, dtype=np.int64)


def _digests(identity: str, text: TextLog) -> Iterator[str]:
    """Of each batch: of the policy and of all of the log up to there, which holds the history of its last episode."""
    digest = hashlib.blake2b(f"{__version__} {identity}".encode(), digest_size=12)
    steps = zip(text.turns, text.options, text.taken, strict=True)
    for number, (turn, options, action) in enumerate(steps, start=1):
        content = (turn.step, turn.family, turn.goal, turn.observation, tuple(options), action)
        digest.update(repr(content).encode())
        if number % BATCH == 0 or number == len(text.turns):
            yield digest.hexdigest()
