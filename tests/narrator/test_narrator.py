"""The text side of a fitted world model, against the environment it learned from."""

import torch
from tiny_house import play

from worldline.adwm.fit import Fitted
from worldline.narrator.admissible import Situation
from worldline.narrator.grammar import Grammar
from worldline.narrator.history import History
from worldline.narrator.log_model import LogModel
from worldline.narrator.narrator import Narrator, StepQuery
from worldline.narrator.retrieval import CandidateAnswer, ContentsModel
from worldline.types import Step, Trajectory, World


def walk(narrator: Narrator, episodes: list[Trajectory]):  # type: ignore[no-untyped-def]
    """Every step of episodes that are not in the log: the chronicle before it, its index, its answer."""
    for episode in episodes:
        start = episode.steps[0].observation
        history = History(narrator.log_model.grammar, episode.task_id, episode.goal, start)
        answers = [*(step.observation for step in episode.steps[1:]), episode.final_observation]
        for at, answer in enumerate(answers):
            yield episode, history, at, answer
            history.advance(episode.steps[at].action, answer)


def test_it_answers_as_the_world_does(fitted: Fitted, house: World) -> None:
    """Fresh episodes of logged tasks: nearly every answer, word for word."""
    narrator = fitted.ensemble.members[0].narrator
    right = total = 0
    for episode, history, at, answer in walk(narrator, play(house, 0.4, 24, seed=9)):
        listed = narrator.listed([None], [episode.steps[at].admissible], [episode.steps[at].action])
        question = StepQuery(history, episode.steps[at].action, listed[0], draw=0.5)
        given = narrator.answers([question], torch.zeros(1, narrator.latents.shape[1]))[0]
        right += given.text == answer
        total += 1
    assert total > 80
    assert right / total > 0.85


def test_it_lists_what_the_world_allows(fitted: Fitted, house: World) -> None:
    narrator = fitted.ensemble.members[0].narrator
    missing = extra = lists = size = 0
    candidates: list[CandidateAnswer] = []
    for episode, history, at, _ in walk(narrator, play(house, 0.4, 24, seed=9)):
        previous, candidates = candidates, narrator.log_model.index.candidates(history, episode.steps[at].action)
        if at == 0:
            continue
        before, start = episode.steps[at - 1].admissible or (), episode.steps[0].admissible or ()
        source = next((c for c in previous if c.text == episode.steps[at].observation and c.source), None)
        allowed = set(narrator.allowed([narrator.log_model.situation(history, source, before, start)])[0])
        true = set(episode.steps[at].admissible or ())
        lists, size = lists + 1, size + len(true)
        missing, extra = missing + len(true - allowed), extra + len(allowed - true)
    assert lists > 60
    assert missing / size < 0.05
    assert extra / size < 0.05


def test_an_unheard_of_action_is_answered_and_flagged(fitted: Fitted, log: list[Trajectory]) -> None:
    narrator, episode = fitted.ensemble.members[0].narrator, log[0]
    history = History(narrator.log_model.grammar, episode.task_id, episode.goal, episode.steps[0].observation)
    listed = narrator.listed([None], [episode.steps[0].admissible], ["sing a song"])
    answers = narrator.answers(
        [StepQuery(history, "sing a song", listed[0], 0.3)], torch.zeros(1, narrator.latents.shape[1])
    )
    assert answers[0].text
    assert not answers[0].supported


def sings(house: World, action: str = "sing a song") -> Trajectory:
    """An episode that says what the world does not understand, the second time in vain like the first."""
    environment = house.make()
    before, info = environment.reset(seed=0, task=house.get_task("train", 0))
    steps = []
    for _ in range(2):
        after, reward, _, _, result_info = environment.step(action)
        listed = info["admissible"]
        steps.append(
            Step(observation=before, admissible=listed, action=action, reward=reward, valid=result_info["valid"])
        )
        before, info = after, result_info
    played = {"steps": tuple(steps), "final_observation": before, "terminated": False, "truncated": True}
    made: Trajectory = play(house, 0.0, 1)[0].model_copy(update={"id": action, **played})
    return made


def test_what_the_world_only_ever_says_to_refuse_changes_nothing(house: World, log: list[Trajectory]) -> None:
    sung = sings(house)
    assert not any(step.valid for step in sung.steps)
    log_model = LogModel.of([*log, sung], 64)
    assert log_model.refusals == {log_model.grammar.outline(sung.final_observation)}
    assert not LogModel.of(log, 64).refusals
    narrator, z = Narrator(log_model, 4), torch.zeros(1, 4)
    for listed in ("no", "no 4", "yes"):  # there is no other answer to it
        answer = narrator.answers([StepQuery(log_model.history(0), "juggle 3 cups", listed, 0.5)], z)[0]
        assert (answer.text, answer.refused, answer.valid) == (sung.final_observation, True, False)


