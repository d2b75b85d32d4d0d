"""Prompts against the paper's printed figures, and responses against what they mean."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from worldline.policies import TEMPLATES, render
from worldline.types import Exchange, Turn

Make = Callable[..., Turn]

FIGURE_7 = (
    "You are an expert agent operating in the ALFRED embodied Environment. Your task is to: put some apple on the desk."
    " Prior to this step, you have already taken 5 step(s). Below are the most recent 2 observations and the"
    " corresponding actions you took: [Observation 4: 'You see a egg 3.', Action 4: 'open fridge 1'],"
    " [Observation 5: 'You see a egg 4.', Action 5: 'look']. You are now at step 6 and your current observation is: You"
    " are in the middle of a room. Your admissible actions of the current situation are: ['look', 'go to desk 1']. Now"
    " it's your turn to take an action. You should first reason step-by-step about the current situation. This"
    " reasoning process MUST be enclosed within <think> </think> tags. Once you've finished your reasoning, you should"
    " choose an admissible action for current step and present it within <action> </action> tags."
)
FIGURE_8 = (
    "You are an expert autonomous agent operating in the WebShop e-commerce environment. Your task is to: buy a mug."
    " Prior to this step, you have already taken 1 step(s). Below are the most recent 1 observations and the"
    " corresponding actions you took: [Observation 1: 'Search', Action 1: 'search[mug]']. You are now at step 2 and"
    " your current observation is: Page 1. Your admissible actions for the current situation are: ['click[b01]']. Now"
    " it's your turn to take one action for the current step. You should first reason step-by-step about the current"
    " situation, then think carefully which admissible action best advances the shopping goal. This reasoning process"
    " MUST be enclosed within <think> </think> tags. Once you've finished your reasoning, you should choose an"
    " admissible action for current step and present it within <action> </action> tags."
)
FIGURE_9 = (
    "You are an expert agent tasked with answering the given question step-by-step. Your question: who?. Prior to this"
    " step, you have already taken 1 step(s). Below is the interaction history where <search> </search> wrapped your"
    " past search queries and <information> </information> wrapped the corresponding search results returned by the"
    " external search engine. History: <search>he</search> <information>it is she</information> Now it's your turn to"
    " respond for the current step. You should first conduct reasoning process. This process MUST be enclosed within"
    " <think> </think> tags. After completing your reasoning, choose only one of the following actions (do not perform"
    " both): (1) If you find you lack some knowledge, you can call a search engine to get more external information"
    " using format: <search> your query </search>. (2) If you have enough knowledge to answer the question confidently,"
    " provide your final answer within <answer> </answer> tags, without detailed illustrations. For example,"
    " <answer>Beijing</answer>."
)


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_paper_household_is_figure_7(make_turn: Make) -> None:
    turn = make_turn(steps=5, admissible=("look", "help", "go to desk 1"))
    assert squeezed(render(TEMPLATES["paper"], turn, turn.history[-2:])) == FIGURE_7


def test_paper_shop_is_figure_8() -> None:
    turn = Turn("shop", "buy a mug", "Page 1", ("click[b01]",), (Exchange("Search", "search[mug]"),))
    assert squeezed(render(TEMPLATES["paper"], turn)) == FIGURE_8


def test_paper_search_is_figure_9() -> None:
    turn = Turn("search", "who?", "it is she", None, (Exchange("who?", "<search>he</search>"),))
    assert squeezed(render(TEMPLATES["paper"], turn)) == FIGURE_9


def test_search_results_keep_their_own_tags() -> None:
    result = "<information>it is she</information>"
    turn = Turn("search", "who?", result, None, (Exchange("who?", "<search>he</search>"),))
    assert squeezed(render(TEMPLATES["paper"], turn)) == FIGURE_9


@pytest.mark.parametrize("name", ["plain", "paper", "react"])
@pytest.mark.parametrize("family", ["household", "shop", "search", "something else"])
def test_every_family_has_a_prompt_at_the_first_step(make_turn: Make, name: str, family: str) -> None:
    text = render(TEMPLATES[name], make_turn(steps=0, family=family, admissible=None))
    assert "put some apple on the desk" in text
    assert "0 step(s)" in text
    assert "Below" not in text
    assert "admissible actions of" not in text
    assert ("<think>" in text) == (name == "paper")


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_no_agent_is_shown_which_task_it_is(make_turn: Make, name: str) -> None:
    turn = make_turn()
    assert render(TEMPLATES[name], replace(turn, task="boil/6")) == render(TEMPLATES[name], turn)


def test_transcript_is_the_episode_and_nothing_else(make_turn: Make) -> None:
    assert render(TEMPLATES["transcript"], make_turn(steps=2)) == (
        "Task: put some apple on the desk.\n"
        "You see a egg 0.\n> go to cabinet 1\n"
        "You see a egg 1.\n> go to desk 1\n"
        "You are in the middle of a room.\n>"
    )


def test_default_history() -> None:
    assert TEMPLATES["transcript"].history("household") is None
    assert TEMPLATES["paper"].history("search") is None
    assert TEMPLATES["paper"].history("household") == TEMPLATES["plain"].history("shop") == 2


@pytest.mark.parametrize(
    ("template", "family", "response", "action"),
    [
        ("paper", "household", "<think>hm</think><action> look </action>", "look"),
        ("paper", "household", "<think>not <action>go</action></think>\n<action>look</action>", "look"),
        ("paper", "household", "<think>so\n<action>open\nfridge", "<think>so"),
        ("paper", "household", "  \n I would look \n around", "I would look"),
        ("paper", "household", "", ""),
        ("paper", "search", "<think>?</think> <search> who is she </search>", "<search>who is she</search>"),
        ("paper", "search", "<answer>Rome</answer><search>x</search>", "<answer>Rome</answer>"),
        ("paper", "search", "Rome", "Rome"),
        ("react", "shop", "Thought: a mug.\nAction: click[buy now]\nObservation: none", "click[buy now]"),
        ("react", "shop", "click[buy now]", "click[buy now]"),
        ("react", "search", "Thought: x\nAction: <search>y</search>", "<search>y</search>"),
        ("plain", "household", "'go to desk 1'\nbecause", "go to desk 1"),
        ("plain", "search", "I try <search>y</search>.", "<search>y</search>"),
        ("transcript", "household", " go to desk 1\n", "go to desk 1"),
        ("transcript", "household", " '", "'"),
    ],
)
def test_parse(make_turn: Make, template: str, family: str, response: str, action: str) -> None:
    assert TEMPLATES[template].parse(response, make_turn(family=family)) == action


@pytest.mark.parametrize(
    ("template", "family", "response", "formed"),
    [
        ("paper", "household", "<think>hm</think><action>fly</action>", True),
        ("paper", "household", "<action>look</action>", False),  # no thought
        ("paper", "household", "<think><action>look</action></think>", False),  # no action outside it
        ("paper", "household", "<think>hm</think> look", False),
        ("paper", "search", "<think>?</think><search>x</search>", True),
        ("paper", "search", "<think>?</think>Rome", False),
        ("react", "shop", "Thought: a mug.\nAction: click[buy now]", True),
        ("react", "shop", "click[buy now]", False),
        ("plain", "household", "anything", True),
        ("plain", "search", "Rome", False),
        ("transcript", "household", " anything\n", True),
        ("transcript", "household", " \n", False),
    ],
)
def test_well_formed_means_an_action_can_be_read(template: str, family: str, response: str, formed: bool) -> None:
    assert TEMPLATES[template].well_formed(response, family) is formed


@pytest.mark.parametrize("name", list(TEMPLATES))
@pytest.mark.parametrize(
    ("family", "action"),
    [("household", "open fridge 1"), ("shop", "search[a mug]"), ("search", "<answer>Rome</answer>")],
)
def test_an_answer_means_its_action(make_turn: Make, name: str, family: str, action: str) -> None:
    assert TEMPLATES[name].parse(TEMPLATES[name].answer(action), make_turn(family=family)) == action
