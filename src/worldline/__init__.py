"""worldline: train language agents that understand their world, and know how good an agent is before it touches one."""

__version__ = "0.1.0"
