"""Reads every valid vector with spec/read_dsckpt.py and compares with its JSON; feeds it the invalid ones.

With the dsckpt program as second argument: reads strictly what that writes, too.
"""

import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
spec = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(spec))
import read_checkpoint  # noqa: E402
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


def strict(path):
    """Must pass the rules of the official FlatBuffers verifiers, and have the canonical header."""
    try:
        read_dsckpt.read_any(path, strict=True)
    except read_dsckpt.BadFile as error:
        failures.append(f"{path.name}: {error}")


def refuses(read, path):
    try:
        read(path)
    except (read_dsckpt.BadFile, ValueError, LookupError, OSError, struct.error):
        return True
    failures.append(f"{path.name} is accepted")
    return False


def write_with(tool, folder):
    """Files that the program writes: of nothing, of a tensor, encoded, merged into a directory."""
    files = {"nothing": b"{}", "metadata": b'{"__metadata__":{"a":"b"}}',
             "tensor": b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'}
    for name, text in files.items():
        source = folder / f"{name}.safetensors"
        source.write_bytes(struct.pack("<Q", len(text)) + text + bytes(8 if name == "tensor" else 0))
        for number, options in enumerate(([], ["--encoding", "zstd"])):
            target = folder / f"{name}{number}.dsckpt"
            done = subprocess.run([tool, "import", source, "-o", target, *options], capture_output=True, text=True)
            if done.returncode:
                failures.append(f"{' '.join(map(str, done.args))}: {done.stderr}")
                continue
            yield target
    merged = folder / "merged"
    done = subprocess.run([tool, "merge", folder / "tensor0.dsckpt", "-o", merged, "--shards", "1"], capture_output=True, text=True)
    if done.returncode:
        failures.append(f"merge: {done.stderr}")
    else:
        yield merged


for path in sorted((spec / "conformance/valid").glob("*.dsckpt")):
    shard = read_dsckpt.Shard(path)
    if not path.name.startswith("unaligned-"):
        strict(path)
    expected = json.loads(path.with_suffix(".json").read_text())
    failures += [f"{path.name}{text}" for text in differences(expected, read_dsckpt.describe(shard))]
    read_all(shard)

for path in sorted((spec / "conformance/valid").glob("*.manifest")):
    expected = json.loads(path.with_suffix(".json").read_text())
    failures += [f"{path.name}{text}" for text in differences(expected, read_checkpoint.read_manifest(path))]

    strict(path)

for path in sorted(path for path in (spec / "conformance/valid").iterdir() if path.is_dir()):
    expected = json.loads(path.with_suffix(".json").read_text())
    failures += [f"{path.name}{text}" for text in differences(expected, read_checkpoint.read_checkpoint(path))]
    if not path.name.endswith("-unaligned"):
        strict(path)

# What must fail strictly, and only so.
for path in sorted((spec / "conformance/valid").glob("*unaligned*")):
    if path.suffix != ".json":
        refuses(lambda path: read_dsckpt.read_any(path, strict=True), path)

refused = 0
invalid = spec / "conformance/invalid"
for path in sorted([*invalid.glob("*.dsckpt"), *invalid.glob("*.manifest")]):
    if json.loads(path.with_suffix(".json").read_text())["code"] == "Ok" or path.name.startswith(LENIENT):
        continue
    sums_only = path.name.startswith(("f2-", "x1-", "m3-"))
    try:
        if path.suffix == ".manifest":
            read_checkpoint.read_manifest(path)
        else:
            read_dsckpt.describe(read_dsckpt.Shard(path))
        if read_dsckpt.xxhash or not sums_only:
            failures.append(f"{path.name} is accepted")
    except (read_dsckpt.BadFile, ValueError, LookupError, read_dsckpt.struct.error):
        refused += 1

for path in sorted(path for path in invalid.iterdir() if path.is_dir()):
    refused += refuses(read_checkpoint.read_checkpoint, path)

# Headers that are not canonical open; verification finds them.
for path in sorted(invalid.glob("v-header-*.dsckpt")):
    if path.name != "v-header-checksum.dsckpt":
        refuses(lambda path: read_dsckpt.Shard(path, strict=True), path)

def known_sums():
    """The table of known answers in section 8, for whatever XXH3 this reader uses."""
    text = (spec / "format.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `([0-9a-f]{16})` \| `([0-9a-f]{32})` \|$", text, re.MULTILINE)
    if len(rows) < 10:
        failures.append("format.md: the table of known sums is missing")
    for length, short, long in rows:
        data = bytes(i % 251 for i in range(int(length)))
        found = read_dsckpt.xxhash.xxh3_64_hexdigest(data), read_dsckpt.xxhash.xxh3_128_hexdigest(data)
        if found != (short, long):
            failures.append(f"format.md: known sums of {length} bytes: {found}")


def later_vectors():
    """They are what their generator makes."""
    sys.path.insert(0, str(spec / "conformance"))
    import later_vectors

    with tempfile.TemporaryDirectory() as folder:
        later_vectors.write(pathlib.Path(folder))
        for path in sorted(pathlib.Path(folder).rglob("later-*")):
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                kept = spec / "conformance/valid" / file.relative_to(folder)
                if not kept.is_file() or kept.read_bytes() != file.read_bytes():
                    failures.append(f"{kept} is not what later_vectors.py writes")


if read_dsckpt.xxhash:
    known_sums()
    later_vectors()

if len(sys.argv) > 2:
    with tempfile.TemporaryDirectory() as folder:
        for path in write_with(sys.argv[2], pathlib.Path(folder)):
            strict(path)

print("\n".join(failures) or f"all valid vectors read, {refused} invalid ones refused")
if not read_dsckpt.xxhash:
    print("(no xxhash package: checksums and digests were not checked)")
sys.exit(bool(failures))
