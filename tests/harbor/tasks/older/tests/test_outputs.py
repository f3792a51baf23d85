import unittest
from pathlib import Path


class TestWords(unittest.TestCase):
    def test_they_are_sorted(self):
        assert Path("/app/words.txt").read_text().split() == ["apple", "pear", "plum"]
