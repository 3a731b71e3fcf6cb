"""Unit tests of commits.py: messages that must pass and messages that must not."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from commits import problems  # noqa: E402


class Messages(unittest.TestCase):
    def test_good(self):
        for message in ("feat(ir): add the printer", "fix: round once", "build(ci)!: require clang 19", "Merge branch 'room'",
                        "perf(cpu): pack panels\n\nWhy: the loads were strided.", 'Revert "feat(ir): add the printer"'):
            self.assertEqual(problems(message), [], message)

    def test_bad(self):
        for message, words in (("Add the printer", "not of the form"), ("feature: x", "not of the form"), ("", "not of the form"),
                               ("feat(ir):no space", "not of the form"), ("feat: a\nbody", "no empty line"),
                               ("fixup! feat: a", "not folded"), ("feat: " + "x" * 120, "126 characters"),
                               ("feat: a\n\nCo-authored-by: A <a@b>", "attribution"),
                               ("feat: a\n\nGenerated with a tool", "attribution")):
            self.assertTrue(any(words in problem for problem in problems(message)), (message, problems(message)))


if __name__ == "__main__":
    unittest.main()
