# lit configuration: textual tests of the passes, one folder a pass.
import lit.formats

config.name = "passes"
config.test_format = lit.formats.ShTest(False)
config.suffixes = [".iron"]
config.test_source_root = lit_config.params["source"]
config.test_exec_root = lit_config.params["scratch"]
config.substitutions.append(("%iron_opt", lit_config.params["iron_opt"]))
config.substitutions.append(("%FileCheck", lit_config.params["filecheck"]))
