"""`wm-text`: a causal language model as the world, the token-level rival of the latent world model.

It reads `h_t | a_t` as agents' transcripts spell it and writes o_{t+1}: the rows of `worldline sft --target
observation` and of PaW. Trained with --outcome it writes the reward and the end too; any other checkpoint says neither,
and then a few numbers fitted on the log's own features do (`Judge`). Starts, horizon and admissible actions are those
of the log, as in `world_model_env`, so agents of any kind act here directly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from worldline.adwm.calibration import Platt, fit_platt, sigmoid
from worldline.adwm.ensemble import Ensemble, Member
from worldline.adwm.log_world import SPLIT, LogWorld, WaitingEnvironment
from worldline.adwm.outcome_head import linear_logits
from worldline.narrator.admissible import Situation
from worldline.narrator.history import History
from worldline.narrator.retrieval import CandidateAnswer
from worldline.policies.language_model.checkpoint import TrainedWith
from worldline.policies.language_model.decoding import generate
from worldline.policies.language_model.encoding import Encoder
from worldline.policies.language_model.forward import chunks, inference, read, shares_prefix
from worldline.policies.language_model.hf import HFPolicy
from worldline.policies.language_model.outcome_line import read_outcome, write_outcome
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
        new = generate(
            self._model,
            self._memory.read(whole) if self._memory else read(self._model, whole),
            [seeds[row] for row in rows],
            stops=self._stops,
            max_new_tokens=self.longest - min(len(responses[row]) for row in rows),
            temperature=self._temperature,
        )
        for row, one in zip(rows, new, strict=True):
            responses[row] = [*responses[row], *one.ids][: self.longest]

    def _over(self, ids: Sequence[int]) -> bool:
        ended = ids[-1] == self._encoder.tokenizer.eos_token_id or len(ids) >= self.longest
        return ended or self._chat or self._encoder.decode(ids).endswith(_NEXT)

    def _text(self, ids: Sequence[int]) -> str:
        text = self._encoder.decode(ids)
        return (text if self._chat else text.removesuffix(_NEXT)).strip()


@dataclass(frozen=True)
class Verdict:
    """Probability that a step ended the episode, and what it earned if so and if not, as shares of the log's range."""

    hazard: float
    at_end: float
    on_way: float


class Judge:
    """Reward and end from features of the text alone: the linear part of a member's heads, calibrated on the log."""

    def __init__(self, member: Member) -> None:
        if not member.model.architecture.text:
            raise InputError(
                "wm-text: the model says neither reward nor end: train it by worldline sft --target observation"
                " --outcome, or fit the world model with --preset small or base"
            )
        self._member, self._log_model = member, member.narrator.log_model
        seen = [
            self._logits(history, action, answer)
            for number in range(len(self._log_model.episodes))
            for history, _, action, answer in self._log_model.replay(number)
        ]
        logits = np.array(seen)
        transitions, facts = self._log_model.index.transitions, member.model.facts
        ended = np.array([transition.ended for transition in transitions])
        earned = np.array([facts.reward_share(transition.reward) for transition in transitions])
        self._hazard = fit_platt(logits[:, 0], ended)
        self._at_end = fit_platt(logits[ended, 1], earned[ended]) if ended.any() else Platt()

    def __call__(self, history: History, action: str, answer: str) -> Verdict:
        hazard, at_end, on_way, _ = self._logits(history, action, answer)
        return Verdict(
            float(sigmoid(self._hazard(hazard))), float(sigmoid(self._at_end(at_end))), float(sigmoid(on_way))
        )

    @torch.no_grad()
    def _logits(self, history: History, action: str, answer: str) -> list[float]:
        model = self._member.model
        ids = torch.tensor([self._log_model.outcome_features.ids(history, action, answer)], device=model.device)
        logits: list[float] = linear_logits(ids, model.linear.weight, model.precedent.weight)[0].tolist()
        return logits


