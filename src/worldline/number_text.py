"""Numbers as people read them."""


def probability(p: float) -> str:
    """A probability that is never shown as certain."""
    return ">0.999" if p > 0.999 else "<0.001" if p < 0.001 else f"{p:.3f}"


def below(value: float, limit: float, digits: int = 0) -> str:
    """A value under the limit with so many digits, or with more where fewer would show the limit itself."""
    while value < limit <= round(value, digits):
        digits += 1
    return f"{value:.{digits}f}"
