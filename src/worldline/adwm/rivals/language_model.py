"""`wm-text`: a causal language model as the world, the token-level rival of the latent world model.

It reads `h_t | a_t` as agents' transcripts spell it and writes o_{t+1}: the rows of `worldline sft --target
observation` and of PaW. Trained with --outcome it writes the reward and the end too; any other checkpoint says neither,
and then the kernel model does, as for every other estimator. Starts, horizon and admissible actions are those of the
log, so agents of any kind act here directly.
"""

from collections.abc import Sequence
from typing import Self

from worldline.adwm.ensemble import Ensemble
from worldline.adwm.kernel_env import KernelEnvironment, KernelWorld
from worldline.kernel.candidates import KINDS, OTHER
from worldline.kernel.outcome_classes import StepOutcome
from worldline.policies.language_model.checkpoint import TrainedWith
from worldline.policies.language_model.decoding import Sampling
from worldline.policies.language_model.encoding import Encoder
from worldline.policies.language_model.forward import chunks, inference, read, shares_prefix
from worldline.policies.language_model.hf import HFPolicy
from worldline.policies.language_model.in_place import respond_behind, sampler_of
from worldline.policies.language_model.outcome_line import AnswerWithOutcome, read_outcome, write_outcome
from worldline.policies.language_model.prefix_cache import PrefixCache
from worldline.types import Exchange, Info, InputError, Trajectory, Turn, derive_seed

_NEXT = "\n>"
"""What comes between an answer and the next action of a transcript."""
_SPARE = 8
_LEAST = 64


