"""Policies by specification: `expert`, `random`, `hf:PATH`, `api:MODEL@URL`, `module:attr`."""
