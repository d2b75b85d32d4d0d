"""The expert: searches the likely places in a fixed order, takes the requested thing, treats it, puts it in place.

Stateless and observation-driven: it reads the task sentence and the transcript, never the engine. The order is one a
small model can learn: the kinds of place where such a thing usually is, likeliest first, and within a kind as
the room lists them; a closed place is opened; nothing is visited twice.
"""

from worldline.envs.household.belief import Belief, kind
from worldline.envs.household.catalogue import APPLIANCES, KINDS
from worldline.envs.household.wording import TaskRequest, read_request
from worldline.types import Turn

GIVE_UP = "look"
"""What it says when every place has been searched in vain: harmless, and admissible everywhere."""


def act(turn: Turn) -> str:
    """The expert's next command."""
    request = read_request(turn.goal)
    belief = Belief.of(turn)
    if belief.held is None:
        return _fetch(request, belief)
    if kind(belief.held) != request.thing:
        return _put(belief, belief.held, belief.origin or "")
    if request.family == "look":
        return _light(request, belief)
    if request.family in APPLIANCES and not belief.done(request.family, belief.held):
        return _treat(request, belief, belief.held)
    return _put(belief, belief.held, _target(request, belief))


def _fetch(request: TaskRequest, belief: Belief) -> str:
    """Take a requested thing that is not yet where it belongs, or look for one."""
    settled = _target(request, belief) if request.family == "pick_two" else None
    for thing, place in belief.where(request.thing):
        if place != settled:
            return _reach(belief, place) or f"take {thing} from {place}"
    return _search(request.thing, belief)


def _light(request: TaskRequest, belief: Belief) -> str:
    """The thing is in hand: find a lamp and turn it on."""
    for lamp, place in belief.where(request.target):
        return _go(belief, place) or f"use {lamp}"
    return _search(request.target, belief)


def _treat(request: TaskRequest, belief: Belief, thing: str) -> str:
    appliance = next((place for place in belief.receptacles if kind(place) == APPLIANCES[request.family]), None)
    if appliance is None:
        return GIVE_UP
    return _go(belief, appliance) or f"{request.family} {thing} with {appliance}"


def _put(belief: Belief, thing: str, place: str) -> str:
    return _reach(belief, place) or f"move {thing} to {place}" if place else GIVE_UP


def _target(request: TaskRequest, belief: Belief) -> str:
    """The receptacle of the requested kind that holds most of the requested things, else the first one listed."""
    places = [place for place in belief.receptacles if kind(place) == request.target]
    stored = [place for thing, place in belief.where(request.thing) if place in places]
    return max(places, key=stored.count, default="")


def _search(thing: str, belief: Belief) -> str:
    """Go on with the search: open what is closed here, else the next place not seen yet."""
    homes = KINDS[thing].homes if thing in KINDS else ()
    unseen = [place for place in belief.receptacles if place not in belief.contents]
    unseen.sort(key=lambda place: homes.index(kind(place)) if kind(place) in homes else len(homes))
    if not unseen:
        return GIVE_UP
    here = next((place for place in unseen if belief.at(place)), None)
    return _reach(belief, here or unseen[0]) or GIVE_UP


def _reach(belief: Belief, place: str) -> str | None:
    """What brings the agent before `place`, open and looked at; None when it is there."""
    if step := _go(belief, place):
        return step
    if place in belief.closed:
        return f"open {place}"
    return None if place in belief.contents else f"examine {place}"


def _go(belief: Belief, place: str) -> str | None:
    return None if belief.at(place) else f"go to {place}"
