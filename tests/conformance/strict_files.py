"""Reads strictly (spec/read_dsckpt.py) every sound file that tests left behind.

`strict_files.py SPEC PROGRAM FOLDER...`: of all shards and checkpoint directories in the folders, those that `PROGRAM verify`
finds no fault with must pass the second reader, the rules of the official FlatBuffers verifiers and the canonical header. Tests keep
their files when DSCKPT_KEEP_TEST_FILES names a folder (C++), or with `pytest --basetemp FOLDER`.
"""

import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
spec, program = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(spec))
import read_dsckpt  # noqa: E402

LARGEST = 1 << 20


def candidates():
    for folder in map(pathlib.Path, sys.argv[3:]):
        for path in folder.rglob("*"):
            if path.is_symlink() or not path.is_file() or not 4096 < path.stat().st_size < LARGEST:
                continue
            if path.name == "dsckpt.manifest":
                yield path.parent
            else:
                with path.open("rb") as file:
                    if read_dsckpt.MARK == file.read(35)[8:]:
                        yield path


def is_sound(path):
    return subprocess.run([program, "verify", path], capture_output=True, check=False).returncode == 0


read, failures = 0, []
for path in candidates():
    if not is_sound(path):
        continue
    read += 1
    try:
        read_dsckpt.read_any(path, strict=True)
    except Exception as error:
        failures.append(f"{path}: {type(error).__name__}: {error}")
print("\n".join(failures) or f"{read} sound files and directories: all strict")
sys.exit(bool(failures) or read == 0)
