from worldline.narrator.grammar import Grammar
from worldline.narrator.history import History, shared

GRAMMAR = Grammar.induce(
    [f"go to {r}" for r in ("desk 1", "safe 1", "bed 1", "sofa 2")]
    + [f"take {o} from {r}" for o in ("cup 1", "pen 2", "fork 3") for r in ("desk 1", "safe 1", "bed 1")]
)


def history() -> History:
    past = History(GRAMMAR, "t", "bring a cup", "You see a desk 1, a safe 1, and a bed 1.")
    past.advance("go to desk 1", "On the desk 1, you see a cup 1, and a pen 2.")
    past.advance("take cup 1 from desk 1", "You pick up the cup 1 from the desk 1.")
    past.advance("go to safe 1", "On the safe 1, you see nothing.")
    return past


def test_what_was_last_done_to_a_thing() -> None:
    past = history()
    assert past.status == {"cup 1": "take * from *#0", "desk 1": "take * from *#1", "safe 1": "go to *#0"}
    assert past.counterpart("take * from *#0") == "cup 1"
    assert past.counterpart("go to *#0") == "safe 1"
    assert past.counterpart("eat *#0") is None


def test_what_was_seen_where() -> None:
    past = history()
    assert past.where["pen 2"] == {"go to desk 1"}
    assert past.views("desk 1") == [1]
    assert past.views("safe 1") == [3]
    assert past.views("cup 1") == []
    assert past.handled("desk 1") == [("cup 1", True), ("safe 1", False)]
    assert past.handled("desk 1", since=2) == [("safe 1", False)]
    past.advance("take cup 1 from safe 1", "You pick up the cup 1 from the safe 1.")
    assert dict(past.handled("desk 1"))["cup 1"] is False
    assert past.answers("go to desk 1") == ["On the desk 1, you see a cup 1, and a pen 2."]


def test_states_differ_by_what_was_done() -> None:
    past = history()
    assert past.state("bed 1") != past.state("desk 1")
    again = history()
    assert again.states(GRAMMAR.parse("go to desk 1")) == past.states(GRAMMAR.parse("go to desk 1"))


def test_a_copy_goes_its_own_way() -> None:
    past = history()
    twin = past.copy()
    twin.advance("go to bed 1", "On the bed 1, you see a fork 3.")
    assert len(past.actions) == 3
    assert "fork 3" not in past.where
    assert "bed 1" not in past.status
    assert twin.observation == "On the bed 1, you see a fork 3."


def test_shared_words() -> None:
    assert shared({"a", "b"}, {"b", "c"}) == 0.5
    assert shared(set(), set()) == 1.0
    assert shared({"a"}, set()) == 0.0


def test_what_the_world_refused_was_not_done() -> None:
    past = history()
    before = past.state("cup 1")
    past.advance("take cup 1 from safe 1", "Nothing happens.", valid=False)
    assert past.state("cup 1") == before
    assert past.answers("take cup 1 from safe 1") == ["Nothing happens."]
    assert len(past.actions) == len(past.commands) == len(past.observations) - 1
