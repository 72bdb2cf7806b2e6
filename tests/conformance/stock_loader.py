"""Opens every valid vector with the stock safetensors loader: listed tensors have equal dtype, shape and bytes."""

import json
import pathlib
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

print("\n".join(failures) or f"safetensors {safetensors.__version__}: {compared} tensors equal")
sys.exit(bool(failures) or compared == 0)
