"""Checks that the shared library exports the public API, and nothing else.

Usage: check_exports.py LIBRARY HEADERS [FOLDER...]   HEADERS: the folder of the public headers; FOLDER: has object
files of programs that use the public API only, so what they need of dsckpt has to be exported.
"""

import pathlib
import re
import subprocess
import sys

library, headers, *folders = map(pathlib.Path, sys.argv[1:])


def symbols(*arguments: str) -> set[tuple[str, str]]:
    """Mangled and demangled names that nm lists."""
    def names(*more: str) -> list[str]:
        lines = subprocess.run(["nm", *more, *arguments], check=True, capture_output=True, text=True).stdout.splitlines()
        return [match[1] for line in lines if (match := re.match(r"[0-9a-f ]*[A-Za-z] (.*)", line))]
    return set(zip(names(), names("-C")))


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


cxx = {path.name: without_comments(path.read_text()) for path in headers.glob("*.h") if path.name not in ("c.h", "c_trajectory.h")}
c = without_comments("".join((headers / name).read_text() for name in ("c.h", "c_trajectory.h")))
c_functions = set(re.findall(r"\b(dsckpt_\w+)\(", c)) - set(re.findall(r"\(\*(dsckpt_\w+)\)", c))
identifiers = set(re.findall(r"\w+", "".join(cxx.values())))
classes = set(re.findall(r"\b(?:class|struct)\s+(?:\[\[.*?\]\]\s*)?(\w+)[^;{()]*\{", "".join(cxx.values())))


def is_public(name: str) -> bool:
    """Whether a public header declares it: the name itself, and every class it is in with its members."""
    if name in c_functions:
        return True
    name = re.sub(r"^(vtable|typeinfo|typeinfo name) for ", "", name)
    path = re.match(r"dsckpt::((?:~?\w+::)*)(~?\w+)", name)
    if not path:
        return False
    outer = [part for part in path[1].split("::") if part]
    return all(part in classes for part in outer) and path[2].lstrip("~") in identifiers


failures = []
exported = symbols("-D", "--defined-only", str(library))
failures += [f"exported, but in no public header: {name}" for _, name in sorted(exported) if not is_public(name)]

mangled = {symbol for symbol, _ in exported}
failures += [f"in headers for C, but not exported: {name}" for name in sorted(c_functions - mangled)]
objects = [str(path) for folder in folders for path in sorted(folder.rglob("*.o"))]
needed: dict[str, str] = {}
for path in objects:
    # What a program defines for itself, inline functions above all, it does not need of the library.
    needed |= dict(symbols("--undefined-only", path))
own = {symbol for path in objects for symbol, _ in symbols("--defined-only", path)}
wanted = {symbol: name for symbol, name in needed.items() if symbol not in own}
used = {s: n for s, n in wanted.items() if n.startswith("dsckpt_") or re.match(r"[^(]*\bdsckpt::", n)}
failures += [f"used by a program, but not exported: {used[symbol]}" for symbol in sorted(used.keys() - mangled)]

dynamic = subprocess.run(["readelf", "-d", str(library)], check=True, capture_output=True, text=True).stdout
version = dict(re.findall(r"DSCKPT_VERSION_(\w+) (\d+)", (headers / "version.h").read_text()))
soname = f"libdsckpt.so.{version['MAJOR']}" + (f".{version['MINOR']}" if version["MAJOR"] == "0" else "")
if f"soname: [{soname}]" not in dynamic:
    failures.append(f"the SONAME is not {soname}")
if folders and not used:
    failures.append(f"no object files in {' '.join(map(str, folders))}: build the programs first")

print("\n".join(failures) or f"{len(exported)} exported names, {len(used)} of them used by {len(objects)} object files")
sys.exit(1 if failures else 0)