class TextWorld(LogWorld):
    """A world whose observations a language model writes; episodes begin as those of the log, or of `starts`."""

    def __init__(
        self,
        generator: HFPolicy,
        ensemble: Ensemble,
        temperature: float = 1.0,
        starts: Sequence[Trajectory] | None = None,
    ) -> None:
        log_model = ensemble.log_model
        super().__init__("told", ensemble.facts, log_model.episodes, starts, lists=log_model.lists)
        self.log_model = log_model
        member = ensemble.members[0]
        self.narrator = member.narrator
        answers = [transition.answer for transition in ensemble.log_model.index.transitions]
        self.generator = ObservationGenerator(generator, answers, temperature)
        self.judge = None if self.generator.says_outcome else Judge(member)
        self.malformed = 0
        """Answers without the line of reward and end that the model was trained to write."""

    def make(self) -> "TextEnvironment":
        return TextEnvironment(self)

    def advance(self) -> None:
        """One step for every waiting episode, in one batch."""
        waiting, self.waiting = self.waiting, []
        texts = self.generator.answers(
            [environment.turn() for environment in waiting],
            [environment.action or "" for environment in waiting],
            [environment.answer_seed() for environment in waiting],
        )
        for environment, text in zip(waiting, texts, strict=True):
            environment.receive(text)
        self._offer([environment for environment in waiting if not environment.over])

    def _offer(self, going: Sequence["TextEnvironment"]) -> None:
        if self.log_model.lists and going:
            allowed = self.narrator.allowed([environment.situation() for environment in going])
            for environment, actions in zip(going, allowed, strict=True):
                environment.offer(actions)


class TextEnvironment(WaitingEnvironment[TextWorld]):
    """One episode whose observations a language model writes."""

    def __init__(self, world: TextWorld) -> None:
        super().__init__(world)
        self.history: History
        self.transcript: list[str] = []
        """The observations as the language model wrote them, lines of reward and end included."""
        self.source: CandidateAnswer | None = None
        """The logged answer that the last one repeats, if one does."""

    def reset(self, *, seed: int | None = None, task: str | None = None) -> tuple[str, Info]:
        world = self._world
        self.seed = derive_seed(seed or 0, "told")
        task = task or world.get_task(SPLIT, derive_seed(self.seed, "task") % world.num_tasks(SPLIT))
        start = world.start(task)
        observation = start.steps[0].observation
        self.history = History(world.log_model.grammar, task, start.goal, observation)
        self.transcript = [observation]
        return self._began(task, start)

    def clone(self) -> Self:
        twin = type(self)(self._world)
        twin.__dict__ |= self.__dict__
        if not self.over:
            twin.history, twin.transcript = self.history.copy(), [*self.transcript]
        return twin

    def turn(self) -> Turn:
        """h_t, as the language model reads it."""
        past = tuple(Exchange(*pair) for pair in zip(self.transcript[:-1], self.history.actions, strict=True))
        return Turn(self._world.family, self.history.goal, self.transcript[-1], self.allowed or None, past)

    def answer_seed(self) -> int:
        """The seed of the pending answer: the same for whoever does the same for the same time."""
        done = self.action or ""
        return derive_seed(self.seed, "answer", done, len(self.history.answers(done)))

    def receive(self, text: str) -> None:
        """Take the answer to the pending action apart, and record it."""
        world, done = self._world, self.action or ""
        answer = read_outcome(text)
        reward, ended = answer.reward, answer.ended
        if world.judge is not None:
            reward, ended = self._judged(world.judge(self.history, done, answer.observation), done)
        elif reward is None or ended is None:
            world.malformed += 1
            reward, ended = 0.0, False
        candidates = world.log_model.index.candidates(self.history, done) if world.log_model.lists else ()
        self.source = next((c for c in candidates if c.text == answer.observation and c.source is not None), None)
        won = ended and reward >= world.facts.reward_high - 1e-6
        self.history.advance(done, answer.observation)
        self.transcript.append(
            write_outcome(answer.observation, reward, ended) if world.judge is None else answer.observation
        )
        cut = not ended and len(self.history.actions) >= world.max_steps
        self.over = ended or cut
        valid = not world.log_model.lists or done in self.allowed
        self.allowed = () if self.over else self.allowed
        info: Info = {"won": won, "score": reward if ended else 0.0, "valid": valid, "admissible": self._listed()}
        self.result = (answer.observation, reward, ended, cut, info)

    def _judged(self, verdict: Verdict, action: str) -> tuple[float, bool]:
        facts, step = self._world.facts, len(self.history.actions)
        ended = self.uniform("end", action, step) < verdict.hazard
        share = verdict.at_end if ended else verdict.on_way
        earns = facts.dense or ended
        return (facts.reward(share) if earns else 0.0), ended

    def situation(self) -> Situation:
        """Where the episode stands, for the log's rule of what can be done."""
        return self._world.log_model.situation(self.history, self.source, self.allowed, self.first)
