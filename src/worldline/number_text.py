"""Numbers as people read them."""


def probability(p: float) -> str:
    """A probability that is never shown as certain."""
    return ">0.999" if p > 0.999 else "<0.001" if p < 0.001 else f"{p:.3f}"


def below(value: float, limit: float, digits: int = 0) -> str:
    """A value under the limit with so many digits, or with more where fewer would show the limit itself."""
    while value < limit <= round(value, digits):
        digits += 1
    return f"{value:.{digits}f}"


def number(value: float) -> str:
    """Three decimals; two digits of what is too small or too large for these."""
    return f"{value:.3f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.2g}"


def signed(value: float) -> str:
    """A difference, with its sign."""
    return f"{value:+.3f}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:+.2g}"
