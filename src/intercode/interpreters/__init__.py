"""How the host talks to interpreters inside sandboxes, and has what an agent defined there tested.

    suite.py      from a task's record to the tests that it means
    grading.py    a test: calls carried between the grader's cell and a copy of the agent's interpreter

What runs inside is `sandbox/guest/`: `interpreter.py`, `branch.py`, `referee.py`, `plain.py`.
"""

from intercode.interpreters.grading import PATIENCE, About, Grader, Result
from intercode.interpreters.suite import SOLUTION, Suite, Test, suite_of, unbound

__all__ = ["PATIENCE", "SOLUTION", "About", "Grader", "Result", "Suite", "Test", "suite_of", "unbound"]
