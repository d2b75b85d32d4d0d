from worldline.narrator.grammar import Grammar
from worldline.narrator.history import History, shared

GRAMMAR = Grammar.induce(
    [f"go to {r}" for r in ("desk 1", "safe 1", "bed 1", "sofa 2")]
    + [f"take {o} from {r}" for o in ("cup 1", "pen 2", "fork 3") for r in ("desk 1", "safe 1", "bed 1")]
)


def history() -> History:
    told = History(GRAMMAR, "t", "bring a cup", "You see a desk 1, a safe 1, and a bed 1.")
    told.advance("go to desk 1", "On the desk 1, you see a cup 1, and a pen 2.")
    told.advance("take cup 1 from desk 1", "You pick up the cup 1 from the desk 1.")
    told.advance("go to safe 1", "On the safe 1, you see nothing.")
    return told


def test_what_was_last_done_to_a_thing() -> None:
    told = history()
    assert told.status == {"cup 1": "take * from *#0", "desk 1": "take * from *#1", "safe 1": "go to *#0"}
    assert told.counterpart("take * from *#0") == "cup 1"
    assert told.counterpart("go to *#0") == "safe 1"
    assert told.counterpart("eat *#0") is None


def test_what_was_seen_where() -> None:
    told = history()
    assert told.where["pen 2"] == {"go to desk 1"}
    assert told.views("desk 1") == [1]
    assert told.views("safe 1") == [3]
    assert told.views("cup 1") == []
    assert told.handled("desk 1") == [("cup 1", True), ("safe 1", False)]
    assert told.handled("desk 1", since=2) == [("safe 1", False)]
    told.advance("take cup 1 from safe 1", "You pick up the cup 1 from the safe 1.")
    assert dict(told.handled("desk 1"))["cup 1"] is False
    assert told.answers("go to desk 1") == ["On the desk 1, you see a cup 1, and a pen 2."]


def test_states_differ_by_what_was_done() -> None:
    told = history()
    assert told.state("bed 1") != told.state("desk 1")
    again = history()
    assert again.states(GRAMMAR.parse("go to desk 1")) == told.states(GRAMMAR.parse("go to desk 1"))


def test_a_copy_goes_its_own_way() -> None:
    told = history()
    twin = told.copy()
    twin.advance("go to bed 1", "On the bed 1, you see a fork 3.")
    assert len(told.actions) == 3
    assert "fork 3" not in told.where
    assert "bed 1" not in told.status
    assert twin.observation == "On the bed 1, you see a fork 3."


def test_shared_words() -> None:
    assert shared({"a", "b"}, {"b", "c"}) == 0.5
    assert shared(set(), set()) == 1.0
    assert shared({"a"}, set()) == 0.0


def test_what_the_world_refused_was_not_done() -> None:
    told = history()
    before = told.state("cup 1")
    told.advance("take cup 1 from safe 1", "Nothing happens.", valid=False)
    assert told.state("cup 1") == before
    assert told.answers("take cup 1 from safe 1") == ["Nothing happens."]
    assert len(told.actions) == len(told.commands) == len(told.observations) - 1
