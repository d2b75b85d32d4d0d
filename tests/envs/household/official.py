"""A miniature game in the official files' format, in words of our own: what the tests of the readers play."""

import json
from pathlib import Path

DOMAIN = "(define (domain toy) (:action look :parameters ()) ; (:action Fly)\n (:action PutObject) (:action help))"

GRAMMAR = '''
grammar :: """
    {
        "intro": [{"rhs": "Hello!\\n\\n#look.feedback#\\n\\n#task#"}],
        "task": [{"rhs": "Your task is to: put a hot mug in shelf."}],
        "see": [
            {"condition": "openable(r:receptacle) & opened(r:receptacle)",
             "rhs": "{r.name} (open): [{o.indefinite + ' ' + o.name | inreceptacle(o:object, r:receptacle)}]."},
            {"condition": "openable(r:receptacle)", "rhs": "{r.name} is shut."},
            {"rhs": "{r.name}: [{o.indefinite + ' ' + o.name | inreceptacle(o:object, r:receptacle)}]."}
        ],
        "never used": [{"rhs": "{o.name} (in the {r.name})}"}]
    }
""";

action GotoLocation {
    template :: "go to [{r.name | receptacleatlocation(r:receptacle, lend:location)}]";
    feedback :: "Now at #see#";
}
action OpenObject { template :: "open {r}"; feedback :: "Opened. #see#"; }
action CloseObject { template :: "close {r}"; feedback :: "Closed {r.name}."; }
action PickupObject { template :: "take {o} from {r}"; feedback :: "Got {o.name} from {r.name}."; }
action PutObject { template :: "put {o} in/on {r}"; feedback :: "Put {o.name} in/on {r.name}."; }
action examineReceptacle { template :: "examine {r}"; feedback :: "#see#"; }
action examineObject {
    template :: "examine {o}";
    feedback :: "#it#";
    grammar :: """
        {
            # a comment line
            "it": [
                {"condition": "isreceptacleobject(o:object)",
                 "rhs": "{o.name} holds [{o2.name | inreceptacleobject(o2:object, o:object)}]."},
                {"condition": "ishot(o:object) & issliced(o:object)", "rhs": "Hot, sliced {o.name}."},
                {"condition": "ishot(o:object)", "rhs": "Hot {o.name}."},
                {"condition": "iscool(o:object)", "rhs": "Cold {o.name}."},
                {"condition": "toggleable(o:object) & not_istoggled(o:object)", "rhs": "It is off."},
                {"rhs": "Just {o.name}."}
            ]
        }
    """;
}
action HeatObject { template :: "heat {o} with {r}"; feedback :: "Heated {o.name} in {r.name}."; }
action CoolObject { template :: "cool {o} with {r}"; feedback :: "Cooled {o.name} in {r.name}."; }
action CleanObject { template :: "clean {o} with {r}"; feedback :: "Cleaned {o.name} in {r.name}."; }
action SliceObject { template :: "slice {co} with {ko}"; feedback :: "Sliced {co.name} with {ko.name}."; }
action ToggleObject {
    template :: "use {o}";
    feedback :: "#switch#";
    grammar :: """
        {
            "switch": [
                {"condition": "toggleable(o:object) & istoggled(o:object)", "rhs": "{o.name} on."},
                {"rhs": "{o.name} off."}
            ]
        }
    """;
}
action inventory {
    template :: "inventory";
    feedback :: "#hand#";
    grammar :: """
        {
            "hand": [
                {"condition": "holdsany(a:agent)", "rhs": "Holding [{o.name | holds(a:agent, o:object)}]."},
                {"rhs": "Holding nothing."}
            ]
        }
    """;
}
action look {
    template :: "look";
    feedback :: "#look.feedback#";
    grammar :: """
        {
            "look.feedback": [
                {"condition": "atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)",
                 "rhs": "Before [{r.name | atlocation(a:agent, l:location) & receptacleatlocation(r:receptacle, l:location)}], beside it #floor#."},
                {"rhs": "Around you: [{#overview(r)# | receptacleatlocation(r:receptacle, l:location)}]."}
            ],
            "overview(r)": [{"rhs": "{r.indefinite} {r.name or r.id}"}],
            "floor": [
                {"rhs": "[{o.name | objectatlocation(o:object, l:location) & receptacleatlocation(r:receptacle, l:location) & not_inreceptacle(o:object, r:receptacle)}]"}
            ],
            "list_empty": [{"rhs": "naught"}],
            "list_last_separator": [{"rhs": " and "}]
        }
    """;
}
action help { template :: "help"; feedback :: "
Try things.
"; }
'''  # noqa: E501 - a rule's text cannot be broken

