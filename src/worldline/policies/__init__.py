"""Policies by specification: `expert`, `random`, `hf:PATH`, `vllm:MODEL@URL`, `api:MODEL@URL`, `module:attr`, and
mixtures of them.

Importing this loads no torch; `worldline.policies.language_model.hf` and `.served` do.
"""

from worldline.policies.language_model.encoding import EncodedExample, Encoder
from worldline.policies.mixing import mix
from worldline.policies.prompts import TEMPLATES, Template, render
from worldline.policies.settings import PolicyConfig
from worldline.policies.spec import KINDS, PolicySource, PolicySpec, load, public_name

__all__ = [
    "KINDS",
    "TEMPLATES",
    "EncodedExample",
    "Encoder",
    "PolicyConfig",
    "PolicySource",
    "PolicySpec",
    "Template",
    "load",
    "mix",
    "public_name",
    "render",
]
