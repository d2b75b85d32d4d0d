import numpy as np
import pytest
from written_logs import GREEN, RED, Played, episode, state_after

from worldline.kernel.candidates import KINDS
from worldline.kernel.features import NAMES, Seen
from worldline.kernel.model import KernelModel
from worldline.kernel.words import vocabulary

LOG = [
    episode(
        f"e{n}",
        "A price of 20 is named.",
        [Played(f"bid {bid}", f"Then {answer}."), Played("leave", "You go.")],
        task=f"t{n % 2}",
    )
    for n, (bid, answer) in enumerate([(10, 15), (10, 15), (12, 20), (8, 8), (12, 25)])
]


def column(model: KernelModel, number: int, steps: int, action: str, name: str, own: int = -1) -> dict[str, float]:
    """One feature, by the text of the candidate; the largest where several have the same text."""
    considered = model.consider(state_after(model, LOG[number], steps), action, own=own)
    values = model.described(considered, own)[:, NAMES.index(name)]
    out: dict[str, float] = {}
    for text, value in zip(considered.candidates.texts, values.tolist(), strict=True):
        out[text] = max(out.get(text, -np.inf), value)
    return out


@pytest.fixture(scope="module")
def model() -> KernelModel:
    return KernelModel(LOG)


def test_every_feature_has_a_name(model: KernelModel) -> None:
    considered = model.consider(state_after(model, LOG[0], 0), "bid 10")
    assert model.described(considered).shape == (len(considered.candidates), len(NAMES))
    assert len(set(NAMES)) == len(NAMES)
    assert np.isfinite(model.described(considered)).all()


def test_what_a_log_has_seen_less_the_rows_left_out(model: KernelModel) -> None:
    seen, owner = Seen(model.log), model.log.episode_of == 2
    assert seen.logged("Then 20.", None)
    assert not seen.logged("Then 20.", owner), "it is episode 2's own"
    assert not seen.logged("Then 21.", None)
    assert seen.words("t0", None) >= {"then", "15", "20", "25", "go"}
    assert seen.words("t0", None) - seen.words("t0", model.log.episode_of == 4) == {"25"}
    only = model.log.episode_of != 4
    assert seen.words("t0", only) == vocabulary("A price of 20 is named. Then 25. You go.")
    assert seen.words("t9", None) == frozenset()


def test_a_step_as_new_has_seen_nothing_of_its_action_in_its_task() -> None:
    """What others of the task were answered to the very action is left out of every feature that looks at the task."""
    log = [
        episode(f"e{n}-{p}", "A door.", [Played("push 7", "Stuck."), Played("wait", f"Hour {n}.")], task=f"t{n}")
        for n in range(4)
        for p in range(3)
    ]
    model = KernelModel(log)
    state = state_after(model, log[0], 0)
    left_out = model._left_out(state.describe("push 7"), 0, as_new=True)
    assert "stuck" in model.seen.words("t0", model.log.episode_of == 0)
    assert "stuck" not in model.seen.words("t0", left_out)
    skeleton = model.log.language.phrasing.parse("push 7").skeleton
    assert model.task_pairs.of("t0", skeleton, model.log.episode_of == 0)
    assert not model.task_pairs.of("t0", skeleton, left_out)
    assert not model.task_bids.of("t0", left_out)[skeleton]


def test_numbers_are_placed_beside_those_shown_and_bid(model: KernelModel) -> None:
    """20 is shown and 10 bid."""
    value = {name: column(model, 0, 0, "bid 10", name) for name in NAMES if name.startswith("number")}
    assert {text for text, v in value["number above the one shown"].items() if v} == {"Then 25."}
    assert value["number as shown"]["Then 20."] == 1
    assert value["number as the action's"]["Then 10."] == 1, "8 was answered to 8"
    below = column(model, 0, 0, "bid 18", "number below the action's")
    assert (below["Then 15."], below["Then 20."]) == (1, 0)
    assert value["number between them"]["Then 15."] == 0.5
    assert value["number between them"]["Then 20."] == 1.0
    assert value["number between them"]["Then 25."] == 1.5


def test_agreement_is_the_share_of_the_rows_with_a_text(model: KernelModel) -> None:
    """Of the three others who bid 10 or 12, without episode 2: twice 15, once 25."""
    shares = column(model, 0, 0, "bid 10", "agreeing rows of this action")
    assert shares["Then 15."] == 1.0
    shares = column(model, 0, 0, "bid 12", "agreeing rows of this action")
    assert (shares["Then 20."], shares["Then 25."]) == (0.5, 0.5)
    shares = column(model, 0, 0, "bid 12", "agreeing rows of this action", own=4)
    assert shares["Then 20."] == 1.0
    assert shares.get("Then 25.", 0.0) == 0.0


def test_what_the_episode_has_shown(model: KernelModel) -> None:
    again = column(model, 0, 1, "bid 10", "shown before to this action")
    assert {text for text, v in again.items() if v} == {"Then 15."}
    unchanged = column(model, 0, 1, "bid 10", "nothing changes")
    assert {text for text, v in unchanged.items() if v} == {"Then 15."}
    own = column(model, 0, 1, "bid 10", "of this episode")
    assert own["Then 15."] == 1


def test_kinds_are_one_of_many(lamp_model: KernelModel) -> None:
    logged = lamp_model.log.episodes[0]
    considered = lamp_model.consider(state_after(lamp_model, logged, 1), "wait")
    first = NAMES.index(f"kind: {KINDS[0]}")
    kinds = considered.features[:, first : first + len(KINDS)]
    assert (kinds.sum(1) == 1).all()
    assert (kinds.argmax(1) == considered.candidates.kinds).all()
    assert set(considered.candidates.texts) == {RED, GREEN}
