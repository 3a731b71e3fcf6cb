"""compare.py itself, on the CPU beside numpy: what it prints and records, and that a wrong arm is caught."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import cases  # noqa: E402
import compare  # noqa: E402
import worlds  # noqa: E402


class Script(unittest.TestCase):
    def run_script(self, *arguments, code=0):
        done = subprocess.run([sys.executable, HERE / "compare.py", "--device", "cpu", *arguments], capture_output=True, text=True, check=False,
                              env={k: v for k, v in os.environ.items() if k != "IRON_RESULT_FILE"})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_record(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "new/record.json"
            text = self.run_script("--small", "--rounds", "5", "--seconds", "0.002", "--record", str(file))
            record = json.loads(file.read_text())
        self.assertIn("0 wrong results", text)
        self.assertIn("skipped: numpy has no bf16", text)
        self.assertEqual(set(record["cases"]) | {k for k in record["skipped"] if ", " not in k}, {c.label for c in cases.CASES})
        for label, case in record["cases"].items():
            self.assertEqual(set(case["us"]) - {"copy", "read"}, {"iron", "numpy"}, label)
            self.assertEqual(len(case["us"]), 2 if case["flops"] else 3, label)
            self.assertEqual(len(case["us"]["iron"]["rounds"]), 5)
            low, high = case["ratios"]["numpy"]["quartiles"]
            self.assertLessEqual(low, case["ratios"]["numpy"]["median"])
            self.assertLessEqual(case["ratios"]["numpy"]["median"], high)
            self.assertEqual(case["wrong"], [])

    def test_usage(self):
        self.assertIn("softmax f32", self.run_script("--list"))
        self.assertIn("matches none of", self.run_script("--only", "no such case", code=2))
        self.assertIn("--only", self.run_script("--only", "(", code=2))
        self.assertIn("above 0", self.run_script("--rounds", "0", code=2))


class Method(unittest.TestCase):
    def test_orders_alternate(self):
        self.assertEqual([compare.rotated(["a", "b"], turn) for turn in range(3)], [["a", "b"], ["b", "a"], ["a", "b"]])

    def test_ratio(self):
        ratio = compare.compare([1.0] * 8, [1.1, 1.2, 1.2, 1.2, 1.2, 1.2, 1.3, 1.0])
        self.assertAlmostEqual(ratio["median"], 1.2)
        self.assertTrue(ratio["settled"])
        self.assertAlmostEqual(ratio["min_over_min"], 1.0)
        self.assertFalse(compare.compare([1.0] * 6, [0.9, 1.1, 0.9, 1.1, 0.9, 1.1])["settled"])
        self.assertFalse(compare.compare([1.0] * 3, [2.0] * 3)["settled"])  # too few rounds for a claim

    def test_wrong_and_lazy_arms_are_caught(self):
        world = worlds.open_world("cpu")
        case = cases.add_f32(world, True)
        right = case.arms["iron"]

        def off(i):
            out = right(i)
            out[-1] += 1
            return out

        case.arms = {"iron": right, "off": off, "lazy": lambda i: case.outputs[i], "numpy": case.arms["numpy"]}
        options = type("Options", (), {"rounds": 2, "seconds": 0.001})
        result = compare.run_case(world, case, options)
        self.assertEqual([line.split(":")[0] for line in result["wrong"]], ["off", "lazy"])
        self.assertEqual(set(result["us"]) - set(case.ceilings), {"iron", "numpy"})

    def test_sets_exceed_the_cache(self):
        world = worlds.open_world("cpu")
        self.assertGreaterEqual(cases.copies(world, 1 << 20, False) * (1 << 20), min(3 * world.cache_bytes, 64 << 20))


if __name__ == "__main__":
    unittest.main()
