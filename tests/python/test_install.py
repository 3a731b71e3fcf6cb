"""The wheel of `pip install ./python`: built by pip without a network, complete, usable from another folder without the build tree."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import iron, numpy
assert iron.__file__.startswith({folder!r}), iron.__file__
x, y = numpy.ones((2, 4), numpy.float32), numpy.empty((2, 4), numpy.float32)
iron.kernel("softmax", "f32", device="interpreter")(x, y)
assert (y == 0.25).all()
print(iron.library_path())
"""


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name).resolve()
        # A copy of the package alone: nothing around it can be found by accident.
        self.source = self.path / "source/python"
        shutil.copytree(ROOT / "python", self.source, ignore=shutil.ignore_patterns("__pycache__"))

    def run_python(self, *arguments, library=None, fails=False):
        environment = {k: v for k, v in os.environ.items() if k not in ("IRON_LIBRARY", "PYTHONPATH", "IRON_RESULT_FILE")}
        if library:
            environment["IRON_LIBRARY"] = str(library)
        done = subprocess.run([sys.executable, *map(str, arguments)], cwd=self.path, capture_output=True, text=True, env=environment, check=False)
        self.assertEqual(done.returncode != 0, fails, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def pip(self, *arguments, **more):
        return self.run_python("-m", "pip", "--disable-pip-version-check", *arguments, **more)

    def program(self, folder):
        file = self.path / "program.py"
        file.write_text(f"import sys; sys.path.insert(0, {str(folder)!r})\n" + PROGRAM.format(folder=str(folder)))
        return file

    def test_wheel_with_library(self):
        self.pip("install", "--no-index", "--no-deps", "--target", self.path / "site", self.source, library=os.environ["IRON_LIBRARY"])
        printed = self.run_python(self.program(self.path / "site")).strip()
        self.assertEqual(printed, str(self.path / "site/iron/libiron.so"))

    def test_wheel_without_library(self):
        self.pip("wheel", "--no-index", "--no-deps", "--wheel-dir", self.path / "wheels", self.source)
        (wheel,) = (self.path / "wheels").iterdir()
        self.assertTrue(wheel.name.endswith("-py3-none-any.whl"), wheel.name)
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
        self.assertIn("iron/py.typed", names)
        self.assertIn("iron/__init__.pyi", names)
        self.assertFalse([n for n in names if n.endswith(".so") or "__pycache__" in n])
        self.pip("install", "--no-index", "--no-deps", "--target", self.path / "site", wheel)
        message = self.run_python(self.program(self.path / "site"), fails=True)
        self.assertIn("libiron.so is not here", message)
        self.assertIn("IRON_LIBRARY", message)
        self.run_python(self.program(self.path / "site"), library=os.environ["IRON_LIBRARY"])
        self.run_python(self.program(self.path / "site"), library=Path(os.environ["IRON_LIBRARY"]).parent)
        self.assertIn("is not there", self.run_python(self.program(self.path / "site"), library=self.path / "absent", fails=True))

    def test_a_library_that_is_none(self):
        file = self.path / "libiron.so"
        file.write_text("not a library")
        self.assertIn("cannot be loaded", self.run_python(self.program(self.source), library=file, fails=True))
        other = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=False, env={**os.environ, "PATH": "/sbin:/usr/sbin:" + os.environ["PATH"]}).stdout
        libm = next(line.split()[-1] for line in other.splitlines() if line.split() and line.split()[0] == "libm.so.6")
        self.assertIn("lacks iron_abi_version", self.run_python(self.program(self.source), library=libm, fails=True))

    def test_source_archive(self):
        sys.path.insert(0, str(self.source / "build_backend"))
        self.addCleanup(sys.path.pop, 0)
        import iron_wheel
        name = iron_wheel.build_sdist(self.path)
        self.pip("wheel", "--no-index", "--no-deps", "--wheel-dir", self.path / "again", self.path / name)


if __name__ == "__main__":
    unittest.main()
