#!/usr/bin/env python3
"""Runs the tests of the command line against one `iron` and leaves their counts in IRON_RESULT_FILE.

Usage: run.py PATH-TO-IRON
"""

import json
import os
import sys
import unittest
from pathlib import Path

if __name__ == "__main__":
    os.environ["IRON_UNDER_TEST"] = os.path.abspath(sys.argv[1])
    suite = unittest.defaultTestLoader.discover(str(Path(__file__).parent), pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = result.failures + result.errors
    counts = {"passed": result.testsRun - len(bad) - len(result.skipped), "failed": len(bad), "skipped": len(result.skipped),
              "failures": [case.id() for case, _ in bad]}
    if path := os.environ.get("IRON_RESULT_FILE"):
        Path(path).write_text(json.dumps(counts) + "\n", encoding="utf-8")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