class ObservationGenerator:
    """Writes the world's answers, at `temperature` (0: the likeliest), each from its own seed."""

    def __init__(self, policy: HFPolicy, answers: Sequence[str], temperature: float) -> None:
        self._model, self._temperature = policy.model, temperature
        self._batch_tokens = policy.settings.batch_tokens
        self._sampler = policy.sampler or sampler_of(policy.model)
        given, tokenizer = policy.encoder, policy.encoder.tokenizer
        trained = TrainedWith.of(policy.model, policy.name)
        self.says_outcome = trained.outcome
        self._chat = given.template.chat
        spelled = [write_outcome(text, 0.125, True) if self.says_outcome else text for text in dict.fromkeys(answers)]
        tokens = tokenizer(spelled, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        self.longest = max(map(len, tokens)) + _SPARE
        context = getattr(policy.model.config.get_text_config(), "max_position_embeddings", None) or 1 << 20
        budget = min(policy.settings.max_prompt_tokens, context - self.longest - given.template.max_new_tokens)
        if budget < _LEAST:
            raise InputError(f"{policy.name}: reads {context} tokens, too few for the log's answers of {self.longest}")
        self._encoder = Encoder(tokenizer, given.template, budget, trained.history)
        ends = {tokenizer.eos_token_id} - {None}
        spellings = tokenizer.batch_decode([[token] for token in range(len(tokenizer))])
        self._stops = ends if self._chat else ends | {t for t, text in enumerate(spellings) if _NEXT[-1] in text}
        roomy = not self._chat and policy.settings.cache_gib > 0 and shares_prefix(policy.model)
        self._memory = PrefixCache(policy.model, int(policy.settings.cache_gib * 2**30)) if roomy else None

    def answers(self, turns: Sequence[Turn], actions: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """What the world says to each action."""
        prompts = [
            [*prompt, *action]
            for prompt, action in zip(self._encoder.prompts(turns), self._encoder.actions(actions), strict=True)
        ]
        responses: list[list[int]] = [[] for _ in prompts]
        going, rounds = list(range(len(prompts))), 0
        with inference(self._model):
            while going:  # once, but for texts that have the sign of the next action inside them
                for rows in chunks([len(prompts[at]) + self.longest for at in going], self._batch_tokens):
                    self._extend(
                        [going[row] for row in rows], prompts, responses, [derive_seed(s, rounds) for s in seeds]
                    )
                going, rounds = [at for at in going if not self._over(responses[at])], rounds + 1
        return [self._text(ids) for ids in responses]

    def _extend(
        self, rows: Sequence[int], prompts: list[list[int]], responses: list[list[int]], seeds: Sequence[int]
    ) -> None:
        whole = [[*prompts[row], *responses[row]] for row in rows]
        new = respond_behind(
            self._model,
            self._sampler,
            self._memory.read(whole) if self._memory else read(self._model, whole),
            [seeds[row] for row in rows],
            Sampling(self._stops, self.longest - min(len(responses[row]) for row in rows), self._temperature),
        )
        for row, one in zip(rows, new, strict=True):
            responses[row] = [*responses[row], *one.ids][: self.longest]

    def _over(self, ids: Sequence[int]) -> bool:
        ended = ids[-1] == self._encoder.tokenizer.eos_token_id or len(ids) >= self.longest
        return ended or self._chat or self._encoder.decode(ids).endswith(_NEXT)

    def _text(self, ids: Sequence[int]) -> str:
        text = self._encoder.decode(ids)
        return (text if self._chat else text.removesuffix(_NEXT)).strip()


class TextWorld(KernelWorld):
    """A world whose observations a language model writes; episodes begin as those of the log, or of `starts`."""

    def __init__(
        self,
        generator: HFPolicy,
        ensemble: Ensemble,
        temperature: float = 1.0,
        starts: Sequence[Trajectory] | None = None,
    ) -> None:
        super().__init__(ensemble.kernel, ensemble.facts, starts=starts)
        answers = [row.answer for row in ensemble.kernel.log.rows]
        self.generator = ObservationGenerator(generator, answers, temperature)
        self.malformed = 0
        """Answers without the line of reward and end that the model was trained to write."""

    def make(self) -> "TextEnvironment":  # type: ignore[override]  # an environment of this world
        return TextEnvironment(self)

    def advance(self) -> None:
        """One step for every waiting episode, in one batch."""
        waiting, self.waiting = self.waiting, []
        requests = [environment.request() for environment in waiting]
        texts = self.generator.answers(
            [environment.turn() for environment in waiting],
            [request.action for request in requests],
            [environment.answer_seed() for environment in waiting],
        )
        considered = self.kernel.consider_requests(requests)
        weighed = self.kernel.request_chances(requests, considered)
        for environment, request, text, one, chances in zip(waiting, requests, texts, considered, weighed, strict=True):
            written = read_outcome(text)
            outcome = self._outcome(written) if self.generator.says_outcome else None
            kinds = dict(zip(one.candidates.texts, one.candidates.kinds.tolist(), strict=True))
            kind = KINDS[kinds.get(written.observation, OTHER)]
            answer = self.kernel.followed(request, one, chances, written.observation, kind, outcome)
            environment.transcript.append(text if outcome is None else write_outcome(answer.text, *outcome[:2]))
            environment.receive(answer)

    def _outcome(self, written: AnswerWithOutcome) -> StepOutcome:
        """What the model wrote of it; nothing happens where it wrote nothing."""
        if written.reward is None or written.ended is None:
            self.malformed += 1
            return StepOutcome(0.0, False, False)
        won = written.ended and written.reward >= self.facts.reward_high - 1e-6
        return StepOutcome(written.reward, written.ended, won)


class TextEnvironment(KernelEnvironment[TextWorld]):
    """One episode whose observations a language model writes."""

    transcript: list[str]
    """The observations as the language model wrote them, lines of reward and end included."""

    def start_as(self, start: Trajectory) -> tuple[str, Info]:
        self.transcript = [start.steps[0].observation]
        return super().start_as(start)

    def clone(self) -> Self:
        twin = super().clone()
        twin.transcript = [*self.transcript]
        return twin

    def turn(self) -> Turn:
        """h_t, as the language model reads it."""
        past = tuple(Exchange(*pair) for pair in zip(self.transcript[:-1], self.state.actions, strict=True))
        return Turn(self._world.family, self.state.goal, self.transcript[-1], self.allowed or None, past)

    def answer_seed(self) -> int:
        """The seed of the pending answer: the same for whoever does the same for the same time."""
        done = self.action or ""
        return derive_seed(self.seed, "written", done, self.state.actions.count(done))
