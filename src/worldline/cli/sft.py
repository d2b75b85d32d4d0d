"""`worldline sft`: clone an expert or a log into a language model."""

from worldline.cli.outcome import Outcome, note, progress
from worldline.sft import SftConfig, sft
from worldline.sft.clone import Progress

Settings = SftConfig


def run(settings: SftConfig) -> Outcome:
    with progress() as bar:
        line = bar.add_task("demonstrations", total=settings.episodes, detail="")

        def gathered(count: int) -> None:
            bar.update(line, completed=count)

        def trained(now: Progress) -> None:
            bar.update(line, description="updates", total=now.steps, completed=now.step, detail=f"loss {now.loss:.3f}")

        result = sft(settings, gathered, trained)
    for text in (*result.notes, *(f"failed twice, left out: {reason}" for reason in result.failed)):
        note(text)
    told = result.summary()
    text = (
        f"cloned {told['episodes']} episodes ({told['tokens']:,} tokens) into {told['parameters']:,} parameters in "
        f"{told['seconds']:.0f} s, final loss {told['loss']:.3f}\n{told['model']}"
    )
    return Outcome(told, (text,))
