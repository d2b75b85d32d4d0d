"""The diffusion world model: fitting it on a log, imagining in it, reading it by any policy (ADWM)."""
