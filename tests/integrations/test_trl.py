"""PaW inside TRL: the loss against brute force, whose words count, and a world played through the trainer.

TRL is imported where it is used: it takes seconds, and every process of a test run reads this file.
"""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from counting import CountingWorld
from tiny_llama import tiny_llama
from worldline.integrations.tool_answers import answer_mask
from worldline.integrations.trl_environment import OVER, TrlEnvironment, environment_factory, task_rows

if TYPE_CHECKING:
    from worldline.integrations.trl import PaWTrainer

pytestmark = pytest.mark.skipif(find_spec("trl") is None, reason="TRL is not installed: pip install 'worldline[trl]'")


def test_turns_are_counted_from_the_first_action() -> None:
    from worldline.integrations.trl import turns

    own = torch.tensor([[0, 1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 1, 1]]).bool()
    assert turns(own).tolist() == [[-1, 0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 2]]


def test_the_loss_is_the_mean_of_means_of_the_chosen_transitions() -> None:
    from worldline.integrations.trl import world_term

    generator = torch.Generator().manual_seed(0)
    own = torch.tensor([[1, 1, 0, 0, 1, 0, 0, 0], [1, 0, 0, 1, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]).bool()
    world = torch.tensor([[0, 0, 1, 1, 0, 1, 1, 0], [0, 1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0]]).bool()
    logprobs = -3 * torch.rand(3, 8, generator=generator)
    entropies = torch.rand(3, 8, generator=generator)
    coefficients = torch.tensor([0.5, 1.0, 0.3])
    spans = [(0, [0, 1], [2, 3]), (0, [4], [5, 6]), (1, [0], [1, 2]), (1, [3, 4], [5, 6, 7])]
    ranked = sorted(spans, key=lambda span: -float(entropies[span[0], span[1]].mean()))
    chosen = ranked[:2]  # half of the four transitions that were answered
    expected = 0.0
    for episode in range(3):
        losses = []
        for where, _, answer in chosen:
            if where == episode:
                p = logprobs[where, answer].exp()
                losses.append(float(((p <= 0.2) * (1 - p)).sum()) / len(answer))
        expected += float(coefficients[episode]) * (sum(losses) / len(losses) if losses else 0.0) / 3
    total, logs = world_term(logprobs, entropies, own, world, coefficients, alpha=0.5)
    assert float(total) == pytest.approx(expected, abs=1e-6)
    assert expected > 0 and 0 < logs["clipped_tokens"] < 1


def _rollout(prompts: list[Any], trainer: "PaWTrainer") -> dict[str, Any]:
    """Two actions, each answered by the world; no generation is needed to see the losses at work."""
    count = len(prompts)
    action, answer = [5, 2], [7, 8, 9, 2]
    return {
        "prompt_ids": [[4, 3] for _ in range(count)],
        "completion_ids": [action + answer + [6, 2] + answer for _ in range(count)],
        "logprobs": [[-1.0] * 12 for _ in range(count)],
        "env_mask": [[1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0] for _ in range(count)],
    }


def arguments(folder: Path, **settings: Any) -> Any:
    from trl import GRPOConfig

    defaults = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "num_generations": 2,
        "max_completion_length": 16,
        "max_steps": 3,
        "learning_rate": 5e-3,
        "beta": 0.0,
        "bf16": False,
        "report_to": [],
        "use_cpu": True,
        "save_strategy": "no",
        "logging_steps": 1,
    }
    return GRPOConfig(**{**defaults, **settings})


def scripted_trainer(start: Path, folder: Path, rollout: Any = _rollout, **settings: Any) -> "PaWTrainer":
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from worldline.integrations.trl import PaWTrainer

    return PaWTrainer(
        model=AutoModelForCausalLM.from_pretrained(start),
        processing_class=AutoTokenizer.from_pretrained(start),
        args=arguments(folder, **settings),
        train_dataset=Dataset.from_dict({"prompt": ["Task: count to 1"] * 8}),
        reward_funcs=[lambda completions, **kwargs: [0.0] * len(completions)],  # nothing for the policy to learn
        rollout_func=rollout,
        rho=1.0,
        alpha=1.0,
    )


