"""The tests here read the same log and the same world model as those of `adwm`."""

from tiny_world_model import *  # noqa: F403 - fixtures
