"""Copy the interpreter that runs this script, with the modules that the guest imports, into a
folder for containers.

    python3 -I -S -B bundle_script.py TARGET GUEST

    TARGET/guest                             the interpreter
    TARGET/loader                            its ELF loader: the image's may be another, or none
    TARGET/lib/                              shared libraries
    TARGET/lib/python3xx.zip                 the modules, compiled
    TARGET/lib/python3.x/lib-dynload/        the modules written in C
    TARGET/shell                             a bash for images that have none

The script imports the guest to find its modules, and nothing else from intercode.
"""

import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

# An interpreter finds its home by this file below lib/python3.x.
_LANDMARK = "os.pyc"
_IMPORTED = (
    "encodings.ascii",
    "encodings.latin_1",
    "encodings.utf_8",
    "guest.python_episode",
    "guest.supervisor",
)
_LIST = """
import sys; sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]: __import__(name)
found = {name: getattr(module, "__file__", None)
         for name, module in sys.modules.items() if name != "__main__"}
import json; print(json.dumps({name: path for name, path in found.items() if path}))
"""


def main(target: str, guest: str) -> None:
    command = [sys.executable, "-I", "-S", "-B", "-c", _LIST, os.path.dirname(guest), *_IMPORTED]
    modules = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    root = Path(target)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    home = root / "lib" / f"python{version}"
    dynload = home / "lib-dynload"
    dynload.mkdir(parents=True)
    (home / _LANDMARK).touch()
    binaries = [
        os.path.realpath(sys.executable),
        os.path.realpath(shutil.which("bash") or "/bin/bash"),
    ]
    shutil.copy(binaries[0], root / "guest")
    shutil.copy(binaries[1], root / "shell")
    for path in modules.values():
        if path.endswith(".so"):
            shutil.copy(path, dynload)
            binaries.append(path)
    _copy_libraries(binaries, root)
    _pack(modules, root / "lib" / f"python{version.replace('.', '')}.zip")


def _pack(modules: dict[str, str], archive: Path) -> None:
    """Write the compiled modules into a zip; stored, not compressed, so that no other module is
    needed to read them."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for name, path in sorted(modules.items()):
            if not path.endswith(".py"):
                continue
            inside = name.replace(".", "/")
            file = os.path.basename(path)
            if file == "__init__.py":
                inside += "/__init__"
            with open(path, "rb") as source:
                code = compile(source.read(), f"<guest>/{file}", "exec", dont_inherit=True)
            head = importlib.util.MAGIC_NUMBER + bytes(12)
            packed.writestr(f"{inside}.pyc", head + marshal.dumps(code))


def _copy_libraries(binaries: list[str], target: Path) -> None:
    """Copy the shared libraries of all `binaries`, and the loader, as `ldd` names them."""
    for path in binaries:
        libraries = subprocess.run(["ldd", path], stdout=subprocess.PIPE, check=True).stdout
        for line in libraries.decode().splitlines():
            words = line.split()
            if "=>" in words and words[2].startswith("/"):
                shutil.copy(words[2], target / "lib" / words[0])
            elif words[0].startswith("/"):
                shutil.copy(words[0], target / "loader")


if __name__ == "__main__":
    main(*sys.argv[1:])
