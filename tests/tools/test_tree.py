"""Unit tests of tree.py: each problem it must see, and text that it must leave alone."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from tree import MOST_BYTES, MOST_LINES, problems  # noqa: E402


class Files(unittest.TestCase):
    def test_good(self):
        for name, data in (("a.cpp", b"int a;\n"), ("empty", b""), ("a.bin", b"\0\r\n"), ("tests/model/data/a.bin", b"\0" * (MOST_BYTES + 1)), ("notes.md", b"x\n" * (MOST_LINES + 1)),
                           ("a.cpp", b"// /usr/lib and https://x.org/work/a and <src>/home/x\n")):
            self.assertEqual(problems(name, data), [], name)

    def test_bad(self):
        marker = b"<" * 7 + b" HEAD\n"
        path = b"see /" + b"work/main\n"
        for name, data, words in (("a.h", b"x\n" * (MOST_LINES + 1), "lines"), ("CMakeLists.txt", b"x\n" * (MOST_LINES + 1), "lines"),
                                  ("a.json", b"x" * (MOST_BYTES + 1), "bytes"),
                                  ("src/ir/data/a.bin", b"\0" * (MOST_BYTES + 1), "bytes"), ("a.h", b"x\r\n", "Windows"),
                                  ("a.h", b"x", "no newline"), ("a.md", marker, "merge"), ("a.md", path, "one machine"),
                                  ("a.txt", b"\xff\n", "not UTF-8")):
            self.assertTrue(any(words in problem for problem in problems(name, data)), (name, problems(name, data)))


if __name__ == "__main__":
    unittest.main()
