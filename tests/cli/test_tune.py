"""`iron tune` without a GPU: plans and their mistakes, what is prebuilt, what running says without a driver."""

import ctypes
import json
import unittest

from test_cli import Case

PRODUCT = {"kernel": "gemm_tma_bf16", "specs": ["spec={cluster=2}", "spec={group=4}"], "shapes": [{"m": 256, "n": 512, "k": 128}]}
TILE = {"kernel": "iron_gemm_f32", "shapes": [{"m": 5, "n": 7, "k": 9}, {"m": 64, "n": 64, "k": 64}], "arch": ["sm_90a", "sm_80"]}
BENCH = {"kernel": "gemv_f32", "benches": ["4096 x 4096"]}


def driver_is_here():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


class Tune(Case):
    def plan(self, *entries, **more):
        file = self.path / "my.json"
        file.write_text(json.dumps({"iron_plan": 1, "entries": list(entries)} | more))
        return file

    def wrong(self, words, *entries, **more):
        done = self.fails(1, [*words, "my.json", "= fix: "], "tune", "--prebuild", self.path / "none", "--plan", self.plan(*entries, **more))
        self.assertFalse((self.path / "none").exists())
        return done

    def prebuilt(self, folder, *arguments):
        done = self.iron("tune", "--prebuild", folder, *arguments)
        if "CUDA01" in done.stderr:
            self.skipTest("NVRTC is not here")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((folder / "plan.json").read_text())

    def test_usage(self):
        self.fails(2, "--prebuild DIR", "tune")
        self.fails(2, "--run DIR", "tune", "--prebuild", "a", "--run", "b")
        self.fails(2, "--plan", "tune", "--run", "a", "--plan", "b")
        self.fails(2, "--out", "tune", "--prebuild", "a", "--out", "b")

    def test_wrong_plans(self):
        file = self.path / "text.json"
        file.write_text("hello")
        self.fails(1, ["TUNE01", "text.json", "iron_plan"], "tune", "--prebuild", self.path / "none", "--plan", file)
        self.fails(1, ["TOOL01", "absent.json"], "tune", "--prebuild", self.path / "none", "--plan", self.path / "absent.json")
        self.wrong(["TUNE01", "no entries"])
        self.wrong(["TUNE02", "there is no key 'sead'"], TILE, sead=3)
        self.wrong(["TUNE02", "entries[1]", "there is no key 'shape'"], TILE, {"kernel": "gemm_f32", "shape": []})
        self.wrong(["TUNE03", "entries[1]", "no kernel 'gemn_f32'"], TILE, {"kernel": "gemn_f32", "shapes": []})
        self.wrong(["TUNE04", "entries[0]", "cluster=1", "clusters=2"], PRODUCT | {"specs": ["spec={clusters=2}"]})
        self.wrong(["TUNE04", "entries[0]", "'tile'"], PRODUCT | {"specs": ["tile=2"]})
        self.wrong(["TUNE04", "entries[0]"], BENCH | {"specs": ["spec=2"]})
        self.wrong(["TUNE05", "entries[0].shapes[1]", "'k' is missing"], PRODUCT | {"shapes": [{"m": 1, "n": 8, "k": 8}, {"m": 1, "n": 8}]})
        self.wrong(["TUNE05", "entries[0].shapes[0]", "'m' is 0"], PRODUCT | {"shapes": [{"m": 0, "n": 8, "k": 8}]})
        self.wrong(["TUNE05", "entries[0]", "iron_gemm_tma_bf16", "64x8x7", "multiples of 16 bytes"], PRODUCT | {"shapes": [{"m": 64, "n": 8, "k": 7}]})
        self.wrong(["TUNE05", "entries[0]", "iron_gemv_f32", "one row"], {"kernel": "gemv_f32", "shapes": [{"m": 2, "n": 8, "k": 7}]})
        self.wrong(["TUNE05", "entries[0]", "no matrix product"], {"kernel": "softmax_f32", "shapes": [{"m": 2, "n": 8, "k": 7}]})
        self.wrong(["TUNE05", "entries[0]", "no bench '5 x 5'", "4096 x 4096"], BENCH | {"benches": ["5 x 5"]})
        self.wrong(["TUNE05", "entries[0]", "nothing to time"], {"kernel": "gemv_f32"})
        self.wrong(["TUNE06", "entries[0]", "sm_91", "sm_90a"], PRODUCT | {"arch": "sm_91"})

    def test_prebuild(self):
        """Cubins for the GPU, and beside them what a launch needs."""
        folder = self.path / "mine"
        data = self.prebuilt(folder, "--plan", self.plan(PRODUCT, TILE, BENCH, seed=7))
        self.assertEqual(data["seed"], 7)
        self.assertEqual([(k["kernel"], k["arch"]) for k in data["kernels"]],
                         [("iron_gemm_tma_bf16", "sm_90a")] * 2 + [("iron_gemm_f32", "sm_90a"), ("iron_gemm_f32", "sm_80"), ("iron_gemv_f32", "sm_90a")])
        self.assertEqual([o["arch"] for o in data["oracles"]], ["sm_90a", "sm_80"])
        for k in data["kernels"] + data["oracles"]:
            self.assertEqual((folder / k["cubin"]).read_bytes()[:4], b"\x7fELF")
            self.assertIn(k["entry"], (folder / (k["name"] + ".cu")).read_text())
            self.assertEqual(k["spill_bytes"], 0)
        pair, four = data["kernels"][:2]
        self.assertIn("cluster=2,group=8", pair["specialisation"])
        self.assertIn("cluster=1,group=4", four["specialisation"])
        self.assertEqual((pair["cluster"], four["cluster"]), (2, 1))
        self.assertGreater(pair["shared"], 200_000)
        boxes = {a["param"]: a["box"] for a in pair["args"] if a["tensor"]}
        self.assertEqual(boxes, {"a": [64, 128], "b": [64, 128], "c": [64, 64]})
        launch = pair["launches"][0]
        self.assertEqual(launch["flops"], 2 * 256 * 512 * 128)
        self.assertEqual(launch["bytes"], 2 * (256 * 128 + 512 * 128 + 256 * 512))
        self.assertEqual(launch["grid"], [4, 1, 1])
        self.assertEqual([(s["m"], s["n"], s["k"]) for s in data["kernels"][2]["launches"]], [(5, 7, 9), (64, 64, 64)])
        self.assertEqual(data["kernels"][4]["launches"][0]["bench"], "4096 x 4096")

        again = self.path / "again"
        self.assertEqual(self.prebuilt(again, "--plan", self.plan(PRODUCT, TILE, BENCH, seed=7), "-j", "1")["kernels"], data["kernels"])
        for k in data["kernels"]:
            self.assertEqual((folder / k["cubin"]).read_bytes(), (again / k["cubin"]).read_bytes())

        # Here there is no GPU: the driver is named, not the plan.
        if not driver_is_here():
            self.fails(1, ["CUDA10", "no NVIDIA driver"], "tune", "--run", folder)
        self.fails(1, ["CUDA06", "IRON_GEMM_ALGO", "first"], "tune", "--run", folder, IRON_GEMM_ALGO="first")

    def test_default_plan(self):
        data = self.prebuilt(self.path / "family")
        rungs = {k["kernel"] for k in data["kernels"]}
        self.assertLessEqual({"iron_gemm_tma_bf16", "iron_gemm_tma_cluster2_f16", "iron_gemm_tma_e4m3_bf16", "iron_gemm_bf16", "iron_gemm_f32"}, rungs)
        old = self.prebuilt(self.path / "old", "--arch", "sm_80")
        self.assertTrue(old["kernels"])
        self.assertFalse([k for k in old["kernels"] if "tma" in k["kernel"]])

    def test_architectures_that_lack_something(self):
        done = self.iron("tune", "--prebuild", self.path / "none", "--plan", self.plan(PRODUCT | {"arch": ["sm_80"]}))
        self.assertEqual(done.returncode, 1)
        for word in ("TUNE07", "my.json, entries[0]", "iron_gemm_tma_bf16 for sm_80", "D20", "leave the architecture out"):
            self.assertIn(word, done.stderr)
        self.assertFalse((self.path / "none" / "plan.json").exists())

    def test_runs_that_cannot_be(self):
        self.fails(1, ["TUNE10", "prebuild"], "tune", "--run", self.path / "nowhere")
        folder = self.path / "other"
        folder.mkdir()
        for text in ("hello", "[]", '{"iron_tune": 2, "kernels": []}'):
            (folder / "plan.json").write_text(text)
            self.fails(1, ["TUNE10", "plan.json"], "tune", "--run", folder)
        (folder / "plan.json").write_text(self.plan(TILE).read_text())
        self.fails(1, ["TUNE10", "is a plan"], "tune", "--run", folder)

    def test_reference_needs_the_vendor(self):
        self.fails(2, ["--reference", "interpreter"], "bench", "gemm_f32", "--backend", "interpreter", "--reference", "--allow-dirty")


if __name__ == "__main__":
    unittest.main()
