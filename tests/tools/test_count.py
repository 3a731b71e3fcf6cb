"""Unit tests of count.py: each dialect it reads, and each way in which a run could look better than it was."""

import io
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import count  # noqa: E402

GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="1" errors="0" name="AllTests">
  <testsuite name="A" tests="4">
    <testcase name="good" status="run" result="completed" classname="A" />
    <testcase name="bad" status="run" result="completed" classname="A">
      <failure message="a.cpp:3&#x0A;Expected: 1" type=""><![CDATA[a.cpp:3]]></failure>
      <failure message="second" type=""/>
    </testcase>
    <testcase name="later" status="run" result="skipped" classname="A"><skipped message="no AVX-512"/></testcase>
    <testcase name="off" status="notrun" result="suppressed" classname="A" />
  </testsuite>
</testsuites>"""

LIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites time="0.1">
<testsuite name="iron" tests="3" failures="1" skipped="1" time="0.1">
<testcase classname="iron.passes" name="cse.iron" time="0.02"/>
<testcase classname="iron.passes" name="licm.iron" time="0.02">
  <failure><![CDATA[CHECK: expected string not found]]></failure>
</testcase>
<testcase classname="iron.passes" name="gpu.iron" time="0.00"><skipped message="Missing required feature(s): gpu"/></testcase>
</testsuite>
</testsuites>"""


def ctest(*entries):
    """ctest's JUnit file with entries (name, status)."""
    inner = {"run": "", "fail": '<failure message="Failed"/>', "notrun": '<skipped message="SKIP_RETURN_CODE=77"/>',
             "missing": '<skipped message="Unable to find executable"/>'}
    cases = "".join(f'<testcase name="{name}" classname="{name}" status="{"notrun" if status == "missing" else status}">'
                    f"{inner[status]}</testcase>" for name, status in entries)
    return f'<?xml version="1.0"?><testsuite name="Linux" tests="{len(entries)}">{cases}</testsuite>'


class CountCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name)

    def write(self, name, text):
        (self.path / name).write_text(text, encoding="utf-8")
        return self.path / name

    def results(self, **files):
        for name, text in files.items():
            self.write(name.replace("__", "."), text)
        return count.count_results(self.path)

    def assertCounts(self, counts, passed, failed, skipped):
        self.assertEqual((counts.passed, counts.failed, counts.skipped), (passed, failed, skipped), counts.failures)


class Dialects(CountCase):
    def test_googletest(self):
        counts = count.count_junit(self.write("a.xml", GTEST))
        self.assertCounts(counts, 1, 1, 2)
        self.assertEqual(counts.failures, [("A.bad", "a.cpp:3")])

    def test_lit(self):
        self.assertCounts(count.count_junit(self.write("a.xml", LIT)), 1, 1, 1)

    def test_json_object(self):
        self.assertCounts(count.count_json(self.write("a.json", '{"passed": 5, "failed": 1, "skipped": 2}')), 5, 1, 2)

    def test_json_summary(self):
        text = '{"results": [{"passed": true}], "summary": {"passed": 3, "failed": 0}}'
        self.assertCounts(count.count_json(self.write("a.json", text)), 3, 0, 0)

    def test_json_lines_take_the_last_counts(self):
        text = '{"kind": "start"}\n{"name": "k", "passed": true}\n' \
               '{"kind": "done", "test_passed": 7, "test_failed": 2, "test_skipped": 1}\n'
        self.assertCounts(count.count_json(self.write("a.json", text)), 7, 2, 1)

    def test_a_truncated_stream_has_no_counts(self):
        with self.assertRaisesRegex(count.CountError, "no object with passed"):
            count.count_json(self.write("a.json", '{"kind": "start"}\n{"name": "k", "passed": true, "failed": false}\n'))

    def test_broken_files_are_named(self):
        for name, text in (("a.xml", "<testsuites>"), ("b.xml", "<html/>"), ("c.json", "{"), ("d.json", "")):
            with self.assertRaisesRegex(count.CountError, name):
                count.count_file(self.write(name, text))

    def test_negative_counts_are_refused(self):
        with self.assertRaisesRegex(count.CountError, "negative"):
            count.count_json(self.write("a.json", '{"passed": 5, "failed": -1}'))


