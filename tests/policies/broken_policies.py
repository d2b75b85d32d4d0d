"""User code that fails as soon as it is imported."""

raise RuntimeError("no key in the environment")
