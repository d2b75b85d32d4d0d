"""Tokens: prefixes stay prefixes, budgets are kept, training sees what acting sees."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from worldline.policies import TEMPLATES, Encoder, render
from worldline.types import Exchange, InputError, Turn

Make = Callable[..., Turn]
texts = st.text(max_size=60)


@settings(max_examples=60, deadline=None)
@given(goal=texts, steps=st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_a_transcript_only_grows(tokenizer: Any, goal: str, steps: list[tuple[str, str]]) -> None:
    encoder = Encoder(tokenizer, TEMPLATES["transcript"], max_tokens=10_000)
    exchanges = [Exchange(observation, action) for observation, action in steps]
    turns = [Turn("other", goal, past.observation, None, exchanges[:i]) for i, past in enumerate(exchanges)]
    for turn, after, past in zip(turns, turns[1:], exchanges, strict=False):
        seen = encoder.prompt(turn) + encoder.action(past.action)
        assert encoder.prompt(after)[: len(seen)] == seen
    whole = encoder.example(turns[-1], exchanges[-1].action)
    assert whole.ids == encoder.prompt(turns[-1]) + encoder.action(exchanges[-1].action)
    action_tokens = [token for token, mark in zip(whole.ids, whole.is_action, strict=True) if mark]
    assert action_tokens == [token for past in exchanges for token in encoder.action(past.action)]


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_tokens_spell_the_prompt(tokenizer: Any, make_turn: Make, name: str) -> None:
    turn = make_turn(steps=2)
    decoded = tokenizer.decode(Encoder(tokenizer, TEMPLATES[name]).prompt(turn))
    assert decoded.removesuffix("\n") == render(TEMPLATES[name], turn)


def test_chat_models_get_a_message_except_for_transcripts(chat_tokenizer: Any, make_turn: Make) -> None:
    turn = make_turn(steps=1)
    text = chat_tokenizer.decode(Encoder(chat_tokenizer, TEMPLATES["plain"]).prompt(turn))
    assert text == f"<|user|>{render(TEMPLATES['plain'], turn)}<|end|><|assistant|>"
    text = chat_tokenizer.decode(Encoder(chat_tokenizer, TEMPLATES["transcript"]).prompt(turn))
    assert text == render(TEMPLATES["transcript"], turn)


def test_an_action_ends_with_its_line_or_with_end_of_text(tokenizer: Any) -> None:
    assert tokenizer.decode(Encoder(tokenizer, TEMPLATES["transcript"]).action("look")) == " look\n"
    assert tokenizer.decode(Encoder(tokenizer, TEMPLATES["plain"]).action("look")) == "look<|end|>"


@pytest.mark.parametrize("name", list(TEMPLATES))
@pytest.mark.parametrize("history", [0, 1, 3])
def test_history_length_is_configurable(tokenizer: Any, make_turn: Make, name: str, history: int) -> None:
    turn = make_turn(steps=5)
    text = tokenizer.decode(Encoder(tokenizer, TEMPLATES[name], history=history).prompt(turn))
    assert [f"egg {i}." in text for i in range(5)] == [i >= 5 - history for i in range(5)]


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_oldest_history_goes_first(tokenizer: Any, make_turn: Make, name: str) -> None:
    turn = make_turn(steps=6)
    whole = len(Encoder(tokenizer, TEMPLATES[name], history="all").prompt(turn))
    for budget in range(whole - 60, whole + 1, 6):
        encoder = Encoder(tokenizer, TEMPLATES[name], max_tokens=budget, history="all")
        ids = encoder.prompt(turn)
        text = tokenizer.decode(ids)
        shown = [f"egg {i}." in text for i in range(6)]
        dropped = shown.index(True)
        fuller = Encoder(tokenizer, TEMPLATES[name], history=6 - dropped + 1).prompt(turn)
        assert len(ids) <= budget
        assert all(shown[dropped:])
        assert dropped == 0 or len(fuller) > budget
        assert turn.observation.strip(".") in text
        assert (encoder.counts.dropped_history, encoder.counts.cut_observation) == (int(dropped > 0), 0)


@pytest.mark.parametrize("name", list(TEMPLATES))
def test_then_the_middle_of_the_observation(tokenizer: Any, make_turn: Make, name: str) -> None:
    turn = make_turn(steps=3, observation="BEGIN " + "apple desk fridge " * 300 + "END")
    encoder = Encoder(tokenizer, TEMPLATES[name], max_tokens=600)
    ids = encoder.prompt(turn)
    text = tokenizer.decode(ids)
    assert 500 < len(ids) <= 600
    assert "BEGIN" in text
    assert "END" in text
    assert " ... " in text
    assert "egg" not in text
    assert turn.goal.strip(".") in text
    assert (encoder.counts.prompts, encoder.counts.cut_observation) == (1, 1)


def test_nothing_is_too_long(tokenizer: Any, make_turn: Make) -> None:
    turns = [
        make_turn(observation="apple desk " * 1_000_000),
        make_turn(goal="apple desk " * 500),
        make_turn(admissible=tuple(f"go to desk {i}" for i in range(300))),
    ]
    for template in TEMPLATES.values():
        prompts = Encoder(tokenizer, template, max_tokens=100).prompts(turns)
        assert max(len(prompt) for prompt in prompts) <= 100


def test_a_prompt_does_not_depend_on_its_company(tokenizer: Any, make_turn: Make) -> None:
    turns = [make_turn(steps=i, observation=f"You see a egg {i}. " * (1 + 40 * (i == 3))) for i in range(6)]
    for template in TEMPLATES.values():
        together = Encoder(tokenizer, template, max_tokens=400).prompts(turns)
        assert together == [Encoder(tokenizer, template, max_tokens=400).prompt(turn) for turn in turns]


def test_beginning_of_text_where_the_tokenizer_wants_it(tokenizer: Any, make_turn: Make) -> None:
    from tokenizers import Tokenizer, processors
    from transformers import PreTrainedTokenizerFast

    bpe = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    bpe.post_processor = processors.TemplateProcessing(single="<|user|> $A", special_tokens=[("<|user|>", 2)])
    other = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token="<|user|>", eos_token="<|end|>")
    turn = make_turn(steps=2)
    for template in TEMPLATES.values():
        assert Encoder(other, template).prompt(turn) == [2, *Encoder(tokenizer, template).prompt(turn)]
        assert Encoder(other, template).action("look") == Encoder(tokenizer, template).action("look")


def test_a_tokenizer_without_any_end_is_refused(tokenizer: Any) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({"look": 0, "?": 1}, unk_token="?"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    with pytest.raises(InputError, match="no response would end"):
        Encoder(PreTrainedTokenizerFast(tokenizer_object=words), TEMPLATES["transcript"])


def test_example_of_other_templates_marks_the_answer_only(tokenizer: Any, make_turn: Make) -> None:
    turn = replace(make_turn(steps=3), seed=5)
    encoder = Encoder(tokenizer, TEMPLATES["plain"])
    example = encoder.example(turn, "look")
    assert example.ids == encoder.prompt(turn) + encoder.action("look")
    assert sum(example.is_action) == len(encoder.action("look"))
    assert example.is_action[-1]


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
LLAMA = Regex(r"(?i:'s|'t)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
PLAIN_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
IN_CLAUSES = {
    "words of GPT-2": BYTES,
    "digits apart": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), BYTES]),
    "words of Llama 3": pre_tokenizers.Sequence([pre_tokenizers.Split(LLAMA, "isolated"), PLAIN_BYTES]),
}
WHOLE = {
    "no words": PLAIN_BYTES,
    "no rule": None,
    "a space before the first word": pre_tokenizers.ByteLevel(add_prefix_space=True),
    "a mark before the first word": pre_tokenizers.Metaspace(),
    "whole sentences": pre_tokenizers.Split(". ", "merged_with_previous"),
}
TAUGHT = [
    "You see a mug 1, a pan 2. The fridge 1 is closed.\nWhat now? 'go to shelf 1', 'look'.\n\n'open fridge 1'"
] * 3


def tokenizer_of(words: Any) -> Any:
    """A tokenizer that has merged whatever its words allow in `TAUGHT`."""
    bpe = Tokenizer(models.BPE())
    if words is not None:
        bpe.pre_tokenizer = words
    alphabet = sorted({*pre_tokenizers.ByteLevel.alphabet(), *"".join(TAUGHT), "\u2581"})
    bpe.train_from_iterator(TAUGHT, trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet))
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="'", pad_token="'")


@pytest.mark.parametrize("words", [*IN_CLAUSES, *WHOLE])
def test_a_prompt_in_clauses_has_the_tokens_of_the_whole(words: str) -> None:
    tokenizer = tokenizer_of((IN_CLAUSES | WHOLE)[words])
    encoder = Encoder(tokenizer, TEMPLATES["plain"])

    @settings(max_examples=150, deadline=None)
    @given(parts=st.lists(st.sampled_from([*" ,.\n\t'a7", ", ", ". ", ".\n", "\u00e9", "\u65e5", TAUGHT[0]]) | texts))
    def same(parts: list[str]) -> None:
        text = "".join(parts)
        assert encoder.tokenised([text, text]) == [tokenizer.encode(text, add_special_tokens=False)] * 2

    same()
    assert bool(encoder._remembered) == (words in IN_CLAUSES)  # whole messages never come back


@pytest.mark.parametrize("words", WHOLE)
def test_clauses_would_change_the_tokens_of_such_tokenizers(words: str) -> None:
    tokenizer = tokenizer_of(WHOLE[words])
    comma, line = TAUGHT[0].index(",") + 1, TAUGHT[0].index("\n") + 1
    whole, *parts = (
        tokenizer.encode(text, add_special_tokens=False)
        for text in (TAUGHT[0], TAUGHT[0][:comma], TAUGHT[0][comma:], TAUGHT[0][:line], TAUGHT[0][line:])
    )
    assert parts[0] + parts[1] != whole or parts[2] + parts[3] != whole
