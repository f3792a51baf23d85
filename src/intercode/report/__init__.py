"""Runs as numbers, tables, charts and a page. docs/report.md says how each figure is counted.

loading ──► (config, episodes) ──► summary     success, interval, pass@k: what `eval` prints as well
                               ├─► analysis    turns.py: what one turn was; failures.py: why an episode failed
                               └─► compare     two runs on the same tasks
summary, analysis, compare: plain data ─┬─► rows ────► tables (terminal), page (HTML)
                                                     └─► charts ──► svg (in the page, and files)
"""

from intercode.report.summary import interval, reasons, require_comparable, summary, wilson

__all__ = ["interval", "reasons", "require_comparable", "summary", "wilson"]
