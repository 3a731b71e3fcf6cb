"""Unit tests of doc_examples.py: which blocks it takes, and when an output is accepted."""

import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
from doc_examples import Block, Examples, blocks_of, cases_of, mismatch  # noqa: E402

DOCUMENT = """# Title
```sh test
echo hello
```
It prints
```text
hello
```
```cpp
not tested
```
- in a list:
  ```cpp test compile
  int f();
  ```
````md
```sh test
not a block of its own
```
````
"""


class Blocks(unittest.TestCase):
    def test_tested_blocks_and_their_output(self):
        cases = [(block.line, block.words, block.text, expected) for block, expected in cases_of(blocks_of("d.md", DOCUMENT))]
        self.assertEqual(cases, [(2, ["sh", "test"], "echo hello\n", "hello\n"),
                                 (13, ["cpp", "test", "compile"], "int f();\n", None)])

    def test_an_open_block_is_named(self):
        with self.assertRaisesRegex(ValueError, "d.md:1: .*never closed"):
            blocks_of("d.md", "```sh test\nls\n")


class Output(unittest.TestCase):
    def test_accepted(self):
        for expected, output in (("a\nb\n", "a\nb\n"), ("a\n...\nc\n", "a\nb\nb\nc\n"), ("...\nc\n", "a\nc\n"), ("a\n...\n", "a\nb\n"),
                                 ("took ... ms\n", "took 3.5 ms\n"), ("(a*b)\n", "(a*b)\n")):
            self.assertIsNone(mismatch(expected, output), (expected, output))

    def test_refused(self):
        for expected, output in (("a\n", "b\n"), ("a\nb\n", "b\na\n"), ("a\n", "a\nb\n"), ("a\nb\n", "a\n"), ("a\n...\nc\n", "a\nb\n"),
                                 ("took ... ms\n", "took 3 s\n"), ("a\n", "")):
            self.assertIsNotNone(mismatch(expected, output), (expected, output))


class Shell(unittest.TestCase):
    def check(self, text, expected=None, words=("sh", "test")):
        with TemporaryDirectory() as keep:
            return Examples(Path(keep), Path(keep)).check(Block("d.md", 1, list(words), text), expected)

    def test_runs(self):
        self.assertIsNone(self.check("echo hello\n", "hello\n"))
        self.assertIsNone(self.check("true\n"))

    def test_fails(self):
        self.assertIn("exit code 1", self.check("false\ntrue\n"))
        self.assertIn("expected this line: bye", self.check("echo hello\n", "bye\n"))
        self.assertIn("use sh, python, c or cpp", self.check("x\n", words=("ruby", "test")))


if __name__ == "__main__":
    unittest.main()
