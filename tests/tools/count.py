#!/usr/bin/env python3
"""Counts real test cases from what the test programs wrote, and prints "N passed, N failed, N skipped".

Results directory of one leg, written by ctest and its tests:
  ctest.xml        ctest's JUnit summary: which entries ran and how each ended
  <entry>.xml      the cases of one entry, as GoogleTest or lit (xunit) write them
  <entry>.json     the counts of one entry: the last JSON object (a file may hold one a line) that has
                   passed/failed/skipped or test_passed/test_failed/test_skipped, at its top or under "summary"
An entry without a file counts as one case, by its ctest status. An entry that failed without a failed case in its file
(a crash, a sanitizer finding at exit) adds one failure, and so does an entry that ran but holds no case at all.

Steps file, written by ./test: lines "kind <TAB> name <TAB> status <TAB> seconds <TAB> results directory".
  kind gate        counts as one case
  kind build       counts only when it failed
  kind cases       counts the cases of its results directory; a failure without a failed case there counts as one

Usage: count.py --results DIR | --steps FILE      exits 1 on any failure and when no case ran
"""

import argparse
import json
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path


class CountError(Exception):
    """A results file that cannot be read as what it should be."""


@dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list = field(default_factory=list)  # (name, first line of the message)

    def __iadd__(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.failures += other.failures
        return self

    def fail(self, name, message):
        self.failed += 1
        self.failures.append((name, message))

    @property
    def total(self):
        return self.passed + self.failed + self.skipped

    @property
    def clean(self):
        """True when something passed and nothing failed: a run that executed nothing proves nothing."""
        return self.failed == 0 and self.passed > 0

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def first_line(text):
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[0] if lines else ""


def count_junit(path):
    """Cases of a GoogleTest, lit or ctest XML file (all three are dialects of JUnit's)."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise CountError(f"{path}: not readable as test XML: {error}") from error
    if root.tag not in ("testsuites", "testsuite"):
        raise CountError(f"{path}: the root element is <{root.tag}>, not <testsuites> or <testsuite>")
    counts = Counts()
    for case in root.iter("testcase"):
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        status = case.get("status", "run")
        if problem is not None or status == "fail":
            message = problem.get("message") or problem.text if problem is not None else ""
            counts.fail(f"{case.get('classname', '')}.{case.get('name', '')}", first_line(message))
        elif case.find("skipped") is not None or status in ("notrun", "disabled") or case.get("result") in (
                "skipped", "suppressed"):
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def counts_in(value, name):
    """The counts in one JSON value, or None where it has none."""
    if not isinstance(value, dict):
        return None
    for holder in (value, value.get("summary")):
        if not isinstance(holder, dict):
            continue
        for prefix in ("", "test_"):
            keys = [prefix + key for key in ("passed", "failed", "skipped")]
            if all(isinstance(holder.get(key, 0), int) and not isinstance(holder.get(key, 0), bool) for key in keys) \
                    and keys[0] in holder and keys[1] in holder:
                passed, failed, skipped = (holder.get(key, 0) for key in keys)
                if min(passed, failed, skipped) < 0:
                    raise CountError(f"{name}: a negative count: {passed} {failed} {skipped}")
                counts = Counts(passed, failed, skipped)
                named = value.get("failures", [])
                if isinstance(named, list):
                    counts.failures = [(str(item), "") for item in named]
                return counts
    return None


def count_json(path):
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CountError(f"{path}: not readable: {error}") from error
    try:
        values = [json.loads(text)]
    except json.JSONDecodeError:
        values = []
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                try:
                    values.append(json.loads(line))
                except json.JSONDecodeError as error:
                    raise CountError(f"{path}:{number}: neither one JSON value nor one a line: {error}") from error
    for value in reversed(values):
        counts = counts_in(value, str(path))
        if counts is not None:
            return counts
    raise CountError(f"{path}: no object with passed, failed (and skipped) in it")


def count_file(path):
    return count_junit(path) if path.suffix == ".xml" else count_json(path)


def ctest_entries(path):
    """(name, status, message) of each ctest entry; status is passed, failed or skipped."""
    try:
        root = ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise CountError(f"{path}: ctest left no readable summary: {error}") from error
    for case in root.iter("testcase"):
        failure = case.find("failure")
        if failure is not None or case.get("status") == "fail":
            yield case.get("name"), "failed", failure.get("message", "") if failure is not None else ""
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            message = case.find("skipped")
            message = message.get("message", "") if message is not None else ""
            # "Unable to find executable" is a broken build, not a decision to skip.
            yield case.get("name"), "failed" if "find executable" in message else "skipped", message
        else:
            yield case.get("name"), "passed", ""


def count_results(directory):
    directory = Path(directory)
    counts = Counts()
    files = {path.stem: path for path in sorted(directory.glob("*")) if path.suffix in (".xml", ".json")}
    summary = files.pop("ctest", None)
    if summary is None:
        counts.fail(str(directory), "no ctest.xml: ctest did not run to its end")
        return counts
    try:
        entries = list(ctest_entries(summary))
    except CountError as error:
        counts.fail(str(directory), str(error))
        return counts
    for name, status, message in entries:
        path = files.pop(name, None)
        if path is None:
            if status == "failed":
                counts.fail(name, message)
            elif status == "passed":
                counts.passed += 1
            else:
                counts.skipped += 1
            continue
        try:
            found = count_file(path)
        except CountError as error:
            counts.fail(name, str(error))
            continue
        if status == "failed" and found.failed == 0:
            found.fail(name, message or "the program failed outside its test cases")
        elif status == "passed" and found.failed:
            found.failures.append((name, "exited 0 although cases failed"))
        elif status == "passed" and found.total == 0:
            found.fail(name, "ran no test case")
        counts += found
    for name, path in files.items():  # cases written under another name than their ctest entry's
        try:
            counts += count_file(path)
        except CountError as error:
            counts.fail(name, str(error))
    return counts


def count_steps(path):
    counts = Counts()
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        columns = line.split("\t")
        if len(columns) != 5 or columns[2] not in ("passed", "failed", "skipped"):
            raise CountError(f"{path}:{number}: not a step line: {line!r}")
        kind, name, status, _, directory = columns
        if kind == "cases":
            found = count_results(directory)
            if status == "failed" and found.failed == 0:
                found.fail(name, "the step failed outside its test cases")
            counts += found
        elif kind == "gate" or status == "failed":
            if kind not in ("gate", "build"):
                raise CountError(f"{path}:{number}: unknown kind {kind!r}")
            if status == "failed":
                counts.fail(name, "")
            elif status == "passed":
                counts.passed += 1
            else:
                counts.skipped += 1
    return counts


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--results", metavar="DIR", help="count one results directory")
    source.add_argument("--steps", metavar="FILE", help="count every step of a run of ./test")
    parser.add_argument("--failures", action="store_true", help="first name each failure")
    options = parser.parse_args(arguments)
    try:
        counts = count_results(options.results) if options.results else count_steps(options.steps)
    except (CountError, OSError) as error:
        counts = Counts()
        counts.fail("count.py", str(error))
    if options.failures:
        for name, message in counts.failures[:50]:
            print(f"  FAILED {name}" + (f": {message[:200]}" if message else ""))
        if len(counts.failures) > 50:
            print(f"  ... and {len(counts.failures) - 50} more")
    print(counts)
    return 0 if counts.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
