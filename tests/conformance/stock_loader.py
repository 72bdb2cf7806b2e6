"""Opens every valid vector with the stock safetensors loader: listed tensors have equal dtype, shape and bytes.

With the dsckpt program as second argument: of vectors whose JSON header and index disagree, whatever opens with that program shows
the stock loader the same listed tensors at the same places.
"""

import json
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
spec = pathlib.Path(sys.argv[1])
try:
    import safetensors
except ImportError:
    print("skipped: this Python has no safetensors package (set DSCKPT_TEST_PYTHON to one that has)")
    sys.exit(77)
if tuple(int(part) for part in safetensors.__version__.split(".")[:2]) < (0, 8):
    print(f"skipped: safetensors {safetensors.__version__} lacks dtypes that 0.8.0 knows")
    sys.exit(77)
sys.path.insert(0, str(spec))
import read_dsckpt  # noqa: E402

compared = 0
failures = []
for path in sorted((spec / "conformance/valid").glob("*.dsckpt")):
    data = path.read_bytes()
    shard = read_dsckpt.Shard(path)
    expected = {t["name"]: t for t in shard.tensors if t["encoding"] == 0 and t["code"] in read_dsckpt.LISTABLE}
    loaded = dict(safetensors.deserialize(data))
    tail = loaded.pop("__dsckpt__")
    if bytes(tail["data"]) != data[shard.L :] or tail["dtype"] != "U8":
        failures.append(f"{path.name}: __dsckpt__")
    if loaded.keys() != expected.keys():
        failures.append(f"{path.name}: tensors {sorted(loaded.keys() ^ expected.keys())}")
    for name, tensor in expected.items():
        found = loaded.get(name, {})
        compared += 1
        if (found.get("dtype"), found.get("shape")) != (tensor["dtype"], tensor["shape"]):
            failures.append(f"{path.name}: {name}: {found.get('dtype')} {found.get('shape')}")
        if bytes(found.get("data", b"")) != shard.read(tensor):
            failures.append(f"{path.name}: {name}: bytes differ")
    # Metadata and aliases, read as JSON.
    header = json.loads(data[8 : shard.D])
    for name, target in shard.aliases.items():
        listed = header["__metadata__"].get(name)
        if not name.startswith("dsckpt") and name not in ("format", "note") and listed != shard.tensors[target]["name"]:
            failures.append(f"{path.name}: alias {name} is {listed!r} in the metadata")



def shown_by_stock(path):
    """By name: (dtype, shape, bytes) of what the stock loader has but __dsckpt__; None where it refuses the file."""
    try:
        loaded = dict(safetensors.deserialize(path.read_bytes()))
    except Exception:  # Its errors have no base of their own.
        return None
    loaded.pop("__dsckpt__", None)
    return {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"])) for name, tensor in loaded.items()}


def shown_by_dsckpt(tool, path):
    """The listed tensors that the program has; None where it refuses the file."""
    done = subprocess.run([tool, "inspect", "--json", path], capture_output=True, text=True)
    if done.returncode:
        return None
    data, listable = path.read_bytes(), {read_dsckpt.DTYPES[code] for code in read_dsckpt.LISTABLE}
    return {t["name"]: (t["dtype"], t["shape"], data[t["offset"] : t["offset"] + t["bytes"]]) for t in json.loads(done.stdout)["tensors"]
            if t["encoding"] == "raw" and t["alias_of"] is None and t["dtype"] in listable}


if len(sys.argv) > 2:
    invalid = spec / "conformance/invalid"
    split = sorted([*invalid.glob("f11-*.dsckpt"), *invalid.glob("v-header-*.dsckpt")])
    opened = 0
    for path in [*split, *sorted((spec / "conformance/valid").glob("*.dsckpt"))]:
        shown = shown_by_dsckpt(sys.argv[2], path)
        opened += shown is not None
        if shown is not None and shown != shown_by_stock(path):
            failures.append(f"{path.name}: the program and the stock loader show different tensors")
        if (shown is None) != path.name.startswith("f11-"):
            failures.append(f"{path.name}: {'refused' if shown is None else 'opened'} by the program")
    compared += opened

print("\n".join(failures) or f"safetensors {safetensors.__version__}: {compared} tensors equal")
sys.exit(bool(failures) or compared == 0)
