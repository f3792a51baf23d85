"""Run by the interpreter that is to be bundled: copies it, and what the guest needs of it, into a folder.

    python3 -I -S -B bundling.py TARGET GUEST

    TARGET/guest                             the interpreter
    TARGET/loader                            what starts it: the image's may be another, or none
    TARGET/lib/                              shared libraries
    TARGET/lib/python3xx.zip                 the modules, compiled
    TARGET/lib/python3.x/lib-dynload/        those written in C
    TARGET/shell                             a bash for images that have none

Which modules those are is found by importing the guest. Nothing of intercode is imported but that.
"""

import importlib.util
import json
import marshal
import os
import shutil
import subprocess
import sys
import zipfile

_LANDMARK = "os.pyc"
"""By this file below lib/python3.x an interpreter knows its home."""
_IMPORTED = "encodings.ascii", "encodings.latin_1", "encodings.utf_8", "guest.python_episode", "guest.supervisor"
_LIST = """
import sys; sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]: __import__(name)
found = {name: getattr(module, "__file__", None) for name, module in sys.modules.items() if name != "__main__"}
import json; print(json.dumps({name: path for name, path in found.items() if path}))
"""


def main(target: str, guest: str) -> None:
    command = [sys.executable, "-I", "-S", "-B", "-c", _LIST, os.path.dirname(guest), *_IMPORTED]
    modules: dict[str, str] = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    home = os.path.join(target, "lib", f"python{version}")
    os.makedirs(os.path.join(home, "lib-dynload"))
    open(os.path.join(home, _LANDMARK), "wb").close()
    programs = {"guest": os.path.realpath(sys.executable), "shell": os.path.realpath(shutil.which("bash") or "/bin/bash")}
    extensions = [path for path in modules.values() if path.endswith(".so")]
    for name, path in programs.items():
        shutil.copy(path, os.path.join(target, name))
    for path in extensions:
        shutil.copy(path, os.path.join(home, "lib-dynload"))
    _take_libraries([*programs.values(), *extensions], target)
    _pack(modules, os.path.join(target, "lib", f"python{version.replace('.', '')}.zip"))


def _pack(modules: dict[str, str], archive: str) -> None:
    """Stored, not compressed, so that reading it needs no other module."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_STORED) as packed:
        for name, path in sorted(modules.items()):
            if path.endswith(".py"):
                inside = name.replace(".", "/") + ("/__init__" if path.endswith("/__init__.py") else "")
                with open(path, "rb") as source:
                    code = compile(source.read(), f"<guest>/{os.path.basename(path)}", "exec", dont_inherit=True)
                packed.writestr(inside + ".pyc", importlib.util.MAGIC_NUMBER + bytes(12) + marshal.dumps(code))


def _take_libraries(binaries: list[str], target: str) -> None:
    """The shared libraries of all of them, and the loader, as `ldd` names them."""
    for path in binaries:
        listed = subprocess.run(["ldd", path], stdout=subprocess.PIPE, check=True).stdout.decode()
        for line in listed.splitlines():
            words = line.split()
            if "=>" in words and words[2].startswith("/"):
                shutil.copy(words[2], os.path.join(target, "lib", words[0]))
            elif words[0].startswith("/"):
                shutil.copy(words[0], os.path.join(target, "loader"))


if __name__ == "__main__":
    main(*sys.argv[1:])
