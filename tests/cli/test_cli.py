"""The command line: help, wrong usage, filters, lists, JSON, inspection, passes, replay."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

IRON = os.environ["IRON_UNDER_TEST"]
COMMANDS = ["device", "test", "bench", "build", "inspect", "tune", "opt", "bisect", "replay", "lint", "completions"]
KERNEL = "iron_rms_norm_wide"
PASSES = ["kernel_inline", "type_check", "const_fold", "algebraic_simplify", "copy_prop", "cse", "licm", "if_conversion",
          "value_sink", "fusion", "fma_fusion", "unroll", "schedule", "vectorize", "dead_store_elim"]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def iron(self, *arguments, stdin="", **variables):
        environment = {k: v for k, v in os.environ.items() if k not in ("IRON_RESULT_FILE", "NO_COLOR", "CLICOLOR_FORCE")}
        environment |= {"IRON_CACHE": str(self.path / "cache")} | variables
        return subprocess.run([IRON, *map(str, arguments)], input=stdin, capture_output=True, text=True, env=environment,
                              timeout=300, check=False)

    def ok(self, *arguments, **more):
        done = self.iron(*arguments, **more)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stdout}{done.stderr}")
        return done.stdout

    def fails(self, code, words, *arguments, **more):
        done = self.iron(*arguments, **more)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stdout}{done.stderr}")
        for word in words if isinstance(words, (list, tuple)) else [words]:
            self.assertIn(word, done.stderr)
        return done

    def lines(self, *arguments, **more):
        return [json.loads(line) for line in self.ok(*arguments, **more).splitlines()]


class Usage(Case):
    def test_help_names_every_command(self):
        text = self.ok("--help")
        for command in COMMANDS:
            self.assertIn(command, text)

    def test_help_of_each_command_has_examples(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.ok(command, "--help")
                self.assertIn("Examples:", text)
                self.assertIn(f"iron {command}", text)

    def test_version(self):
        self.assertRegex(self.ok("--version"), r"^iron \d+\.\d+\.\d+\n$")

    def test_wrong_usage_is_2(self):
        self.fails(2, "a command is missing")
        self.fails(2, "--nonsense", "--nonsense")
        self.fails(2, ["nonsense", "device"], "nonsense")
        self.fails(2, "--nonsense", "test", "--nonsense")
        self.fails(2, "--color", "--color", "red", "device")
        self.fails(2, "no backend 'abacus'", "test", "--backend", "abacus")
        self.fails(2, "--detailed needs --summary", "test", "--detailed")
        self.fails(2, "--emit needs -o", "build", "--emit", "ir")
        self.fails(2, "no stage 'poem'", "build", "--emit", "poem", "-o", self.path / "x")
        self.fails(2, "--runs", "bench", "--runs", "0")

    def test_completions(self):
        for shell in ("bash", "zsh", "fish"):
            text = self.ok("completions", shell)
            for command in COMMANDS:
                self.assertIn(command, text)
            self.assertIn("match-group", text)
        syntax = subprocess.run(["bash", "-n"], input=self.ok("completions", "bash"), text=True, capture_output=True, check=False)
        self.assertEqual(syntax.returncode, 0, syntax.stderr)
        self.fails(2, "SHELL", "completions", "tcsh")

    def test_bash_completes_commands_and_flags(self):
        script = self.ok("completions", "bash")
        ask = script + '\nCOMP_WORDS=(iron be); COMP_CWORD=1; _iron; echo "${COMPREPLY[@]}"\n' \
            'COMP_WORDS=(iron test --san); COMP_CWORD=2; _iron; echo "${COMPREPLY[@]}"\n'
        done = subprocess.run(["bash"], input=ask, text=True, capture_output=True, check=True)
        self.assertEqual(done.stdout.split(), ["bench", "--sanitize"])


class Filters(Case):
    def names(self, *filters):
        return [row["name"] for row in self.lines("test", "--list", "--json", *filters)]

    def test_each_filter(self):
        everything = self.names()
        self.assertIn(KERNEL + "_f32", everything)
        self.assertEqual(len(everything), len(set(everything)))
        mine = [n for n in everything if n.startswith(KERNEL)]
        self.assertEqual(self.names("RMS_NORM_WIDE"), mine)
        self.assertEqual(self.names("-f", "rms_norm_wide", "--dtypes", "f16"), [KERNEL + "_f16"])
        self.assertEqual(self.names("--match-name", f"^{KERNEL}_(f32|bf16)$"), [KERNEL + "_f32", KERNEL + "_bf16"])
        self.assertEqual(self.names("--match-group", "^rms_norm_wide$"), mine)
        self.assertTrue(set(mine) <= set(self.names("--match-group", "^norm$")))
        self.assertFalse(set(mine) & set(self.names("--no-match-name", "rms_norm_wide", "-f", "f")) if len(everything) > len(mine) else set())
        self.assertEqual(self.names("kernels/norm/rms_norm.cpp", "wide"), mine)
        self.assertTrue(set(mine) <= set(self.names("kernels/norm/")))
        self.assertEqual(self.names("--match-path", "*/rms_norm.cpp", "wide"), mine)
        self.assertEqual(self.names("rms_norm_wide", "--no-match-name", "bf16", "--no-match-name", "f32"), [KERNEL + "_f16"])

    def test_bad_filters_are_usage_errors(self):
        self.fails(2, ["--match-name", "regular expression"], "test", "--match-name", "(")
        self.fails(2, "--no-match-group", "test", "--no-match-group", "[")
        self.fails(2, ["--match-path", "glob"], "test", "--match-path", "kernels/[a")
        self.fails(2, "no element type 'f31'", "test", "--dtypes", "f31")

    def test_nothing_selected_is_a_failure(self):
        for command in (["test"], ["bench", "--allow-dirty"], ["build"], ["test", "--list"]):
            with self.subTest(command=command):
                self.fails(1, "no ", *command, "no_such_kernel_at_all")


class Lists(Case):
    def test_schema(self):
        for command in ("test", "bench"):
            rows = self.lines(command, "--list", "--json")
            self.assertTrue(rows)
            for row in rows:
                self.assertLessEqual({"kernel", "family", "dtype", "file"}, set(row))
                self.assertTrue(row["file"].startswith("kernels/"), row)
                self.assertEqual(row["name"], f"{row['kernel']}_{row['dtype']}")

    def test_tables_line_up(self):
        lines = self.ok("test", "--list", "rms_norm_wide").splitlines()
        column = lines[0].index("family")
        for line in lines[1:]:
            self.assertEqual(line[column:column + 4], "norm")

    def test_inspect_lists(self):
        self.assertIn(KERNEL, self.ok("inspect"))


class Demo(Case):
    def test_its_kernels_exist(self):
        """The selection of ./demo names kernels that are there: each with tests and benches."""
        script = (Path(__file__).resolve().parents[2] / "demo").read_text()
        block = script[script.index("kernels=("):script.index("\nprompt=")]
        done = subprocess.run(["bash", "-c", block + '\nprintf "%s\\n" "$selected" "${kernels[@]}"'], capture_output=True, text=True, check=True)
        selected, *kernels = done.stdout.split()
        for command in ("test", "bench"):
            names = [row["name"] for row in self.lines(command, "--list", "--json", "--match-name", selected)]
            self.assertEqual(sorted(names), sorted(f"iron_{k}_f32" for k in kernels))


class Devices(Case):
    def test_json(self):
        data = json.loads(self.ok("device", "--json", "--no-peaks"))
        names = {d["backend"]: d for d in data["devices"]}
        self.assertTrue(names["interpreter"]["available"])
        for device in data["devices"]:
            self.assertTrue(device["available"] or device["reason"])


class Tests(Case):
    def test_messages(self):
        result = self.path / "counts.json"
        rows = self.lines("test", "rms_norm_wide", "--backend", "interpreter", "--json", IRON_RESULT_FILE=str(result))
        self.assertEqual(rows[0]["type"], "start")
        self.assertEqual(rows[0]["total"], len(rows) - 2)
        self.assertEqual(rows[0]["device"]["backend"], "interpreter")
        for row in rows[1:-1]:
            self.assertEqual(row["type"], "test")
            self.assertTrue(row["passed"])
            self.assertGreaterEqual(row["cosine"], 0.999)
        self.assertEqual(rows[-1]["type"], "done")
        self.assertEqual((rows[-1]["test_passed"], rows[-1]["test_failed"], rows[-1]["test_skipped"]), (len(rows) - 2, 0, 0))
        self.assertEqual(json.loads(result.read_text())["test_passed"], len(rows) - 2)

    def test_plain_lines_when_piped(self):
        text = self.ok("test", "rms_norm_wide_f32", "--backend", "interpreter")
        self.assertNotIn("\x1b", text)
        self.assertIn("ok    iron_rms_norm_wide_f32", text)
        self.assertRegex(text.splitlines()[-1], r"^\d+ cases of 1 kernels passed on interpreter")
        self.assertEqual(len(self.ok("-q", "test", "rms_norm_wide_f32", "--backend", "interpreter").splitlines()), 1)

    def test_progress_on_request(self):
        done = self.iron("-q", "test", "rms_norm_wide_f32", "--backend", "interpreter", "--show-progress")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^0/\d+ iron_rms_norm_wide_f32")
        self.assertNotIn("\x1b", done.stderr)
        self.assertEqual(self.iron("-q", "test", "rms_norm_wide_f32", "--backend", "interpreter").stderr, "")

    def test_progress_on_a_terminal(self):
        import pty
        main, side = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if k not in ("IRON_RESULT_FILE", "CI")} | {"COLUMNS": "100"}
        done = subprocess.run([IRON, "test", "rms_norm_wide_f32", "--backend", "interpreter"], stdout=subprocess.PIPE, stderr=side,
                              env=environment, timeout=300, check=False)
        os.close(side)
        seen = os.read(main, 65536).decode()
        os.close(main)
        self.assertEqual(done.returncode, 0)
        self.assertIn("[........................] 0/", seen)
        self.assertTrue(seen.endswith("\r\x1b[K"), repr(seen[-40:]))  # the bar goes when the work is done

    def test_colour(self):
        arguments = ("test", "rms_norm_wide_f32", "--backend", "interpreter")
        self.assertIn("\x1b[32m", self.ok("--color", "always", *arguments))
        self.assertIn("\x1b[32m", self.ok(*arguments, CLICOLOR_FORCE="1"))
        self.assertNotIn("\x1b", self.ok(*arguments, CLICOLOR_FORCE="1", NO_COLOR="1"))
        self.assertNotIn("\x1b", self.ok("--color", "never", *arguments, CLICOLOR_FORCE="1"))

    def test_summary(self):
        text = self.ok("test", "rms_norm_wide", "--backend", "interpreter", "--summary", "--detailed", "-q")
        self.assertIn("worst error", text)
        self.assertIn("iron_rms_norm_wide_bf16", text)

    def test_sanitize(self):
        self.assertIn("passed", self.ok("test", "rms_norm_wide_f16", "--sanitize"))


class Builds(Case):
    def test_identity(self):
        lines = self.ok("build", "--identity").splitlines()
        self.assertEqual(len(lines), len(self.lines("test", "--list", "--json")))
        for line in lines:
            self.assertRegex(line, r"^iron_\w+ [0-9a-f]{32}$")
        self.assertEqual(self.ok("build", "--identity").splitlines(), lines)

    def test_kernels_for_other_devices(self):
        """They are recorded wherever Iron runs; only a device that lacks what they need refuses them, by name."""
        needy = [row["name"] for row in self.lines("test", "--list", "--json") if row["needs"]]
        self.assertTrue(needy)
        identities = [line.split()[0] for line in self.ok("build", "--identity").splitlines()]
        self.assertLessEqual(set(needy), set(identities))
        self.fails(1, ["D20", "roles", "interpreter"], "build", "--match-name", f"^{needy[0]}$", "--backend", "interpreter")
        self.assertIn("__global__", self.ok("inspect", needy[0], "--backend", "cuda", "--arch", "sm_90a"))

    def test_emit(self):
        out = self.path / "out"
        self.assertIn("kernels compile", self.ok("build", "rms_norm_wide", "--backend", "interpreter", "--emit", "ir", "-o", out))
        manifest = json.loads((out / "manifest.json").read_text())
        self.assertEqual([k["dtype"] for k in manifest["kernels"]], ["f32", "f16", "bf16"])
        for kernel in manifest["kernels"]:
            for file in kernel["files"]:
                self.assertIn("kernel @" + kernel["name"], (out / file).read_text())

    def test_emit_all_writes_what_can_be_made_here(self):
        out = self.path / "all"
        text = self.ok("build", "rms_norm_wide_f32", "--backend", "interpreter", "--emit", "all", "-o", out)
        files = {Path(f).suffix for f in json.loads((out / "manifest.json").read_text())["kernels"][0]["files"]}
        self.assertLessEqual({".iron", ".cu"}, files)
        for kind in ("ptx", "sass"):  # what needs NVRTC or a GPU is there, or its absence is said
            self.assertNotEqual("." + kind in files, f"{kind} left out: " in text, text)

    def test_sources(self):
        self.assertIn("kernel @iron_rms_norm_wide_f32", self.ok("-v", "build", "rms_norm_wide_f32", "--backend", "interpreter"))

    def test_time_passes(self):
        rows = self.lines("build", "rms_norm_wide_f32", "--time-passes", "--json")
        self.assertEqual([r["pass"] for r in rows[:-1]], PASSES)
        one = rows[-1]  # of single kernels, recording included
        self.assertEqual((one["kernels"], one["largest"]), (1, KERNEL + "_f32"))
        self.assertGreater(one["recording_us"], 0)
        self.assertAlmostEqual(one["largest_us"], one["recording_us"] + sum(r["time_us"] for r in rows[:-1]), delta=0.1)
        self.assertIn("recording and passes of one kernel: median", self.ok("build", "rms_norm_wide_f32", "--time-passes"))


class Inspections(Case):
    def test_ir_and_passes(self):
        recorded = self.ok("inspect", KERNEL, "--dtype", "f16", "--ir")
        self.assertTrue(recorded.startswith("kernel @iron_rms_norm_wide_f16"))
        self.assertIn("// after licm", self.ok("inspect", "rms_norm_wide_f16", "--pass", "licm"))
        self.assertIn("// after cse", self.ok("inspect", "rms_norm_wide_f16", "--pass", "all"))
        self.fails(2, PASSES, "inspect", "rms_norm_wide_f16", "--pass", "nonsense")
        self.fails(2, "no kernel 'nonsense'", "inspect", "nonsense")
        self.fails(2, "iron_rms_norm_wide_f16", "inspect", "rms_norm_wid")
        self.fails(2, "no stage", "inspect", "rms_norm_wide", "--stage", "poem")

    def test_texts_for_a_backend(self):
        """CUDA text needs no GPU."""
        text = self.ok("inspect", "rms_norm_wide_f16", "--backend", "cuda", "--arch", "sm_90a")
        self.assertIn("__global__", text)
        self.assertEqual(self.ok("inspect", "rms_norm_wide_f16", "--stage", "cuda", "--arch", "sm_90a"), text)
        self.assertIn("kernel @", self.ok("inspect", "rms_norm_wide_f16", "--backend", "interpreter"))
        self.fails(2, "no backend 'abacus'", "inspect", "rms_norm_wide", "--backend", "abacus")
        self.fails(2, "give one", "inspect", "rms_norm_wide", "--backend", "interpreter", "--stage", "ir")
        self.fails(1, "sm_1", "inspect", "rms_norm_wide", "--backend", "cuda", "--arch", "sm_1")

    def test_a_kernel_is_shown_as_it_is_launched(self):
        """Its test launches it with three warpgroups, then a second kernel with fewer threads."""
        text = self.ok("inspect", "attention_decode_tma_f16", "--backend", "cuda", "--arch", "sm_90a")
        self.assertIn("__launch_bounds__(384", text)

    def test_all(self):
        rows = self.lines("inspect", "--all", "--match-group", "^rms_norm_wide$", "--stats", "--json")
        self.assertEqual([row["name"] for row in rows], [f"{KERNEL}_{t}" for t in ("f32", "f16", "bf16")])
        self.fails(2, "--all", "inspect", "--stats")
        self.fails(2, "--all", "inspect", "rms_norm_wide", "--all")
        self.fails(1, "no kernel", "inspect", "--all", "-f", "no_such_kernel_at_all")

    def test_all_goes_on_after_a_kernel_that_cannot_be_shown(self):
        """The tile for the CPU's caches is too large for a GPU; its neighbour by name is not."""
        wanted = ["inspect", "--all", "--match-name", "^iron_gemm(_cpu)?_f32$", "--backend", "cuda", "--arch", "sm_90a"]
        done = self.fails(1, "iron_gemm_cpu_f32", *wanted)
        self.assertIn("D27", done.stderr)
        self.assertIn("1 of 2 kernels could not be shown", done.stderr)
        self.assertIn("iron_gemm_f32", done.stdout)
        rows = [json.loads(line) for line in self.iron(*wanted, "--json").stdout.splitlines()]
        self.assertEqual({row["name"]: row["type"] for row in rows},
                         {"iron_gemm_f32": "inspect", "iron_gemm_cpu_f32": "error"})

    def test_stats(self):
        data = self.lines("inspect", "rms_norm_wide_f32", "--stats", "--json")[0]
        self.assertEqual([p["pass"] for p in data["passes"]], PASSES)

    def test_directory(self):
        written = self.ok("inspect", "rms_norm_wide_f32", "--pass", "all", "-o", self.path / "passes").split()
        self.assertGreaterEqual(len(written), 2)
        for path in written:
            self.assertIn("kernel @", Path(path).read_text())

    def test_opt_reads_what_inspect_prints(self):
        recorded = self.ok("inspect", "rms_norm_wide_f32", "--ir")
        self.assertEqual(self.ok("opt", "--pass", "type_check", stdin=recorded), recorded)
        self.assertIn("// stats: cse", self.ok("opt", "--pass", "cse", "--stats", stdin=recorded))
        self.fails(2, "no option", "opt", "--nonsense", stdin=recorded)
        self.fails(1, "<stdin>:1:", "opt", stdin="kernel nonsense")

    def test_bisect(self):
        rows = self.lines("bisect", "rms_norm_wide_f16", "--json")
        self.assertTrue(rows)
        self.assertTrue(all(r["ok"] for r in rows))


