# lit's view of the textual tests: `// RUN:` lines in .iron files, with %iron for the tool, checked by FileCheck.
#
# By hand: python3 /usr/lib/llvm-19/build/utils/lit/lit.py -v tests/passes      (uses build/iron)
import os
import shutil

import lit.formats

config.name = "iron"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".iron"]
config.excludes = ["Inputs", "data"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(config.test_source_root)
config.test_exec_root = lit_config.params.get("work", os.path.join(root, "build", "lit"))

iron = os.path.abspath(lit_config.params.get("iron", os.path.join(root, "build", "iron")))
if not os.access(iron, os.X_OK):
    lit_config.fatal(f"{iron} is missing: build it (cmake --preset dev && cmake --build --preset dev --target iron)")
filecheck = shutil.which("FileCheck-19")
if filecheck is None:
    lit_config.fatal("FileCheck-19 is missing: run ./setup")

config.substitutions += [
    (r"%iron\b", iron),
    (r"\bFileCheck(-19)?(?= |$)", f"{filecheck} --enable-var-scope --allow-unused-prefixes=false"),
    (r"(?<![\w-])not(?= )", "/usr/lib/llvm-19/bin/not"),
]
# Tests must not read or write the user's own caches.
config.environment["IRON_CACHE_DIR"] = os.path.join(config.test_exec_root, "cache")
config.environment["NO_COLOR"] = "1"
