"""Sentences of hand-made observations, and which of their tokens an episode has shown before."""

from worldline.paw.novelty import SENTENCE, repeated_places, sentences
from worldline.paw.rows import Observed, StepRow, to_rows
from worldline.types import Step, Trajectory


def letters(text: str) -> list[tuple[int, int]]:
    """The offsets of a tokenizer whose tokens are letters."""
    return [(at, at + 1) for at in range(len(text))]


def test_a_sentence_ends_at_a_stop_or_a_newline_and_no_text_is_lost() -> None:
    text = "You go. The box is shut!\nIs it?  No\n\nIt is 3.5 wide"
    parts = ["You go.", " The box is shut!\n", "Is it?", "  No\n\n", "It is 3.", "5 wide"]
    assert SENTENCE.findall(text) == parts
    made = sentences(text, letters(text))
    assert [sentence.text for sentence in made] == [part.strip() for part in parts]
    assert sorted(at for sentence in made for at in sentence.places) == list(range(len(text)))
    assert sentences("", []) == ()


def test_a_token_belongs_to_every_sentence_that_it_overlaps() -> None:
    """Tokens "A b", ". C", " d." and an empty one: the second stands in both sentences."""
    first, second = sentences("A b. C d.", [(0, 3), (3, 6), (6, 9), (9, 9)])
    assert (first.places, second.places) == (frozenset({0, 1}), frozenset({1, 2}))


def test_only_earlier_observations_count() -> None:
    texts = ["Hall. Hall.", "Shut. Hall.", "Hall is shut.", "Shut.\n"]
    repeated = repeated_places(sentences(text, letters(text)) for text in texts)
    assert repeated == [frozenset(), frozenset(range(5, 11)), frozenset(), frozenset(range(6))]


def novel_rows(observations: list[str], final: str, *, horizon: int = 1, skip: str = "") -> list[StepRow]:
    """The rows of one episode whose tokens are letters; the response to each step is one token, 0."""

    def encode(text: str) -> Observed:
        skipped = frozenset(at for at, letter in enumerate(text) if letter in skip)
        return Observed(tuple(map(ord, text)), (False,) * len(text), skipped, sentences(text, letters(text)))

    steps = tuple(Step(observation=text, action="go", prompt_ids=(1,), token_ids=(0,)) for text in observations)
    episode = Trajectory(id="e", env="toy", task_id="1", policy="p", steps=steps, final_observation=final)
    return to_rows([episode], encode, horizon=horizon)


def learned(row: StepRow) -> str:
    """The continuation as text, with the tokens that are no targets as dashes."""
    return "".join(chr(token) if hit else "-" for token, hit in zip(row.continuation, row.observed, strict=True))


def test_what_the_episode_has_shown_is_read_and_no_target() -> None:
    rows = novel_rows(["A hall.", "A hall. A key.", "A hall. A key."], "A key. Won!")
    assert [learned(row) for row in rows] == ["------- A key.", "", "------ Won!"]
    assert [(len(row.continuation), row.targets) for row in rows] == [(14, 7), (0, 0), (11, 5)]


def test_every_episode_begins_anew() -> None:
    encode = {text: Observed((1,), (False,), sentences=sentences(text, [(0, len(text))])) for text in ("A.", "B.")}
    step = Step(observation="A.", action="go", prompt_ids=(1,), token_ids=(0,))
    episode = Trajectory(id="e", env="toy", task_id="1", policy="p", steps=(step,), final_observation="B.")
    assert [row.targets for row in to_rows([episode, episode], encode.__getitem__)] == [1, 1]


def test_further_ahead_what_was_shown_on_the_way_is_no_target_either() -> None:
    rows = novel_rows(["A.", "B.", "B.C."], "D.", horizon=3)
    assert [learned(row) for row in rows] == ["B.---C.-D.", "--C.-D.", "D."]  # a dash for each action between


def test_skipped_tokens_stay_skipped() -> None:
    assert learned(novel_rows(["A."], "A. B#.", skip="#")[0]) == "-- B-."


def test_rows_that_differ_in_their_targets_teach_different_things() -> None:
    fresh, stale = novel_rows(["A."], "B. C.")[0], novel_rows(["B."], "B. C.")[0]
    assert fresh.continuation == stale.continuation
    assert fresh.transition != stale.transition
