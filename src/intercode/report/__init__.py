"""Reports on runs: numbers, tables and transcripts. docs/report.md defines each figure.

    summary.load ──► (config, episodes) ─┬─► summary.summary     success rate, interval, pass@k:
                                         │                       what `eval` prints
                                         └─► analysis            turn by turn, causes of failure,
                                                                 two runs compared
    both give plain data ──► tables (rows of text, tables on the terminal)
    an episode ──► transcript (steps, verdict) ─┬─► terminal (texts for `show`)
                                                └─► markup   (HTML for `view` and `report --html`)

A figure of a run is one entry of `summary.FIGURES`. The page of `report --html` is written by the
viewer's templates (view/page.py).

turns.py defines what counts as a turn, an error, a repetition; text.py makes text of episodes
harmless to show.
"""