def test_a_real_step_learns_what_the_world_answers(start: Path, tmp_path: Path, fresh_accelerator: None) -> None:
    trainer = scripted_trainer(start, tmp_path)
    trainer.train()
    logged = [line for line in trainer.state.log_history if "paw/world_loss" in line]
    assert len(logged) == 3
    assert logged[0]["paw/lambda"] == 1.0
    assert logged[-1]["paw/world_loss"] < logged[0]["paw/world_loss"]


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_the_world_is_scored_without_the_policys_temperature(
    start: Path, tmp_path: Path, fresh_accelerator: None, temperature: float
) -> None:
    """Against the model's own logits, of the tokens that the rollout function calls the world's and of no others."""
    from transformers import AutoModelForCausalLM

    spoken = [0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1]  # the first and the last token of an answer are somebody else's

    def rollout(prompts: list[Any], trainer: "PaWTrainer") -> dict[str, Any]:
        return {**_rollout(prompts, trainer), "world_mask": [spoken for _ in prompts]}

    trainer = scripted_trainer(start, tmp_path, rollout, temperature=temperature, max_steps=1)
    trainer.train()
    (logged,) = [line["paw/world_loss"] for line in trainer.state.log_history if "paw/world_loss" in line]
    episode = _rollout([""], trainer)
    ids = torch.tensor([episode["prompt_ids"][0] + episode["completion_ids"][0]])
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(start)(ids).logits[0]
    chance = logits.log_softmax(-1)[torch.arange(13), ids[0, 1:]].exp()[1:]  # of the twelve tokens after the prompt
    answers = [[3, 4], [9, 10, 11]]  # the mean over transitions of the mean over their tokens
    expected = sum(float((1 - chance[answer]).mean()) for answer in answers) / 2
    assert logged == pytest.approx(expected, abs=1e-5)


TEMPLATES = ("qwen2_5", "qwen3", "llama3_1")
TEXTS = ("at 1", 'You open the "fridge 1".\nIn it, you see a cup.', "  spaces, and a mark: worldlineanswer")


def chat_tokenizer(template: str, *sentences: str) -> Any:
    """Byte pairs learned from a few sentences and yours, with the special words of Qwen's and Llama's templates."""
    import trl.chat_template_utils
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<pad>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<tool_response>"]
    special += ["</tool_response>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|begin_of_text|>"]
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.decoder = decoders.ByteLevel()
    corpus = [
        *sentences,
        *TEXTS,
        "user\n",
        "assistant\n",
        "system\n",
        '{"name": "act", "arguments": {"action": "up"}}',
    ] * 3
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    words.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=900, special_tokens=special, initial_alphabet=alphabet)
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", eos_token="<|im_end|>")
    tokenizer.chat_template = getattr(trl.chat_template_utils, f"{template}_chat_template")
    return tokenizer


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_words_of_a_tool_are_told_from_those_of_the_template(template: str) -> None:
    """What is left of the text without the tools' words is what the template writes around any words."""
    tokenizer = chat_tokenizer(template)
    call = {"type": "function", "function": {"name": "act", "arguments": {}}}
    before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "", "tool_calls": [call]}]

    def render(messages: Any) -> str:
        text: str = tokenizer.apply_chat_template([*before, *messages], add_generation_prompt=True, tokenize=False)
        return text

    def around(*contents: str) -> tuple[str, str]:
        messages = [{"role": "tool", "name": "act", "content": content} for content in contents]
        ids, spoken = answer_mask(tokenizer, render, messages)
        assert ids == tokenizer(render(messages), add_special_tokens=False)["input_ids"]
        pick = [
            [token for token, inside in zip(ids, spoken, strict=True) if inside == wanted] for wanted in (True, False)
        ]
        return tokenizer.decode(pick[0]), tokenizer.decode(pick[1])

    for text in TEXTS:
        written = json.dumps(text)[1:-1] if template == "llama3_1" else text
        assert around(text) == (written, around("x")[1])
    both = "".join(json.dumps(text)[1:-1] if template == "llama3_1" else text for text in TEXTS[:2])
    if template != "llama3_1":  # which takes one call a turn
        assert around(*TEXTS[:2]) == (both, around("x", "y")[1])


