"""`helpdesk`: a customer with a complaint, three tools, and a rule for what they get; free sentences and calls.

The customer says the same thing in many ways, and names the order when asked. `lookup(order=N)` tells its state. A lost
parcel is refunded, a damaged one replaced, one under way for less than 9 days is to be waited for, after that it counts
as lost. The right end earns 1, a needless replacement or refund less, an angry customer nothing; each message costs.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worldline.envs.small.script import Rule
from worldline.envs.small.world import Reaction, SmallConfig, SmallWorld
from worldline.types import Turn

STATES = ("lost", "damaged", "under way")
STEPS, COST, PATIENCE_LIMIT = 8, 0.02, 9
OPENINGS = (
    "Hi, my {} is not here in one piece or not here at all.",
    "I am not happy. Something is wrong with the {} I bought.",
    "Hello! Can somebody help me with my {}?",
    "There is a problem with the {} that you sent me.",
)
NUMBERS = ("It is {}.", "The number? {}.", "Let me see... order {}.", "My mail says {}.")
WAITS = ("And now?", "Are you still there?", "Please go on.", "Yes, and?")
THANKS = ("Great, thank you.", "That is fair, thanks a lot.", "Good, bye.")
ANGER = ("This leads nowhere. Goodbye.", "I will write a bad review.", "I have had enough.")
GOODS = ("kettle", "lamp", "backpack", "radio", "chair")
ASK, SORRY, WAIT = "May I have your order number?", "I am sorry to hear that.", "Please wait a few more days."


class HelpdeskConfig(SmallConfig):
    """The help desk."""


class HelpdeskGame:
    """One customer."""

    goal = "Help the customer: refund what is lost, replace what is damaged, ask for patience where it is early."

    def __init__(self, article: str, draw: random.Random) -> None:
        self._article, self._draw = article, draw
        self._order = draw.randint(1000, 9999)
        self._state = draw.choice(STATES)
        self._days = draw.randint(2, 15)
        self._patience = draw.randint(3, 6)

    @property
    def right(self) -> str:
        """The call or sentence that this customer should get."""
        if self._state == "damaged":
            return "replace"
        return "refund" if self._state == "lost" or self._days >= PATIENCE_LIMIT else "wait"

    def introduction(self) -> str:
        return f"Customer: {self._draw.choice(OPENINGS).format(self._article)}"

    def admissible(self) -> None:
        return None

    def act(self, action: str) -> Reaction:
        call = re.fullmatch(r"(\w+)\(order=(\d+)\)", action)
        if call:
            return self._called(call[1], int(call[2]))
        if "wait" in action:
            return self._ended("wait")
        self._patience -= 1
        if self._patience <= 0:
            return Reaction(f"Customer: {self._draw.choice(ANGER)}", over=True)
        if "number" in action:
            return Reaction(f"Customer: {self._draw.choice(NUMBERS).format(self._order)}", -COST)
        return Reaction(f"Customer: {self._draw.choice(WAITS)}", -COST)

    def _called(self, tool: str, order: int) -> Reaction:
        if tool not in ("lookup", "refund", "replace"):
            return Reaction(f'{{"error": "no tool {tool}"}}', -COST, valid=False)
        if order != self._order:
            return Reaction('{"error": "no such order"}', -COST)
        if tool == "lookup":
            return Reaction(f'{{"order": {order}, "state": "{self._state}", "days": {self._days}}}', -COST)
        return self._ended(tool)

    def _ended(self, end: str) -> Reaction:
        if end == self.right:
            return Reaction(f"Customer: {self._draw.choice(THANKS)}", 1.0, over=True, won=True)
        reward = 0.0 if end == "wait" else 0.3
        return Reaction(f"Customer: {self._draw.choice(ANGER if end == 'wait' else THANKS)}", reward, over=True)


@dataclass(frozen=True)
class Enquiry:
    """What the desk has learned."""

    order: str
    state: str
    days: int


class HelpdeskWorld(SmallWorld):
    """The help desk."""

    name = "helpdesk"
    max_steps = STEPS
    return_range = (-COST * STEPS, 1.0)

    def __init__(self, config: HelpdeskConfig | None = None) -> None:
        self.config: HelpdeskConfig = config or HelpdeskConfig()

    def game(self, task: random.Random, draw: random.Random) -> HelpdeskGame:
        return HelpdeskGame(task.choice(GOODS), draw)

    def menu(self, turn: Turn) -> Sequence[str]:
        order = enquiry_of(turn).order or "1234"
        return [ASK, SORRY, WAIT, *(f"{tool}(order={order})" for tool in ("lookup", "refund", "replace"))]

    @property
    def scripts(self) -> Mapping[str, Rule]:
        return {
            "optimal": lambda turn: _resolve(enquiry_of(turn), PATIENCE_LIMIT),
            "refunds all": lambda turn: _blind(turn, "refund"),
            "replaces all": lambda turn: _blind(turn, "replace"),
            "waits for all": lambda turn: WAIT,
            "never waits": lambda turn: _resolve(enquiry_of(turn), 0),
            "polite": lambda turn: SORRY if turn.step < 3 else _resolve(enquiry_of(turn), PATIENCE_LIMIT),
            "too polite": lambda turn: SORRY if turn.step < 5 else _resolve(enquiry_of(turn), PATIENCE_LIMIT),
            "guesses the order": lambda turn: f"refund(order={1000 + turn.step})",
            "mixes up": _mixed_up,
            "asks again": lambda turn: {ASK: 0.4, _resolve(enquiry_of(turn), PATIENCE_LIMIT): 0.6001},
        }


def enquiry_of(turn: Turn) -> Enquiry:
    texts = [*(exchange.observation for exchange in turn.history), turn.observation]
    orders = [m[1] for text in texts if text.startswith("Customer") and (m := re.search(r"\b(\d{4})\b", text))]
    records = [m for text in texts if (m := re.search(r'"state": "([\w ]+)", "days": (\d+)', text))]
    state, days = (records[-1][1], int(records[-1][2])) if records else ("", 0)
    return Enquiry(orders[-1] if orders else "", state, days)


def _resolve(talk: Enquiry, limit: int) -> str:
    """Ask, look up, then do what the rule says, with this many days as the limit of patience."""
    if not talk.order:
        return ASK
    if not talk.state:
        return f"lookup(order={talk.order})"
    if talk.state == "damaged":
        return f"replace(order={talk.order})"
    return f"refund(order={talk.order})" if talk.state == "lost" or talk.days >= limit else WAIT


def _blind(turn: Turn, tool: str) -> str:
    talk = enquiry_of(turn)
    return f"{tool}(order={talk.order})" if talk.order else ASK


def _mixed_up(turn: Turn) -> str:
    """Refunds what is damaged and replaces what is lost."""
    action = _resolve(enquiry_of(turn), PATIENCE_LIMIT)
    swapped = {"refund": "replace", "replace": "refund"}
    tool = action.partition("(")[0]
    return action.replace(tool, swapped[tool]) if tool in swapped else action
