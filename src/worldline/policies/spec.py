"""From a policy's specification, as it is written on the command line, to the policy."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from worldline import files
from worldline.config import suggest
from worldline.policies.mixing import ExpertPolicy, FunctionPolicy, RandomPolicy, mix
from worldline.policies.settings import PolicyConfig
from worldline.post import public
from worldline.types import InputError, Policy, World, WorldlineError
from worldline.user_module import error_text, import_user_module, module_in

KINDS = ("expert", "random", "hf:PATH", "vllm:MODEL@URL", "api:MODEL@URL", "module:attr")


@runtime_checkable
class PolicySource(Protocol):
    """How to make a policy, as data: it can be sent to another process, and its policy's answers can be cached."""

    @property
    def identity(self) -> str:
        """Everything that decides what the policy does: the same identity, the same answers."""

    def load(self, world: World) -> Policy: ...


@dataclass(frozen=True)
class PolicySpec:
    """A specification with settings of its own, and the share of uniform chance that is mixed in."""

    spec: str
    settings: PolicyConfig = field(default_factory=PolicyConfig)
    epsilon: float = 0.0

    @property
    def identity(self) -> str:
        """The specification, the settings, and the files of a checkpoint that lies in a local folder."""
        folder = Path(self.spec.partition(":")[2])
        weights = files.digest(path for path in folder.iterdir() if path.is_file()) if folder.is_dir() else ""
        return f"{self.spec} {weights} {self.settings.model_dump_json()} {self.epsilon:g}"

    def load(self, world: World | None = None) -> Policy:
        return mix(load(self.spec, world, self.settings), self.epsilon)


def load(spec: str, world: World | None = None, settings: PolicyConfig | None = None) -> Policy:
    """The policy that `spec` names: one of KINDS."""
    settings = settings or PolicyConfig()
    kind, colon, rest = spec.partition(":")
    if spec == "expert":
        if world is None:
            raise InputError("expert: there is an expert only in an environment")
        return ExpertPolicy(world)
    if spec == "random":
        return RandomPolicy()
    if not (colon and kind and rest):
        raise InputError(f"unknown policy '{spec}'{suggest(spec, KINDS)}")
    if kind == "hf":
        from worldline.policies.language_model import hf

        return hf.load(rest, settings)
    if kind == "vllm":
        from worldline.policies.language_model import served

        return served.load(rest, settings)
    if kind == "api":
        from worldline.policies import api

        return api.load(rest, settings)
    return _from_module(kind, rest, world, settings)


def public_name(spec: str) -> str:
    """What a policy is called by default: its specification, without the secrets that a URL may hold."""
    return public(spec) if spec.startswith(("api:", "vllm:")) else spec


def _from_module(module: str, attribute: str, world: World | None, settings: PolicyConfig) -> Policy:
    """User code: a policy, a class or factory of (world, settings) or of nothing, or a function of a turn."""
    spec = f"{module}:{attribute}"
    try:
        user_code: Any = import_user_module(module, f"policy '{spec}'")
        for name in attribute.split("."):
            user_code = getattr(user_code, name)
    except ModuleNotFoundError as error:
        if name := module_in(module):
            line = f"give {name}:{attribute}, a module and not its file, in its folder"
            raise InputError(f"policy '{spec}': {line}") from None
        raise InputError(f"policy '{spec}': no module named '{error.name}' (is it on PYTHONPATH?)") from None
    except AttributeError:
        raise InputError(f"policy '{spec}': module '{module}' has no '{attribute}'") from None
    if hasattr(user_code, "act") and not isinstance(user_code, type):
        return _named(user_code, spec)
    if not callable(user_code):
        raise InputError(f"policy '{spec}': neither a policy nor a function of a turn")
    return _called(user_code, spec, world, settings)


def _called(user_code: Callable[..., Any], spec: str, world: World | None, settings: PolicyConfig) -> Policy:
    arguments = _arity(user_code)
    if arguments == 1 and not isinstance(user_code, type):
        return FunctionPolicy(user_code, spec)
    if arguments not in (0, 2):
        raise InputError(f"policy '{spec}': must take (world, settings), nothing, or, as a function, one turn")
    try:
        made = user_code(world, settings) if arguments == 2 else user_code()
    except WorldlineError:
        raise
    except (Exception, SystemExit) as error:
        hint = _called_as_factory(user_code, arguments) if isinstance(error, AttributeError | TypeError) else ""
        raise InputError(f"policy '{spec}': making it failed: {error_text(error)}{hint}") from error
    if not callable(getattr(made, "act", None)):
        reason = f"made {type(made).__name__}, which has no `act(turns)`"
        raise InputError(f"policy '{spec}': {reason}{_called_as_factory(user_code, arguments)}")
    return _named(made, spec)


def _named(policy: Any, spec: str) -> Policy:
    """The user's object with `act`; one without a name is called by its specification."""
    if not hasattr(policy, "name"):
        try:
            policy.name = spec
        except (AttributeError, TypeError, ValueError):
            raise InputError(f"policy '{spec}': {type(policy).__name__} has no `name`: add `name = '...'`") from None
    return cast(Policy, policy)


def _called_as_factory(user_code: Callable[..., Any], arguments: int) -> str:
    """What a function that was to be the policy itself must take, for one that was called to make it."""
    if isinstance(user_code, type):
        return ""
    given = "(world, settings)" if arguments == 2 else "()"
    return f": it was called with {given} to make a policy; a function that is the policy takes one turn"


def _arity(user_code: Callable[..., Any]) -> int:
    """How many arguments `user_code` must be given."""
    try:
        parameters = inspect.signature(user_code).parameters.values()
    except ValueError:
        return 0
    required = [
        p for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return len(required)
