"""`worldline sft`: clone an expert or a log into a language model."""

from pathlib import Path

from worldline.cli.verb_result import VerbResult, kept_checkpoints, note, progress
from worldline.sft import Cloned, SftConfig, sft
from worldline.sft.clone import Progress
from worldline.signals import kept

Settings = SftConfig


def run(settings: SftConfig) -> VerbResult:
    begun = False
    with kept(lambda: _kept(settings, begun)), progress() as bar:
        line = bar.add_task("demonstrations", total=settings.episodes, detail="")

        def gathered(count: int) -> None:
            bar.update(line, completed=count)

        def trained(now: Progress) -> None:
            nonlocal begun
            begun = True
            bar.update(line, description="updates", total=now.steps, completed=now.step, detail=f"loss {now.loss:.3f}")

        result = sft(settings, gathered, trained)
    for text in (
        *result.notes,
        *(f"a demonstration failed twice and was left out: {reason}" for reason in result.failed),
    ):
        note(text)
    summary = result.summary()
    planned = result.episodes + result.lost + len(result.failed) + result.not_drawn
    count = f"{result.episodes} of {planned}" if planned > result.episodes else str(planned)
    text = (
        f"cloned {count} episodes ({summary['tokens']:,} tokens) into {summary['parameters']:,} "
        f"parameters in {summary['seconds']:.0f} s, final loss {summary['loss']:.3f}\n"
        f"{_left_out(result)}{summary['model']}"
    )
    return VerbResult(summary, (text,))


def _left_out(result: Cloned) -> str:
    """Why not all episodes were learned."""
    reasons = []
    if result.not_drawn:
        reasons.append(f"{result.not_drawn} by --episodes {result.config.episodes} (drawn by --seed)")
    if result.lost and Path(result.config.source).exists():
        reasons.append(f"{result.lost} did not succeed (--no-only-success takes them too)")
    elif result.lost:
        reasons.append(f"{result.lost} ended badly after random steps (--noise {result.config.noise:g})")
    if result.failed:
        reasons.append(f"{len(result.failed)} could not be played")
    return f"left out: {', '.join(reasons)}\n" if reasons else ""


def _kept(settings: SftConfig, begun: bool) -> str:
    return kept_checkpoints(settings.out, "step") if begun else f"no update was made, {settings.out} is as it was"
