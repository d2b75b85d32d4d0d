from worldline.kernel.fillings import IN_THE_TASK, Fillings
from worldline.kernel.phrases import Phrasing

PHRASING = Phrasing(frozenset({"take", "put", "in", "rest"}))
LISTS = [
    (0, "cups", ("take red cup 1", "put fork in box", "rest")),
    (1, "forks", ("put red cup 2 in box", "take red cup 3")),
    (2, "forks", ("put red cup 2 in box",)),
]


def test_names_in_view_and_what_can_be_made_of_them() -> None:
    fillings = Fillings(PHRASING, LISTS, [])
    assert fillings.in_view("A red cup 1, a fork; a crimson cup 2.") == ["red cup 1", "fork"]
    assert fillings.in_view("A red cup 9.") == ["red cup 9"], "numbers aside, it is called so"
    assert list(fillings.filled(["red cup 7", "box"])) == ["put red cup 7 in box", "take red cup 7"]
    assert list(fillings.filled(["cup", "box"])) == [], "neither is what a cup is called there"


def test_what_a_goal_names_may_stand_where_those_of_its_kind_stood() -> None:
    """Cups and pans were taken, and cups were washed."""
    lists = [(0, "t", ("take cup", "take pan", "take rag", "wash cup"))]
    fillings = Fillings(Phrasing(frozenset({"take", "wash"})), lists, [])
    assert list(fillings.filled(["pan"])) == ["take pan"]
    assert list(fillings.filled(["pan", "rag"], frozenset({"pan"}))) == ["take pan", "take rag", "wash pan"]
    assert list(fillings.filled(["lid"], frozenset({"lid"}))) == []


def test_an_action_is_listed_elsewhere_if_another_task_lists_it_with_any_number() -> None:
    fillings = Fillings(PHRASING, LISTS, [])

    def elsewhere(action: str, task: str, own: int = -1, as_new: bool = False) -> int:
        return fillings.listed_elsewhere(action, task, own, as_new)

    assert elsewhere("take red cup 8", "pans") == 2
    assert elsewhere("take red cup 8", "cups") == IN_THE_TASK
    assert elsewhere("take red cup 8", "cups", own=0) == 1, "its own list says nothing"
    assert elsewhere("take red cup 8", "cups", as_new=True) == 1
    assert elsewhere("put red cup 8 in box", "forks", own=1) == IN_THE_TASK
    assert elsewhere("put red cup 8 in box", "forks", own=1, as_new=True) == 0
    assert elsewhere("put fork in box", "cups", own=0) == 0
    assert elsewhere("put fork in box", "forks", own=1) == 1


def test_deeds_are_what_was_done_most_often_of_what_is_ever_listed() -> None:
    done = ["rest", "rest", "take red cup 1", "dance", "dance", "dance"]
    assert Fillings(PHRASING, LISTS, done).deeds == ("rest", "take *")
