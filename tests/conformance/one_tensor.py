"""spec/one_tensor.py and spec/one_tensor.c read every raw tensor of the valid vectors.

Arguments: the folder spec, and the program that spec/one_tensor.c is.
"""

import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: this Python has no numpy")
    sys.exit(77)

spec, program = pathlib.Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(spec))
import one_tensor  # noqa: E402
import read_dsckpt  # noqa: E402

failures, read = [], 0
for path in sorted((spec / "conformance/valid").glob("*.dsckpt")):
    shard = read_dsckpt.Shard(path)
    for item in shard.tensors:
        if item["encoding"] != 0 or "\0" in item["name"]:
            continue
        expected = bytes(shard.read(item))
        found = one_tensor.read(path, item["name"])
        if found.tobytes() != expected:
            failures.append(f"{path.name}: {item['name']}: one_tensor.py")
        if found.dtype.itemsize > 1 and list(found.shape) != list(item["shape"]):
            failures.append(f"{path.name}: {item['name']}: shape {found.shape}")
        done = subprocess.run([program, path, item["name"]], capture_output=True, text=True)
        if done.returncode or bytes.fromhex(done.stdout) != expected:
            failures.append(f"{path.name}: {item['name']}: one_tensor.c: {done}")
        read += 1

print("\n".join(failures) or f"{read} tensors read")
sys.exit(bool(failures) or read < 30)
