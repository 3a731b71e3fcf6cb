"""Unit tests of doc_examples.py: which blocks it takes, and when an output is accepted."""

import sys
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parent))
from doc_examples import Block, Examples, blocks_of, cases_of, mismatch, untested  # noqa: E402

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

    def test_code_that_nothing_runs_is_named(self):
        self.assertEqual(untested(blocks_of("d.md", DOCUMENT)), ["d.md:9", "d.md:16"])

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


class Help(unittest.TestCase):
    def check(self, text):
        with TemporaryDirectory() as keep:
            program = Path(keep) / "tool"
            program.write_text("#!/bin/sh\n[ $# = 1 ] && echo '  -o, --out FILE' || [ $1 = run ] && echo ' --fast '\n", encoding="utf-8")
            program.chmod(0o755)
            return Examples(Path(keep), Path(keep), Path(keep)).check(Block("d.md", 1, ["sh", "test", "help"], text), None)

    def test_known(self):
        self.assertIsNone(self.check("./tool --out x -o y  # --nonsense\n\n./tool run --fast\n"))

    def test_unknown(self):
        self.assertIn("does not know --ou", self.check("./tool --ou x\n"))
        self.assertIn("ends with", self.check("./tool walk\n"))
        self.assertIn("missing", self.check("./missing\n"))


class Elsewhere(unittest.TestCase):
    def test_the_file_must_hold_it(self):
        with TemporaryDirectory() as keep:
            (Path(keep) / "t.cmake").write_text("run(a b)\n", encoding="utf-8")
            check = Examples(Path(keep), Path(keep), Path(keep)).check
            self.assertIsNone(check(Block("d.md", 1, ["cmake", "elsewhere", "t.cmake"], "run(a b)  # why\n"), None))
            self.assertIn("does not hold", check(Block("d.md", 1, ["cmake", "elsewhere", "t.cmake"], "run(c)\n"), None))
            self.assertIn("does not hold", check(Block("d.md", 1, ["cmake", "elsewhere", "gone"], "run(c)\n"), None))
            self.assertIn("say where", check(Block("d.md", 1, ["cmake", "elsewhere"], "run(c)\n"), None))


if __name__ == "__main__":
    unittest.main()
