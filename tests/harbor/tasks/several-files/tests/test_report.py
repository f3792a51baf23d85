import json
import unittest
from pathlib import Path

FOLDER = Path(__file__).parent


class TestReport(unittest.TestCase):
    def setUp(self):
        self.report = json.loads(Path("/desk/report.json").read_text())

    def test_it_has_all_rows(self):
        assert self.report == json.loads((FOLDER / "expected.json").read_text())

    def test_it_is_sorted(self):
        assert list(self.report) == sorted(self.report)
