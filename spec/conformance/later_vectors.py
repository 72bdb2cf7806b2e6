"""Vectors that the library does not write: what a later minor version may (fields at the end of every table, bits that may be
ignored, unknown forms), and sums of hashes that no registry has.

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


def checkpoint(rng, folder, said, content_of):
    """Two ranks, of which each holds a half of "whole". content_of(rank, pieces): what else is in their shards."""
    folder.mkdir(exist_ok=True)
    said = {"step": 7, "ranks": 2, "serial": 1, "parent": 0, "shards": [], "logical": [("whole", F32, [4, 2])], "placed": [], **said}
    for rank in range(2):
        pieces = [("whole", [4, 2])], [(0, 0, 0, 0, (2 * rank, 0, 2, 2), 0)]
        data = write_dsckpt.shard(content_of(rank, pieces), rng)
        (folder / f"{rank}.dsckpt").write_bytes(data)
        said["shards"].append((f"{rank}.dsckpt", rank, len(data), *struct.unpack_from("<2Q", data, len(data) - 96)))
        said["placed"].append((rank, pieces[1][0]))
    (folder / "dsckpt.manifest").write_bytes(write_dsckpt.manifest(said, rng))


def other_hash(rng, sum_bytes):
    """Readable, not verifiable. The frames of encoded items have sums of their own."""
    return write_dsckpt.shard(content(None, other_sums=(200, sum_bytes), minor=1, compatible=0), rng)


def later_checkpoint(rng, folder):
    said = {"attempt": "later", "minor": 7, "compatible": 1 << 63, "later_fields": FIELDS}
    checkpoint(rng, folder, said, lambda rank, pieces: content(pieces, rank=rank, later_fields=FIELDS))


def other_hash_checkpoint(rng, folder):
    """Two objects of which no digest says that one is the same in both shards and the other is not."""
    stored_raw = lambda name, raw: {"name": name, "media_type": 0, "raw": raw, "encoding": 0, "stored": []}
    nodes = [(8, 0, 0, 3, 0, 3), (11, 1, 0, 0, 0 | 1 << 32, 0), (13, 1, 0, 0, 1 | 6 << 32, 0), (13, 1, 0, 0, 7 | 3 << 32, 1)]
    tree = {"nodes": nodes, "heap": b"wconfigrng", "tags": []}
    said = {"attempt": "other", "minor": 1, "compatible": 0}
    checkpoint(rng, folder, said, lambda rank, pieces: content(
        pieces, objects=[stored_raw("config", b"of all"), stored_raw("rng", b"rank %d" % rank)], tree=tree, aliases={}, rank_own=[], minor=1,
        compatible=0, other_sums=(200, 32)))


# Rule X7: (hash id, bytes of a sum), and what the columns of sums hold instead of one entry a chunk.
WRONG_SUMS = {
    "x7-size-too-large": ((200, 65), {}),
    "x7-known-hash": ((1, 16), {}),
    "x7-size-missing": ((200, 0), {"sums": bytes(32)}),
    "x7-both": ((200, 32), {"chunk_sums": [(1, 2)]}),
    "x7-cut": ((200, 32), {"sums": bytes(63)}),
    "p3-other-sums-left-over": ((200, 32), {"sums": bytes(96)}),
}


def write_invalid(invalid):
    for name, (other, instead) in WRONG_SUMS.items():
        data = write_dsckpt.shard(content(None, other_sums=other, instead=instead, minor=1, compatible=0), random.Random(name))
        (invalid / f"{name}.dsckpt").write_bytes(data)
        (invalid / f"{name}.json").write_text(json.dumps({"rule": name[:2].upper(), "code": "Corrupt"}, indent=1) + "\n")


def write(valid):
    rng = random.Random("later")
    for name, sum_bytes in (("other-hash", 0), ("other-hash-32-bytes", 32)):
        (valid / f"{name}.dsckpt").write_bytes(other_hash(rng, sum_bytes))
    (valid / "later-fields.dsckpt").write_bytes(later_shard(rng))
    later_checkpoint(rng, valid / "later-sharded")
    other_hash_checkpoint(random.Random("other-hash-sharded"), valid / "other-hash-sharded")
    for name in ("later-fields.dsckpt", "later-sharded", "other-hash.dsckpt", "other-hash-32-bytes.dsckpt",
                 "other-hash-sharded"):
        path = valid / name
        text = json.dumps(read_dsckpt.read_any(path, strict=True), indent=1)
        path.with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    write(here / "valid")
    write_invalid(here / "invalid")
