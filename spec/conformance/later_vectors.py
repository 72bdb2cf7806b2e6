"""Vectors of what a later minor version may write: fields at the end of every table, bits that may be ignored, unknown forms.

`later_vectors.py` writes them and their JSON to valid/. They are made of the text alone (write_dsckpt.py), so that they show
no version of any library; the same bytes come out each time.
"""

import json
import pathlib
import random
import struct
import sys

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here.parent))
import read_dsckpt  # noqa: E402
import write_dsckpt  # noqa: E402

# A scalar, nothing, strings, a table of its own with a column of structs.
FIELDS = [("Q", 1 << 60), None, ("strings", [b"later", b""]), ("table", [("B", 9), ("vector", "QQ", [(1, 2)])])]
F32 = (12, 32, 1, 4)


def tensor(name, shape, raw):
    return {"name": name, "code": 12, "dtype": 0, "shape": shape, "raw": raw, "encoding": 0, "stored": []}


def content(pieces, **more):
    heap = b"stepwrng"
    nodes = [(8, 0, 0, 3, 0, 3), (2, 1, 0, 0, 0 | 4 << 32, 7), (11, 1, 0, 0, 4 | 1 << 32, 0), (13, 1, 1, 0, 5 | 3 << 32, 0)]
    return {"tensors": [tensor("w", [2, 2], struct.pack("<4f", 1, 2, 3, 4))], "aliases": {"tied": 0},
            "objects": [{"name": "rng", "media_type": 0, "raw": b"state", "encoding": 1, "stored": [b"state"]}], "dtypes": [F32],
            "media_types": [b"application/octet-stream"], "tree": {"nodes": nodes, "heap": heap, "tags": [b"later.tag"]},
            "attributes": {"nodes": [(8, 0, 0, 1, 0, 1), (2, 1, 0, 0, 0 | 4 << 32, 7)], "heap": b"step", "tags": []},
            "pieces": pieces, "metadata": {}, "rank_own": ["rng"], "rank": 0, "minor": 7, "compatible": 1 << 63 | 1 << 9, **more}


def later_shard(rng):
    pieces = [("whole", [4, 2])], [(0, 0, 0, 0, (0, 0, 2, 2), 0), (0, 0, 0, 200, (1, 2, 3), 0)]
    return write_dsckpt.shard(content(pieces, later_fields=FIELDS), rng)


def later_checkpoint(rng, folder):
    folder.mkdir(exist_ok=True)
    said = {"attempt": "later", "step": 7, "ranks": 2, "serial": 1, "parent": 0, "minor": 7, "compatible": 1 << 63, "shards": [],
            "logical": [("whole", F32, [4, 2])], "placed": [], "later_fields": FIELDS}
    for rank in range(2):
        pieces = [("whole", [4, 2])], [(0, 0, 0, 0, (2 * rank, 0, 2, 2), 0)]
        data = write_dsckpt.shard(content(pieces, rank=rank, later_fields=FIELDS), rng)
        (folder / f"{rank}.dsckpt").write_bytes(data)
        said["shards"].append((f"{rank}.dsckpt", rank, len(data), *struct.unpack_from("<2Q", data, len(data) - 96)))
        said["placed"].append((rank, pieces[1][0]))
    (folder / "dsckpt.manifest").write_bytes(write_dsckpt.manifest(said, rng))


def write(valid):
    rng = random.Random("later")
    (valid / "later-fields.dsckpt").write_bytes(later_shard(rng))
    later_checkpoint(rng, valid / "later-sharded")
    for path in (valid / "later-fields.dsckpt", valid / "later-sharded"):
        text = json.dumps(read_dsckpt.read_any(path, strict=True), indent=1)
        path.with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    write(here / "valid")