def test_thirteen_tokens_a_turn_are_qwens_own() -> None:
    ids = ["<|im_end|>", "\n", "<|im_start|>", "user", "\n", "<tool_response>", "\n"]
    ids += ["\n", "</tool_response>", "<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"]
    tokenizer = chat_tokenizer("qwen3")
    tokenizer.add_tokens(["user", "assistant"])
    call = {"type": "function", "function": {"name": "act", "arguments": {}}}
    before = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "", "tool_calls": [call]}]
    tools = [{"role": "tool", "name": "act", "content": "at 1"}]

    def render(messages: Any) -> str:
        text: str = tokenizer.apply_chat_template([*before, *messages], add_generation_prompt=True, tokenize=False)
        return text

    tokens, spoken = answer_mask(tokenizer, render, tools)
    first = spoken.index(True)
    last = len(spoken) - spoken[::-1].index(True)
    kept = tokens[first - 7 : first] + tokens[last:]
    assert [tokenizer.decode([token]) for token in kept] == ids
    assert len(kept) - 1 == 13, "the end of the assistant's turn is the model's own"


def talker(world: CountingWorld) -> tuple[Any, Any]:
    """A tiny model that plays the task "2" as it should: two calls, each answered, and a last word; its tokenizer."""
    environment = TrlEnvironment(world)
    (row,) = task_rows(world, "train", [1])
    opening = {"role": "user", "content": row["prompt"][0]["content"] + environment.reset(**row)}
    act = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": CALL}]}
    answers = [{"role": "tool", "name": "act", "content": environment.act("up")} for _ in range(2)]
    talk = [opening, act, answers[0], act, answers[1], {"role": "assistant", "content": "done"}]
    text = chat_tokenizer("qwen2_5").apply_chat_template(talk, tools=[environment.act], tokenize=False)
    tokenizer = chat_tokenizer("qwen2_5", text)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    model = tiny_llama(tokenizer, 64, intermediate_size=128, num_attention_heads=4, max_position_embeddings=1024)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    opened = tokenizer(text[: text.index("at 0")], add_special_tokens=False)["input_ids"]
    learned = torch.tensor([[-100] * len(opened) + ids[len(opened) :]])
    for _ in range(125):
        model(input_ids=torch.tensor([ids]), labels=learned).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, tokenizer


CALL = {"name": "act", "arguments": {"action": "up"}}


def test_a_world_is_played_and_learned_through_trl(tmp_path: Path, fresh_accelerator: None) -> None:
    """Generation, tool calls, rewards and both losses are TRL's and ours; the model and the world are tiny."""
    from datasets import Dataset

    from worldline.integrations.trl import PaWTrainer

    class Watched(PaWTrainer):
        """Keeps what TRL made of the episodes."""

        def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
            self.watched = super()._generate_and_score_completions(inputs)
            return self.watched

    world = CountingWorld()
    model, tokenizer = talker(world)
    trainer = Watched(
        model=model,
        processing_class=tokenizer,
        args=arguments(tmp_path, max_completion_length=128, max_steps=2, learning_rate=1e-4, temperature=0.5),
        train_dataset=Dataset.from_list(task_rows(world, "train", [1]) * 8),
        environment_factory=environment_factory(world),
        rho=1.0,
        alpha=1.0,
    )
    trainer.train()
    paid = [line["reward"] for line in trainer.state.log_history if "reward" in line]
    assert paid[0] == 1.0, "the model plays the task to its end"
    output = trainer.watched
    rows = zip(output["completion_ids"], output["world_mask"].bool(), output["tool_mask"].bool(), strict=True)
    for ids, spoken, own in rows:
        assert tokenizer.decode(ids[spoken]) == "at 1at 2"
        assert not (spoken & own).any()
        around = tokenizer.decode(ids[~own & ~spoken])
        assert around.count("<tool_response>") == around.count("assistant") == 2 and "at" not in around.split()
    losses = [line["paw/world_loss"] for line in trainer.state.log_history if "paw/world_loss" in line]
    assert len(losses) == 2 and all(0 <= loss < 1 for loss in losses)


def test_what_is_said_after_the_end_is_not_the_worlds() -> None:
    environment = TrlEnvironment(CountingWorld())
    assert environment.act("up") == OVER
    environment.reset(task="1")
    assert environment.act("up") == "at 1" and environment.get_reward() == 1.0
    assert environment.act("up") == OVER and environment.get_reward() == 1.0
