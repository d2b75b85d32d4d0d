"""A short training run in the counting world."""

RECIPE: dict[str, object] = {
    "env": "counting:CountingWorld",
    "updates": 4,
    "groups": 3,
    "group_size": 4,
    "max_steps": 3,
    "checkpoint_every": 2,
    "rollout": {"max_new_tokens": 4, "device": "cpu"},
    "evaluation": {"every": 2, "episodes": 24, "temperature": 1.0},
    "update": {"lr": 2e-3, "mini_batch": 16, "batch_tokens": 1024},
}
