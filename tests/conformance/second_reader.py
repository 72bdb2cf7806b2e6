"""Reads every valid vector with spec/read_dsckpt.py and compares with its JSON; feeds it the invalid ones."""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
spec = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(spec))
import read_dsckpt  # noqa: E402

# What it checks less strictly than section 15 asks: it is a reader for good files.
LENIENT = ("x5-", "t1-rank", "t2-bytes", "r1-", "r2-", "r3-payload", "r3-root", "r4-", "r5-", "r7-",
           "l4-bytes", "l4-odd", "l6-twice", "l9-", "m8-", "m9-", "m11-", "m13-", "m14-", "m15-twice", "m16-")
failures = []


def differences(expected, found, path=""):
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in expected.keys() | found.keys():
            yield from differences(expected.get(key), found.get(key), f"{path}/{key}")
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for i, pair in enumerate(zip(expected, found)):
            yield from differences(*pair, f"{path}/{i}")
    elif expected != found and not (path.endswith("/digest") and found is None):
        yield f"{path}: expected {expected!r}, found {found!r}"


def read_all(shard):
    for item in shard.tensors + shard.objects:
        if item["encoding"] in read_dsckpt.ENCODINGS and (item["encoding"] == 0 or read_dsckpt.zstd):
            shard.read(item)


for path in sorted((spec / "conformance/valid").glob("*.dsckpt")):
    shard = read_dsckpt.Shard(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    failures += [f"{path.name}{text}" for text in differences(expected, read_dsckpt.describe(shard))]
    read_all(shard)

for path in sorted((spec / "conformance/valid").glob("*.manifest")):
    expected = json.loads(path.with_suffix(".json").read_text())
    failures += [f"{path.name}{text}" for text in differences(expected, read_dsckpt.read_manifest(path))]

refused = 0
invalid = spec / "conformance/invalid"
for path in sorted([*invalid.glob("*.dsckpt"), *invalid.glob("*.manifest")]):
    if json.loads(path.with_suffix(".json").read_text())["code"] == "Ok" or path.name.startswith(LENIENT):
        continue
    sums_only = path.name.startswith(("f2-", "x1-", "m3-"))
    try:
        if path.suffix == ".manifest":
            read_dsckpt.read_manifest(path)
        else:
            read_dsckpt.describe(read_dsckpt.Shard(path))
        if read_dsckpt.xxhash or not sums_only:
            failures.append(f"{path.name} is accepted")
    except (read_dsckpt.BadFile, ValueError, LookupError, read_dsckpt.struct.error):
        refused += 1

print("\n".join(failures) or f"all valid vectors read, {refused} invalid ones refused")
if not read_dsckpt.xxhash:
    print("(no xxhash package: checksums and digests were not checked)")
sys.exit(bool(failures))