PROBLEM = """
(define (problem toy) (:domain toy)
(:objects agent1 - agent)
(:init
    (= (total-cost) 0)
    (atLocation agent1 loc_bar_0)
    (receptacleType Microwave_bar_1 MicrowaveType) (receptacleType Shelf_bar_1 ShelfType)
    (receptacleType Shelf_bar_2 ShelfType) (receptacleType Sink_bar_9_bar_SinkBasin SinkBasinType)
    (receptacleType Fridge_bar_1 FridgeType)
    (receptacleAtLocation Microwave_bar_1 loc_bar_1) (receptacleAtLocation Shelf_bar_1 loc_bar_2)
    (receptacleAtLocation Shelf_bar_2 loc_bar_2) (receptacleAtLocation Sink_bar_9_bar_SinkBasin loc_bar_3)
    (receptacleAtLocation Fridge_bar_1 loc_bar_4)
    (openable Microwave_bar_1) (openable Fridge_bar_1) (opened Fridge_bar_1)
    (objectType Mug_bar_1 MugType) (objectType Mug_bar_2 MugType) (objectType Knife_bar_1 KnifeType)
    (objectType Apple_bar_1 AppleType) (objectType DeskLamp_bar_1 DeskLampType) (objectType Sink_bar_9 SinkType)
    (canContain ShelfType MugType) (canContain ShelfType KnifeType) (canContain FridgeType AppleType)
    (canContain MicrowaveType MugType) (canContain SinkBasinType MugType)
    (pickupable Mug_bar_1) (pickupable Mug_bar_2) (pickupable Knife_bar_1) (pickupable Apple_bar_1)
    (isReceptacleObject Mug_bar_2) (inReceptacleObject Knife_bar_1 Mug_bar_2)
    (cleanable Mug_bar_1) (heatable Mug_bar_1) (coolable Apple_bar_1) (heatable Apple_bar_1) (sliceable Apple_bar_1)
    (toggleable DeskLamp_bar_1) (isCool Apple_bar_1)
    (inReceptacle Mug_bar_1 Microwave_bar_1) (inReceptacle Mug_bar_2 Shelf_bar_1) (inReceptacle Knife_bar_1 Shelf_bar_1)
    (inReceptacle DeskLamp_bar_1 Shelf_bar_2) (inReceptacle Apple_bar_1 Fridge_bar_1)
    (objectAtLocation Mug_bar_1 loc_bar_1) (objectAtLocation Mug_bar_2 loc_bar_2)
    (objectAtLocation Knife_bar_1 loc_bar_2) (objectAtLocation DeskLamp_bar_1 loc_bar_2)
    (objectAtLocation Apple_bar_1 loc_bar_4)
)
(:goal (and (exists (?r - receptacle) (exists (?o - object) (and
    (heatable ?o) (objectType ?o MugType) (receptacleType ?r ShelfType) (isHot ?o) (inReceptacle ?o ?r)))))))
"""

WALKTHROUGH = [
    "go to microwave 1",
    "open microwave 1",
    "take mug 2 from microwave 1",
    "heat mug 2 with microwave 1",
    "go to shelf 2",
    "put mug 2 in/on shelf 2",
]


def write_game(folder: Path, **changes: object) -> Path:
    """A `game.tw-pddl` under `folder`, with some of its fields replaced (None: left out)."""
    game = {"pddl_domain": DOMAIN, "grammar": GRAMMAR, "pddl_problem": PROBLEM, "solvable": True, **changes}
    game.setdefault("walkthrough", WALKTHROUGH)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "game.tw-pddl"
    path.write_text(json.dumps({name: value for name, value in game.items() if value is not None}))
    return path
