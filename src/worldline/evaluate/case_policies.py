"""The policies of a case: loaded when first needed, one at a time. Their answers are cached by their identity."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from worldline import envs, policies
from worldline.evaluate.logged import LOGGED, NO_CODE
from worldline.evaluate.settings import EvaluateConfig
from worldline.policies import PolicyConfig, PolicySource, PolicySpec
from worldline.types import InputError, Policy, World


@dataclass(eq=False)
class CasePolicies:
    """Policies by name and specification; those given as objects are in `objects`."""

    config: EvaluateConfig
    objects: Mapping[tuple[str, str], Policy | PolicySource]
    worlds: Callable[[], Sequence[str]]
    """The names of the log's environments."""
    in_log: Callable[[], Container[str]]
    """What the log calls its policies."""
    _loaded: dict[tuple[str, str], Policy] = field(default_factory=dict)

    def load(self, name: str, spec: str) -> Policy:
        """The policy, loaded unless it was the last one loaded."""
        given = self.objects.get((name, spec))
        if given is not None and not isinstance(given, PolicySource):
            return given
        if (name, spec) not in self._loaded:
            self._loaded.clear()  # models are large: one at a time
            self._loaded[name, spec] = self._from_spec(spec) if given is None else given.load(self._world)
        return self._loaded[name, spec]

    def identity(self, name: str, spec: str) -> str | None:
        """Everything that decides what a policy does, by which its answers are cached; None if unknown."""
        given = self.objects.get((name, spec))
        if given is not None:
            return given.identity if isinstance(given, PolicySource) else None
        if spec.startswith(("hf:", "api:")):  # what weights a vllm: server holds today, nobody knows
            settings = self.config.model_dump(include=set(PolicyConfig.model_fields))
            return PolicySpec(spec, PolicyConfig.model_validate(settings)).identity
        return None

    def uncached(self, specs: Iterable[str]) -> list[str]:
        """A note on the policies of one's own code among `specs`: a cache keeps nothing of them."""
        own = [spec for spec in dict.fromkeys(specs) if ":" in spec and not spec.startswith(NO_CODE)]
        if not own or self.config.cache_folder is None:
            return []
        return [f"the cache keeps nothing of {', '.join(own)}: code may change, so every evaluation computes it again"]

    def _from_spec(self, spec: str) -> Policy:
        needs_world = not spec.startswith(("hf:", "vllm:", "api:", "random"))
        try:
            return policies.load(spec, self._world if needs_world else None, self.config)
        except InputError as error:
            if spec in self.in_log():
                line = f"for its episodes in the log write {LOGGED}{spec}, as a logger {spec}=SPEC"
                raise InputError(f"{error}; {line}") from None
            raise

    @cached_property
    def _world(self) -> World:
        """What an expert, or a policy of your own, may ask for; models do without it."""
        config = self.config
        if config.env:
            return envs.load(config.env, config.data, config.options)
        return envs.load_builtin(self.worlds()[0], config.data, config.options, source="the log")