def test_what_is_not_listed_and_was_never_done_is_refused(house: World, log: list[Trajectory]) -> None:
    """In a world that refused all it had not listed; what was done before with such things, it may do again."""
    log_model = LogModel.of([*log, sings(house, "go to moon 1"), sings(house, "hum")], 64)
    assert log_model.always_refused == {"go to *", "hum"}
    history, opening = (
        log_model.history(0),
        next(a for a in log_model.index.transitions if a.action.startswith("open ")),
    )
    assert log_model.index.candidates(history, "go to song 1")[0].near == "shape", "could be carried over"
    narrator, z = Narrator(log_model, 4), torch.zeros(1, 4)

    def refused(action: str, listed: str) -> bool:
        answers = (narrator.answers([StepQuery(history, action, listed, draw / 9)], z)[0] for draw in range(9))
        return all(answer.refused for answer in answers)

    assert refused("go to song 1", "no 4")
    history.advance("go to song 1", "Nothing happens.", False)
    assert refused("go to song 1", "no 4"), "nor when it insists"
    assert not refused("go to song 2", "yes")
    assert not refused(log[0].steps[0].action, "no 4")
    assert not refused(opening.action.replace(opening.things[0], "song 1"), "no 4"), "of opening nothing is known"


def test_a_refusal_that_ended_or_paid_or_was_also_said_in_earnest_is_left_to_the_heads(
    house: World, log: list[Trajectory]
) -> None:
    sung = sings(house)
    for changed, strict in (({"reward": 1.0}, 1), ({"valid": True}, 0)):
        steps = (sung.steps[0], sung.steps[1].model_copy(update=changed))
        log_model = LogModel.of([*log, sung.model_copy(update={"steps": steps})], 64)
        assert not log_model.refusals
        assert len(log_model.always_refused) == strict, "once it did what it had not listed, and may again"
    assert not LogModel.of([*log, sung.model_copy(update={"terminated": True, "truncated": False})], 64).refusals


def test_the_draw_alone_decides_among_candidates(fitted: Fitted, log: list[Trajectory]) -> None:
    narrator, episode = fitted.ensemble.members[0].narrator, log[0]
    history = History(narrator.log_model.grammar, "elsewhere", episode.goal, episode.steps[0].observation)
    z = torch.zeros(1, narrator.latents.shape[1])

    def answer_text(action: str, draw: float) -> str:
        return narrator.answers([StepQuery(history, action, "yes", draw)], z)[0].text

    places = [a for a in episode.steps[0].admissible or () if a.startswith("go to")]
    assert [answer_text(place, 0.2) for place in places] == [answer_text(place, 0.2) for place in places]
    assert max(len({answer_text(place, draw / 20) for draw in range(20)}) for place in places) > 1


def test_the_nearest_answer_is_of_the_same_action_and_never_the_episodes_own(
    fitted: Fitted, log: list[Trajectory]
) -> None:
    """Many at once, against looking through all transitions one by one."""
    narrator = fitted.ensemble.members[0].narrator
    log_model, generator = narrator.log_model, torch.Generator().manual_seed(0)
    histories = [log_model.history(number) for number in (0, 0, 1, 2)]
    actions = [log[0].steps[0].action, log[0].steps[1].action, log[0].steps[0].action, "juggle 3 cups"]
    z = torch.randn(4, narrator.latents.shape[1], generator=generator)
    for history, action, row, answer in zip(
        histories, actions, z, narrator.nearest(histories, actions, z), strict=True
    ):
        others = [tr for tr in log_model.index.transitions if tr.episode != history.episode]
        alike = [tr for tr in others if tr.action == action] or others
        best = min(alike, key=lambda tr: float((narrator.latents[tr.index] - row).pow(2).mean()))
        assert answer.candidate is not None
        assert answer.candidate.source == best
        assert abs(answer.distance - float((narrator.latents[best.index] - row).pow(2).mean())) < 1e-5


def test_lists_keep_the_order_of_a_world_that_does_not_sort() -> None:
    """Template by template; what was listed before, then in the order of the text, sentences after names."""
    grammar = Grammar.induce(
        [
            *(f"<search>{q}</search>" for q in ("who", "ada", "bo", "cy")),
            *(f"<answer>{q}</answer>" for q in ("ada", "x")),
        ]
    )
    history = History(grammar, "t", "who", "ask")
    history.advance("<search>who</search>", "Cy met Bo. It was long ago in 1902.")
    before = ("<search>who</search>", "<answer>ada</answer>")
    situation = Situation(history, ContentsModel({}), None, before, before)
    wanted = (
        *("<search>who</search>", "<search>cy</search>", "<search>bo</search>"),
        *(
            "<answer>ada</answer>",
            "<answer>bo</answer>",
            "<answer>1902</answer>",
            "<answer>it was long ago in</answer>",
        ),
    )
    assert situation.ordered(sorted(wanted)) == wanted
