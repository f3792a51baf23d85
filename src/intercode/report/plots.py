"""The charts of a report as PNG and SVG files, for papers and slides. Needs matplotlib: intercode-gym[plots]."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from intercode.errors import UsageError
from intercode.report.charts import Chart, charts, order
from intercode.report.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(whole: Mapping[str, Any], folder: str | Path) -> list[Path]:
    """Draw each chart of `side_by_side`'s report to `folder`, which is made; the files written, FOLDER/NAME.png and .svg.

    Raises `UsageError` without matplotlib, OSError where nothing can be written.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError('plots need matplotlib: pip install "intercode-gym[plots]"') from None
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with rc_context({"text.parse_math": False, "svg.hashsalt": "intercode"}):
        for chart in charts(whole):
            figure = Figure(figsize=(6.4, 4), layout="constrained")
            (_lines if chart.lines else _bars)(figure.add_subplot(), chart)
            for path in (folder / f"{chart.name}.png", folder / f"{chart.name}.svg"):
                figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
                written.append(path)
    return written


def _lines(axes: Axes, chart: Chart) -> None:
    from matplotlib.ticker import MaxNLocator

    for run, points in chart.series.items():
        axes.plot([int(label) for label, _ in points], [value for _, value in points], marker="o", label=_plain(run))
    axes.set_ylim(0, 100)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    _finish(axes, chart)


def _bars(axes: Axes, chart: Chart) -> None:
    found, thick = order(chart.series), 0.8 / len(chart.series)
    for number, (run, points) in enumerate(chart.series.items()):
        middle = (number - (len(chart.series) - 1) / 2) * thick
        places = [found.index(label) + middle for label, _ in points]
        drawn = axes.barh(places, [value for _, value in points], thick, label=_plain(run))
        axes.bar_label(drawn, fmt="%.1f", padding=3, fontsize="small")
    axes.set_yticks(range(len(found)), [_plain(label) for label in found])
    axes.invert_yaxis()
    axes.margins(x=0.1)
    _finish(axes, chart)


def _finish(axes: Axes, chart: Chart) -> None:
    axes.set_title(chart.title)
    axes.set_xlabel(chart.axis or "%")
    if len(chart.series) > 1:
        axes.legend()


def _plain(text: str) -> str:
    """A name on one line; matplotlib would hide one that starts with an underscore."""
    return one_line(text.lstrip("_") or "run", 60)
