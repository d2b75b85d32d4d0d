"""A causal language model that says what the world answers: o_{t+1} behind `h_t | a_t`, in batches.

Prompt and action are tokenised as agents' are (`policies.encoding`), so a checkpoint of `worldline sft --target
observation` or of PaW continues exactly the rows it was trained on. In a transcript an answer ends where the next
action would begin; elsewhere at the end-of-text token. None is longer than the longest one of the log.
"""

from collections.abc import Sequence
from typing import Any

from worldline.policies.encoding import Encoder
from worldline.policies.forward import chunks, inference, read, shares_prefix
from worldline.policies.generation import generate
from worldline.policies.hf import HFPolicy
from worldline.policies.memory import Memory
from worldline.policies.outcome import told
from worldline.types import InputError, Turn, derive_seed

_NEXT = "\n>"
"""What comes between an answer and the next action of a transcript."""
_SPARE = 8
_LEAST = 64


class Speaker:
    """Says the world's answers, at `temperature` (0: the likeliest), each from its own seed."""

    def __init__(self, policy: HFPolicy, answers: Sequence[str], temperature: float) -> None:
        self._model, self._temperature = policy.model, temperature
        self._batch_tokens = policy.settings.batch_tokens
        given, tokenizer = policy.encoder, policy.encoder.tokenizer
        trained: dict[str, Any] = getattr(policy.model.config, "worldline", None) or {}
        self.says_outcome = bool(trained.get("outcome"))
        self._chat = given.template.chat
        spelled = [told(text, 0.125, True) if self.says_outcome else text for text in dict.fromkeys(answers)]
        tokens = tokenizer(spelled, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        self.longest = max(map(len, tokens)) + _SPARE
        context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None) or 1 << 20
        budget = min(policy.settings.max_prompt_tokens, context - self.longest - given.template.max_new_tokens)
        if budget < _LEAST:
            raise InputError(f"{policy.name}: reads {context} tokens, too few for the log's answers of {self.longest}")
        self._encoder = Encoder(tokenizer, given.template, budget, trained.get("history"))
        ends = {tokenizer.eos_token_id} - {None}
        spellings = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
        self._stops = ends if self._chat else ends | {t for t, text in enumerate(spellings) if _NEXT[-1] in text}
        roomy = not self._chat and policy.settings.cache_gib > 0 and shares_prefix(policy.model)
        self._memory = Memory(policy.model, int(policy.settings.cache_gib * 2**30)) if roomy else None

    def answers(self, turns: Sequence[Turn], actions: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """What the world says to each action."""
        prompts = [
            [*prompt, *action]
            for prompt, action in zip(self._encoder.prompts(turns), self._encoder.actions(actions), strict=True)
        ]
        said: list[list[int]] = [[] for _ in prompts]
        going, rounds = list(range(len(prompts))), 0
        with inference(self._model):
            while going:  # once, but for texts that have the sign of the next action inside them
                for rows in chunks([len(prompts[at]) + self.longest for at in going], self._batch_tokens):
                    self._say([going[row] for row in rows], prompts, said, [derive_seed(s, rounds) for s in seeds])
                going, rounds = [at for at in going if not self._over(said[at])], rounds + 1
        return [self._text(ids) for ids in said]

    def _say(self, rows: Sequence[int], prompts: list[list[int]], said: list[list[int]], seeds: Sequence[int]) -> None:
        whole = [[*prompts[row], *said[row]] for row in rows]
        responses = generate(
            self._model,
            self._memory.read(whole) if self._memory else read(self._model, whole),
            [seeds[row] for row in rows],
            stops=self._stops,
            max_new_tokens=self.longest - min(len(said[row]) for row in rows),
            temperature=self._temperature,
        )
        for row, response in zip(rows, responses, strict=True):
            said[row] = [*said[row], *response.ids][: self.longest]

    def _over(self, ids: Sequence[int]) -> bool:
        ended = ids[-1] == self._encoder.tokenizer.eos_token_id or len(ids) >= self.longest
        return ended or self._chat or self._encoder.decode(ids).endswith(_NEXT)

    def _text(self, ids: Sequence[int]) -> str:
        text = self._encoder.decode(ids)
        return (text if self._chat else text.removesuffix(_NEXT)).strip()
