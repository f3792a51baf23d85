"""Reports on runs: numbers, tables, charts and a web page. docs/report.md defines each figure.

    summary.load ──► (config, episodes) ─┬─► summary.summary     success rate, interval, pass@k:
                                         │                       what `eval` prints
                                         └─► analysis            turn by turn, causes of failure,
                                                                 two runs compared
    both give plain data ──► tables (rows of text, tables on the terminal)
                         ├─► charts (SVG)
                         └─► page   (one HTML page)
    an episode ──► transcript (steps, verdict) ─┬─► terminal (texts for `show`)
                                                └─► markup   (HTML for the page and `view`)

turns.py defines what counts as a turn, an error, a repetition; text.py makes text of episodes
harmless to show.
"""

from intercode.report.summary import (
    interval,
    load,
    reasons,
    require_comparable,
    runs_in,
    summary,
    wilson,
)

__all__ = ["interval", "load", "reasons", "require_comparable", "runs_in", "summary", "wilson"]
