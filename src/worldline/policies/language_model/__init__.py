"""Causal language models as policies: prompts to tokens, batched decoding, scoring, the prefix cache."""
