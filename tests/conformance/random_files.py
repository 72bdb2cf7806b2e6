"""Random valid shards and checkpoints: the library and the second reader find the same in each.

Arguments: the folder spec, the program dsckpt_describe, the first seed, how many.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
try:
    import xxhash  # noqa: F401
except ImportError:
    print("skipped: this Python has no xxhash")
    sys.exit(77)

spec, program, first, count = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.path.insert(0, str(spec))
import random_files  # noqa: E402
import read_dsckpt  # noqa: E402

BATCH = 200
failures = []


def differences(expected, found, path=""):
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected.keys() | found.keys():
            yield from differences(expected.get(key), found.get(key), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, pair in enumerate(zip(expected, found)):
            yield from differences(*pair, f"{path}/{i}")
    elif expected != found:
        yield f"{path}: the second reader finds {expected!r}, the library {found!r}"


def second_reader(path):
    """Strictly where that can be: shards with empty vectors that are not aligned are not strict, and valid."""
    try:
        return read_dsckpt.read_any(path, strict=True)
    except read_dsckpt.BadFile as error:
        if "strict" not in str(error) or "aligned" not in str(error):
            raise
        return read_dsckpt.read_any(path)


def compare(folder, seeds):
    paths = [random_files.write(seed, folder) for seed in seeds]
    done = subprocess.run([program], input="\n".join(map(str, paths)) + "\n", capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths), done
    for seed, path, line in zip(seeds, paths, lines):
        found = json.loads(line)
        try:
            expected = second_reader(path) | ({} if path.is_dir() else {"problems": []})
        except (read_dsckpt.BadFile, ValueError, LookupError) as error:
            failures.append(f"seed {seed}: the second reader refuses it: {error}")
            continue
        failures.extend(f"seed {seed}{text}" for text in list(differences(expected, found))[:3])


for begin in range(first, first + count, BATCH):
    with tempfile.TemporaryDirectory() as folder:
        compare(folder, range(begin, min(begin + BATCH, first + count)))
    if len(failures) > 20:
        break
print("\n".join(failures[:40]) or f"{count} random files and directories: equal")
sys.exit(bool(failures))
