"""Builds the wheel: the package, and libiron.so where it has been built. The standard library is all it needs.

The hooks are those of PEP 517 and PEP 660.
"""

import base64
import hashlib
import importlib.util
import sys
import sysconfig
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "iron"


def _project():
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib.loads(text)["project"]
    # 3.10 has no reader of TOML: the four single-line texts that are needed.
    import re

    one = {key: re.search(rf'^{key} = "(.*)"', text, re.MULTILINE)[1] for key in ("name", "version", "description", "requires-python")}
    return one | {"readme": "README.md", "license": {"text": "Apache-2.0"}, "classifiers": [], "optional-dependencies": {"numpy": ["numpy"]}}


def _library():
    """What the package itself would load, from a build tree or IRON_LIBRARY; None if there is nothing."""
    source = (PACKAGE / "_library.py").read_text(encoding="utf-8")
    # The module loads its library when it is imported: only find() is wanted here.
    spec = importlib.util.spec_from_loader("iron_find", loader=None)
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(PACKAGE / "_library.py")
    exec(compile(source.split("\nclass Library:")[0], module.__file__, "exec"), module.__dict__)
    try:
        return module.find()
    except ImportError as error:
        print(f"iron-kernels: a wheel without the library, which IRON_LIBRARY must name when it is used ({error})")
        return None


def _names(project):
    return project["name"].replace("-", "_"), project["version"]


def _metadata(project):
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {project['description']}",
             f"Requires-Python: {project['requires-python']}", f"License: {project['license']['text']}"]
    lines += [f"Classifier: {c}" for c in project["classifiers"]]
    for extra, needs in project["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}"] + [f"Requires-Dist: {n}; extra == '{extra}'" for n in needs]
    text = (HERE / project["readme"]).read_text(encoding="utf-8")
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", text])


def _write(wheel_directory, files, tag, pure):
    """files: {path in the wheel: bytes or a path to read}."""
    project = _project()
    name, version = _names(project)
    info = f"{name}-{version}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = _metadata(project).encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: iron_wheel\nRoot-Is-Purelib: {str(pure).lower()}\nTag: {tag}\n".encode()
    record = []
    path = Path(wheel_directory) / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for inside, content in sorted(files.items()):
            data = content if isinstance(content, bytes) else content.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{inside},sha256={digest},{len(data)}")
            # A fixed time: equal content makes equal wheels.
            entry = zipfile.ZipInfo(inside, (2020, 1, 1, 0, 0, 0))
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            archive.writestr(entry, data)
        archive.writestr(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]))
    return path.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {f"iron/{p.name}": p for p in PACKAGE.iterdir() if p.suffix in (".py", ".pyi", ".typed")}
    library = _library()
    if library is None:
        return _write(wheel_directory, files, "py3-none-any", True)
    files["iron/libiron.so"] = library
    return _write(wheel_directory, files, f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}", False)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {"iron_kernels.pth": f"{HERE}\n".encode()}, "py3-none-any", True)


def build_sdist(sdist_directory, config_settings=None):
    import tarfile

    name, version = _names(_project())
    path = Path(sdist_directory) / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for file in [HERE / "pyproject.toml", HERE / "README.md", Path(__file__), *sorted(PACKAGE.glob("*.py*")), PACKAGE / "py.typed"]:
            if file.is_file():
                archive.add(file, f"{name}-{version}/{file.relative_to(HERE)}")
    return path.name