class Lints(Case):
    KERNEL = "struct K {\n  void operator()() const {\n    for (auto i : range(4)) {\n      if (i_am_host) continue;\n    }\n  }\n};\n"

    def test_a_finding_reads_like_a_compilers(self):
        file = self.path / "kernel.cpp"
        file.write_text(self.KERNEL, encoding="utf-8")
        done = self.fails(1, ["error[D28]", f"{file}:4:22", "if_(condition)"], "lint", file)
        self.assertIn("1 kernels in 1 files, 1 findings", done.stdout)
        done = self.iron("lint", self.path, "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, rows[0]["line"], rows[0]["code"], rows[-1]["ok"]), (1, 4, "D28", False))
        file.unlink()

    def test_wrong_files(self):
        self.fails(2, "FILE", "lint")
        self.fails(1, "does not exist", "lint", self.path / "none.cpp")
        empty = self.path / "empty.cpp"
        empty.write_text("int main() {}\n", encoding="utf-8")
        self.fails(1, "no kernel is in 1 files", "lint", empty)
        empty.unlink()

    def test_the_library_is_clean(self):
        root = Path(__file__).resolve().parents[2]
        rows = self.lines("lint", root / "kernels", root / "examples", "--json")
        self.assertGreater(rows[-1]["kernels"], 100)
        self.fails(1, ["'while'", "D28_host_loop_on_a_device_value.cpp:18:5"], "lint", root / "tests" / "compile_fail")


class Replays(Case):
    def test_bad_files(self):
        self.fails(1, "cannot be read", "replay", self.path / "absent.json")
        text = self.path / "text.json"
        text.write_text("hello")
        self.fails(1, "is not a bundle", "replay", text)
        empty = self.path / "empty.json"
        empty.write_text('{"iron_bundle": 1}')
        self.fails(1, "lacks something", "replay", empty)

    def test_handmade_bundle(self):
        """A bundle needs no library: IR, arguments and expectations travel inside."""
        import base64
        import struct
        kernel = ("kernel @twice(%x: in f32, %y: out f32) threadgroup exact {\n"
                  "  %0 = thread_id : index\n  %1 = load %x[%0] : f32\n  %2 = add %1, %1 : f32\n  store %y[%0], %2\n}\n")

        def packed(data):  # a zstd frame of one raw block
            frame = bytes.fromhex("28b52ffd") + bytes([0x20, len(data)]) + ((len(data) << 3) | 1).to_bytes(3, "little") + data
            return {"bytes": len(data), "data": base64.b64encode(frame).decode()}

        def bundle(expected):
            return {"iron_bundle": 1, "kernel": "twice", "case": "by hand", "bench": False, "seed": 1, "backend": "interpreter",
                    "message": "", "carried": True, "tolerance": [0, 0, 0, 0.999],
                    "steps": [{"ir": kernel, "groups": [1, 1, 1], "threads": [4, 1, 1], "items": 0,
                               "args": [{"name": "x", "dtype": "f32", "buffer": 0, "access": 0},
                                        {"name": "y", "dtype": "f32", "buffer": 1, "access": 1}]}],
                    "buffers": [packed(struct.pack("<4f", 1, 2, 3, 4)), packed(b"\xff" * 16)],
                    "expectations": [{"buffer": 1, "name": "y", "dtype": "f32", "exact": False,
                                      **packed(struct.pack("<4d", *expected))}]}

        good, wrong = self.path / "good.json", self.path / "wrong.json"
        good.write_text(json.dumps(bundle([2, 4, 6, 8])))
        wrong.write_text(json.dumps(bundle([2, 4, 7, 8])))
        self.assertIn("passes", self.ok("replay", good))
        done = self.iron("replay", wrong)
        self.assertEqual(done.returncode, 1)
        self.assertIn("y[2] is 6, expected 7", done.stdout)


class Benches(Case):
    def test_a_cell(self):
        out = self.path / "bench.json"
        rows = self.lines("bench", "rms_norm_wide_f32", "--backend", "interpreter", "--allow-dirty", "--budget", "0.2", "--json", "-o", out)
        cell = rows[1]
        self.assertEqual(cell["type"], "bench")
        self.assertTrue(cell["correct"])
        self.assertRegex(cell["receipt"], r"^[0-9a-f]{32}$")
        self.assertLessEqual(cell["min_us"], cell["median_us"])
        self.assertTrue(cell["low_n"])  # the interpreter is slow: fewer than 30 samples, and said so
        record = json.loads(out.read_text())
        self.assertEqual(record["summary"]["correct"], 1)
        self.assertLessEqual({"device", "summary", "results", "git_sha", "session", "launch_floor_us", "environment"}, set(record))
        self.assertLessEqual({"op", "shape", "metric", "iron", "latency_us"}, set(record["results"][0]))


if __name__ == "__main__":
    unittest.main()
