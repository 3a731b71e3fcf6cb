#!/usr/bin/env python3
"""Runs the unit tests of the scripts beside it and leaves their counts in IRON_RESULT_FILE."""

import json
import os
import sys
import unittest
from pathlib import Path


def main():
    suite = unittest.defaultTestLoader.discover(str(Path(__file__).parent), pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = result.failures + result.errors
    counts = {
        "passed": result.testsRun - len(bad) - len(result.skipped),
        "failed": len(bad),
        "skipped": len(result.skipped),
        "failures": [case.id() for case, _ in bad],
    }
    if path := os.environ.get("IRON_RESULT_FILE"):
        Path(path).write_text(json.dumps(counts), encoding="utf-8")
    return 0 if result.wasSuccessful() and counts["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
