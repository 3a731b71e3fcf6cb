"""./test keeps what passed before on the same tree, and nothing else."""

import subprocess
import tempfile
import unittest
from pathlib import Path

STEPS = Path(__file__).resolve().parent / "steps.sh"


class Resume(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        for command in (["git", "init", "-q"], ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
                                                "--allow-empty", "-m", "first"]):
            subprocess.run(command, cwd=self.folder, check=True)
        (self.folder / ".gitignore").write_text("*\n")

    def run_steps(self, second, resume=""):
        """Two gates, of which the second does `second`; the names of those that ran, and the steps file."""
        script = (f'python=python3; source "{STEPS}"; steps_init steps "{resume}"; '
                  "kept gate one || step gate one -- bash -c 'echo one >>ran'; "
                  f"kept gate two || step gate two -- bash -c 'echo two >>ran; {second}'; true")
        (self.folder / "ran").unlink(missing_ok=True)
        subprocess.run(["bash", "-c", script], cwd=self.folder, check=True, capture_output=True)
        ran = self.folder / "ran"
        rows = [line.split("\t")[1:3] for line in (self.folder / "steps/steps.tsv").read_text().splitlines()]
        return (ran.read_text().split() if ran.exists() else []), rows

    def test_what_passed_is_kept(self):
        self.assertEqual(self.run_steps("exit 1"), (["one", "two"], [["one", "passed"], ["two", "failed"]]))
        self.assertEqual(self.run_steps("exit 0", "resume"), (["two"], [["one", "passed"], ["two", "passed"]]))
        self.assertEqual(self.run_steps("exit 0", "resume"), ([], [["one", "passed"], ["two", "passed"]]))

    def test_without_resume_all_runs(self):
        self.run_steps("exit 0")
        self.assertEqual(self.run_steps("exit 0")[0], ["one", "two"])

    def test_another_tree_starts_over(self):
        self.run_steps("exit 0")
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "next"],
                       cwd=self.folder, check=True)
        self.assertEqual(self.run_steps("exit 0", "resume")[0], ["one", "two"])

    def test_entries_of_a_leg_that_was_cut_off_are_kept(self):
        """Those that ctest called passed, of this run and of those before it; never one that failed or had begun."""
        lines = ["      Start  4: fuzz_test_2_of_8", " 1/51 Test  #3: fuzz_test_1_of_8 ........   Passed   12.30 sec",
                 "12/51 Test #14: cli ....................***Failed    1.00 sec", "13/51 Test #15: tools ...***Skipped   0.1 sec"]
        script = (f'python=python3; source "{STEPS}"; steps_init steps "$1"; entries_passed "tests dev"; '
                  'printf "%s\n" "$2" >"$(log_of "tests dev")"; echo "build x" >>"$steps_file"')
        seen = []
        for resume, log in (("", "\n".join(lines)), ("resume", "2/2 Test #4: emit ...   Passed    0.10 sec"),
                            ("resume", ""), ("", "")):
            done = subprocess.run(["bash", "-c", script, "bash", resume, log], cwd=self.folder, check=True,
                                  capture_output=True, text=True)
            seen.append(done.stdout.split())
        self.assertEqual(seen, [[], ["fuzz_test_1_of_8"], ["fuzz_test_1_of_8", "emit"], []])


if __name__ == "__main__":
    unittest.main()
