"""Numbers as people read them."""


def probability(p: float) -> str:
    """A probability that is never shown as certain."""
    return ">0.999" if p > 0.999 else "<0.001" if p < 0.001 else f"{p:.3f}"
