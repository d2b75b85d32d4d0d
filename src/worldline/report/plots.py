"""Figures as inline SVG: matplotlib draws, the page's CSS colours, so that dark and light need no second drawing.

Text stays text (searchable, small). Every colour is one of `THEME`, written as a CSS variable. Nothing here knows
about evaluations or runs.
"""

import io
import math
import re
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

THEME = {  # name: (light, dark)
    "page": ("#ffffff", "#12161d"),
    "ink": ("#1b2230", "#e6e9ef"),
    "faint": ("#697386", "#98a2b3"),
    "line": ("#dfe3ea", "#2c3442"),
    "c0": ("#2a62d0", "#7aa5ff"),
    "c1": ("#d1603d", "#ff9d76"),
    "c2": ("#1f8f6b", "#57cfa4"),
    "c3": ("#8a4fc7", "#c59bf5"),
    "c4": ("#b08400", "#e8c14b"),
    "c5": ("#b8336a", "#f48ab4"),
}
SERIES = [light for name, (light, _) in THEME.items() if name.startswith("c")]
INK, FAINT, LINE = (THEME[name][0] for name in ("ink", "faint", "line"))
BLUE, ORANGE = SERIES[0], SERIES[1]
FONT = "system-ui, sans-serif"
MOST_POINTS = 400
WIDTH = 11.0
_DRAWING = threading.Lock()  # matplotlib's settings are the process's own


