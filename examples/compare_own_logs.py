"""From your own logs to "is v3 better than v2?": import rows of a shape of your own, compare, report.

python examples/compare_own_logs.py [FOLDER]      # a few seconds
"""

import json
import random
import sys
from pathlib import Path

import worldline
from worldline.cli import main


def write_logs(folder: Path) -> list[Path]:
    """What a service might have written: a JSON object per conversation, of two versions of an agent."""
    chance = random.Random(0)
    files = []
    for version, skill in (("v2", 0.55), ("v3", 0.75)):
        rows = []
        for ticket in range(120):
            hard = ticket % 10 / 20  # some tickets are harder than others, for both
            solved = chance.random() < skill - hard
            turns = [
                {"saw": f"ticket {ticket} is open", "did": "look up the customer", "because": "who is it?"},
                {"saw": "customer found", "did": "refund" if solved else "escalate", "because": "policy 3"},
            ]
            rows.append({
                "conversation": f"{version}-{ticket}", "agent": version,
                "ticket": {"number": ticket, "queue": ["billing", "orders"][ticket % 2]},
                "turns": turns, "outcome": {"solved": solved, "dollars": 0.02 + 0.01 * solved},
            })  # fmt: skip
        path = folder / f"{version}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        files.append(path)
    return files


def run(folder: Path) -> None:
    files = write_logs(folder)
    maps = [
        "observation=turns[].saw", "action=turns[].did", "thought=turns[].because", "task_id=ticket.number",
        "policy=agent", "success=outcome.solved", "cost=outcome.dollars", "meta.queue=ticket.queue",
    ]  # fmt: skip
    words = ["import", *map(str, files), "--env", "support", "--out", str(folder / "logs"), "--map", *maps]
    if main(words):
        raise SystemExit("the import failed")
    comparison = worldline.compare(folder / "logs", policies=["v2", "v3"], by="queue", out=folder / "choice")
    print(comparison.answer)
    for group in comparison.pair("v3").groups:
        print(f"  {group.group}: {group.difference.value:+.3f} over {group.tasks} tasks")
    print(worldline.report(folder / "choice").path)


if __name__ == "__main__":
    here = Path(sys.argv[1] if len(sys.argv) > 1 else "own-logs")
    here.mkdir(parents=True, exist_ok=True)
    run(here)
