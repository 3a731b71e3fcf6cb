#!/usr/bin/env python3
"""Runs the unittest files of one folder and leaves their counts in IRON_RESULT_FILE.

Usage: unittests.py [--venv] FOLDER [VARIABLE=VALUE]...

The variables are set in the environment of the tests. --venv: with the Python of .cache/venv, which has numpy.
"""

import json
import os
import sys
import unittest
from pathlib import Path

VENV = Path(__file__).resolve().parents[2] / ".cache/venv/bin/python"

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[0] == "--venv":
        del arguments[0]
        if Path(sys.prefix) != VENV.parent.parent:
            if not VENV.exists():
                sys.exit(f"{VENV} is not there: run ./setup")
            os.execv(VENV, [VENV, __file__, *arguments])
    folder, *variables = arguments
    os.environ |= dict(v.split("=", 1) for v in variables)
    suite = unittest.defaultTestLoader.discover(folder, pattern="test_*.py")
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    bad = result.failures + result.errors
    counts = {"passed": result.testsRun - len(bad) - len(result.skipped), "failed": len(bad), "skipped": len(result.skipped),
              "failures": [case.id() for case, _ in bad]}
    if path := os.environ.get("IRON_RESULT_FILE"):
        Path(path).write_text(json.dumps(counts) + "\n", encoding="utf-8")
    sys.exit(0 if result.wasSuccessful() and result.testsRun > 0 else 1)