@dataclass(frozen=True)
class Point:
    """An estimate with its interval, and the truth where there is one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    truth: float | None = None
    doubtful: bool = False


@dataclass(frozen=True)
class Panel:
    """Curves over one axis; those named in `dashed` are drawn so."""

    title: str
    curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]
    dashed: frozenset[str] = frozenset()
    colours: Mapping[str, int] = field(default_factory=dict)
    """Which colour of the series; default: in their order."""
    axis: str = ""


def forest(points: Sequence[Point], title: str) -> str:
    """One line per policy, best first: the estimate with its interval, the truth as a diamond."""
    with _Drawing(WIDTH, 0.7 + 0.32 * len(points)) as draw:
        axes = draw.grid(1, 1)[0]
        sound = [point.value for point in points if not point.doubtful]
        low, high = _range([*_truths(points), *(sound or [point.value for point in points])])
        for row, point in enumerate(points):
            _interval(axes, point, row, low, high)
        axes.set_yticks(range(len(points)), [_label(point.label, 34) for point in points])
        axes.set_ylim(len(points) - 0.4, -0.6)
        axes.set_xlim(low, high)
        axes.grid(axis="x", color=LINE, linewidth=0.8)
        axes.set_xlabel(f"value by {_label(title, 30)}" + (" (◆ truth)" if _truths(points) else ""))
    return draw.svg


def against_truth(panels: Mapping[str, Sequence[Point]], first: str = "") -> str:
    """A small panel per estimator: estimate over truth, intervals, and the diagonal where all would lie if right."""
    names = sorted(panels, key=lambda name: name != first)
    columns = min(5, len(names))
    rows = math.ceil(len(names) / columns)
    low, high = _range([truth for points in panels.values() for truth in _truths(points)])
    with _Drawing(WIDTH * columns / 5, (WIDTH / 5 + 0.1) * rows + 0.3) as draw:
        for place, (axes, name) in enumerate(zip(draw.grid(rows, columns), names, strict=False)):
            axes.plot([low, high], [low, high], color=FAINT, linewidth=0.8, linestyle=(0, (4, 3)))
            for point in panels[name]:
                _scatter(axes, point, low, high)
            axes.set(xlim=(low, high), ylim=(low, high), aspect="equal")
            axes.locator_params(nbins=4)
            mark = "  ★" if name == first else ""
            axes.set_title(_label(name) + mark, color=BLUE if name == first else INK)
            if place % columns == 0:
                axes.set_ylabel("estimate")
            if place + columns >= len(names):
                axes.set_xlabel("truth")
    return draw.svg


def curves(panels: Sequence[Panel], columns: int = 3, *, shared: bool = False) -> str:
    """A grid of panels. `shared`: a name has the same colour in all of them, and one legend serves all."""
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    with _Drawing(WIDTH if columns > 1 else WIDTH / 2, 2.15 * rows + 0.35) as draw:
        for axes, panel in zip(draw.grid(rows, columns), panels, strict=False):
            for order, (name, (xs, ys)) in enumerate(panel.curves.items()):
                colour = SERIES[panel.colours.get(name, order) % len(SERIES)]
                points = _thinned(xs, ys)
                style: Any = (0, (3, 2)) if name in panel.dashed else "-"
                dot = "o" if len(points) < 12 else None
                axes.plot(*zip(*points, strict=True), color=colour, ls=style, marker=dot, ms=3, label=_label(name))
            values = [y for _, ys in panel.curves.values() for y in ys if drawable(y)]
            if values and min(values) > 0 and max(values) > 100 * min(values):
                axes.set_yscale("log")
                axes.yaxis.set_major_formatter(lambda value, place: f"{value:g}")
                axes.yaxis.set_minor_formatter(lambda value, place: "")
            axes.set_title(_label(panel.title))
            axes.set_xlabel(panel.axis)
            axes.grid(color=LINE, linewidth=0.8)
            axes.locator_params(axis="x", nbins=5, integer=True)
            if len(panel.curves) > 1 and not shared:
                axes.legend(fontsize=7.5, frameon=False, labelcolor=INK)
        if shared:
            handles = {line.get_label(): line for axes in draw.figure.axes for line in axes.lines}
            draw.figure.legend(handles=list(handles.values()), loc="outside lower center", ncols=6, frameon=False)
    return draw.svg


def histogram(groups: Mapping[str, Sequence[float]], axis: str) -> str:
    """Stacked counts over whole numbers, at most thirty bars."""
    every = [value for values in groups.values() for value in values]
    width = max(1, math.ceil((max(every) - min(every) + 1) / 30))
    edges = [min(every) - 0.5 + width * k for k in range(math.ceil((max(every) - min(every) + 1) / width) + 1)]
    with _Drawing(WIDTH, 2.3) as draw:
        axes = draw.grid(1, 1)[0]
        shown = {name: values for name, values in groups.items() if len(values)}
        colours = [SERIES[(2, 1, 0)[list(groups).index(name) % 3]] for name in shown]
        axes.hist(list(shown.values()), bins=edges, stacked=True, label=list(shown), color=colours, rwidth=0.85)
        axes.set(xlabel=axis, ylabel="episodes")
        axes.grid(axis="y", color=LINE, linewidth=0.8)
        axes.locator_params(integer=True)
        axes.legend(fontsize=8, frameon=False, labelcolor=INK)
    return draw.svg


def theme_css() -> str:
    """The colours as CSS variables: light, dark where the reader prefers it, light on paper."""
    light, dark = ("".join(f"--{name}:{colours[shade]};" for name, colours in THEME.items()) for shade in (0, 1))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"


def standalone(svg: str) -> str:
    """An inline figure as a file of its own."""
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    back = '<rect width="100%" height="100%" style="fill: var(--page)"/>'
    opened, _, rest = svg.partition(">")
    return f"{opened.replace('<svg', f'<svg {space}', 1)}><style>{theme_css()}</style>{back}{rest}\n"


class _Drawing:
    """A figure in the house style; `svg` holds it when the `with` block is left."""

    def __init__(self, width: float, height: float) -> None:
        self.size = (width, height)
        self.svg = ""

    def __enter__(self) -> "_Drawing":
        import matplotlib
        from matplotlib.figure import Figure

        _DRAWING.acquire()
        style = {
            "svg.fonttype": "none", "svg.hashsalt": "worldline", "text.parse_math": False, "font.size": 8.5,
            "text.color": INK, "axes.labelcolor": FAINT, "axes.edgecolor": FAINT, "xtick.color": FAINT,
            "ytick.color": FAINT, "axes.titlesize": 9.5, "axes.titleweight": "bold", "axes.spines.top": False,
            "axes.spines.right": False, "axes.linewidth": 0.8, "lines.linewidth": 1.6, "axes.axisbelow": True,
            "axes.unicode_minus": False, "legend.borderpad": 0.2,
        }  # packed lines read better  # fmt: skip
        self._style = matplotlib.rc_context(style)
        self._style.__enter__()
        self.figure = Figure(figsize=self.size, layout="constrained")
        return self

    def grid(self, rows: int, columns: int) -> list[Any]:
        axes = self.figure.subplots(rows, columns, squeeze=False).ravel().tolist()
        self.figure.patch.set_visible(False)
        for one in axes:
            one.patch.set_visible(False)
        return list(axes)

    def __exit__(self, *failure: object) -> None:
        try:
            if failure[0] is None:
                for axes in self.figure.axes:
                    axes.set_visible(axes.has_data())
                with warnings.catch_warnings():  # a name in a script that the measuring font lacks
                    warnings.simplefilter("ignore")
                    out = io.StringIO()
                    self.figure.savefig(out, format="svg")
                self.svg = _inline(out.getvalue())
        finally:
            self._style.__exit__(None, None, None)
            _DRAWING.release()


def _inline(drawn: str) -> str:
    """The drawing as part of a page: no header, no metadata, colours and font by the page."""
    svg = drawn[drawn.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"| version="1.1"', "", svg)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    variables = {light: f"var(--{name})" for name, (light, _) in THEME.items()}
    svg = re.sub(r"(fill|stroke): (#[0-9a-f]{6})", lambda m: f"{m[1]}: {variables.get(m[2], m[2])}", svg)
    svg = re.sub(r"font-family: [^;\"]*", f"font-family: {FONT}", svg)
    return re.sub(r"\n\s*", "\n", svg)


def _interval(axes: Any, point: Point, row: int, low: float, high: float) -> None:
    colour = ORANGE if point.doubtful else BLUE
    if point.low is not None and point.high is not None:
        axes.plot([max(point.low, low), min(point.high, high)], [row, row], color=colour, linewidth=2, alpha=0.55)
    place = min(max(point.value, low), high)
    axes.plot(place, row, marker=_edge(point.value, low, high, "<>"), color=colour, markersize=6, clip_on=False)
    if place != point.value:
        left = point.value < low
        shift = (7 if left else -7, -3)
        side = "left" if left else "right"
        axes.annotate(f"{point.value:.3g}", (place, row), shift, textcoords="offset points", ha=side, color=colour)
    if point.truth is not None:
        axes.plot(point.truth, row, marker="D", markersize=5, color=INK, fillstyle="none", linestyle="")


def _scatter(axes: Any, point: Point, low: float, high: float) -> None:
    """What lies outside the frame is shown at its edge, as an arrow."""
    colour = ORANGE if point.doubtful else BLUE
    if point.low is not None and point.high is not None:
        span = [min(max(end, low), high) for end in (point.low, point.high)]
        axes.plot([point.truth, point.truth], span, color=colour, linewidth=1.1, alpha=0.55)
    place = min(max(point.value, low), high)
    axes.plot(point.truth, place, marker=_edge(point.value, low, high, "v^"), color=colour, markersize=4, clip_on=False)
    if place != point.value:
        shift = (0, 5 if point.value < low else -10)
        words = {"textcoords": "offset points", "ha": "center", "fontsize": 6.5}
        axes.annotate(f"{point.value:.3g}", (point.truth, place), shift, color=colour, **words)


def _edge(value: float, low: float, high: float, arrows: str) -> str:
    return arrows[0] if value < low else arrows[1] if value > high else "o"


def _truths(points: Sequence[Point]) -> list[float]:
    return [point.truth for point in points if point.truth is not None]


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The span of the values, with room around it."""
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    room = 0.12 * (high - low) or max(0.1, 0.1 * abs(high))
    return low - room, high + room


def drawable(value: float) -> bool:
    """Not NaN, not infinite, nor so large that an axis cannot be laid out."""
    return abs(value) < 1e100


def _thinned(xs: Sequence[float], ys: Sequence[float]) -> list[tuple[float, float]]:
    """At most `MOST_POINTS` of the points that can be drawn, the last among them."""
    points = [(x, y if drawable(y) else math.nan) for x, y in zip(xs, ys, strict=True) if drawable(x)]
    step = math.ceil(len(points) / MOST_POINTS)
    return points if step <= 1 else [*points[:-1:step], points[-1]]


def _label(text: str, most: int = 40) -> str:
    """One line of printable characters: names come from files."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"