class Results(CountCase):
    def test_cases_of_each_entry(self):
        counts = self.results(ctest__xml=ctest(("a", "fail"), ("plain", "run"), ("off", "notrun")), a__xml=GTEST)
        self.assertCounts(counts, 2, 1, 3)

    def test_a_crash_without_a_file_is_a_failure(self):
        self.assertCounts(self.results(ctest__xml=ctest(("a", "fail"))), 0, 1, 0)

    def test_a_failure_outside_the_cases_is_a_failure(self):
        green = GTEST.replace("failure", "properties")
        self.assertCounts(self.results(ctest__xml=ctest(("a", "fail")), a__xml=green), 2, 1, 2)

    def test_an_entry_without_cases_is_a_failure(self):
        counts = self.results(ctest__xml=ctest(("a", "run")), a__xml="<testsuites/>")
        self.assertCounts(counts, 0, 1, 0)
        self.assertIn("ran no test case", counts.failures[0][1])

    def test_a_missing_program_is_a_failure(self):
        self.assertCounts(self.results(ctest__xml=ctest(("a", "missing"))), 0, 1, 0)

    def test_an_unreadable_file_is_a_failure(self):
        self.assertCounts(self.results(ctest__xml=ctest(("a", "run")), a__xml="<testsuites>"), 0, 1, 0)

    def test_files_under_other_names_count(self):
        self.assertCounts(self.results(ctest__xml=ctest(("a", "run")), b__json='{"passed": 2, "failed": 0}'), 3, 0, 0)

    def test_no_ctest_summary_is_a_failure(self):
        self.assertCounts(self.results(a__json='{"passed": 2, "failed": 0}'), 0, 1, 0)

    def test_a_case_that_failed_counts_though_the_program_passed(self):
        self.assertCounts(self.results(ctest__xml=ctest(("a", "run")), a__xml=GTEST), 1, 1, 2)


class Steps(CountCase):
    def steps(self, *lines):
        return self.write("steps.tsv", "".join("\t".join(line) + "\n" for line in lines))

    def run_main(self, path):
        output = io.StringIO()
        with redirect_stdout(output):
            code = count.main(["--steps", str(path)])
        return code, output.getvalue().splitlines()[-1]

    def test_gates_count_and_builds_do_not(self):
        path = self.steps(("gate", "format", "passed", "1", ""), ("build", "dev", "passed", "9", ""),
                          ("gate", "identity", "skipped", "0", ""))
        self.assertEqual(self.run_main(path), (0, "1 passed, 0 failed, 1 skipped"))

    def test_a_failed_build_fails(self):
        path = self.steps(("gate", "format", "passed", "1", ""), ("build", "dev", "failed", "9", ""))
        self.assertEqual(self.run_main(path), (1, "1 passed, 1 failed, 0 skipped"))

    def test_cases_come_from_the_directory(self):
        (self.path / "r").mkdir()
        self.write("r/ctest.xml", ctest(("a", "run"), ("b", "run")))
        path = self.steps(("cases", "dev", "passed", "9", str(self.path / "r")))
        self.assertEqual(self.run_main(path), (0, "2 passed, 0 failed, 0 skipped"))

    def test_a_failed_step_with_green_cases_fails(self):
        (self.path / "r").mkdir()
        self.write("r/ctest.xml", ctest(("a", "run")))
        path = self.steps(("cases", "dev", "failed", "9", str(self.path / "r")))
        self.assertEqual(self.run_main(path), (1, "1 passed, 1 failed, 0 skipped"))

    def test_nothing_run_is_a_failure(self):
        self.assertEqual(self.run_main(self.steps()), (1, "0 passed, 0 failed, 0 skipped"))
        self.assertEqual(self.run_main(self.steps(("gate", "x", "skipped", "0", "")))[0], 1)

    def test_a_broken_steps_file_is_a_failure(self):
        self.assertEqual(self.run_main(self.write("steps.tsv", "garbage\n")), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.run_main(self.path / "absent.tsv")[0], 1)


if __name__ == "__main__":
    unittest.main()
