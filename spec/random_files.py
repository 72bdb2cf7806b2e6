"""Random valid shards and checkpoints: all that the format allows, likely or not. Readers are compared on them.

`random_files.py SEED COUNT FOLDER` writes FOLDER/SEED.dsckpt, and every tenth seed a checkpoint directory FOLDER/SEED.
The same seed gives the same files.
"""

import math
import pathlib
import random
import struct
import sys

import read_dsckpt
import write_dsckpt
from read_dsckpt import CHUNK, DTYPES

# Section 20.1: elements and bytes of a block; known codes.
BLOCKS = {1: (1, 1), 2: (1, 1), 3: (1, 1), 4: (1, 2), 5: (1, 2), 6: (1, 4), 7: (1, 4), 8: (1, 8), 9: (1, 8), 10: (1, 2), 11: (1, 2),
          12: (1, 4), 13: (1, 8), 14: (1, 8), 15: (1, 16), 16: (1, 1), 17: (1, 1), 18: (1, 1), 19: (1, 1), 20: (1, 1), 21: (4, 3),
          22: (4, 3), 23: (2, 1), 24: (2, 1), 25: (2, 1)}
LETTERS = ["a", "b", "layers", "weight", "bias", "m", "v", "", "x.y", "0x", "007", "-0", "9" * 30, "$", "$tensor", "a b", "\x7f", "\t\n", '"\\',
           "\u00e9", "\u6f22", "\U0001f600", "~", "/", "~s", "0", "-5", "9223372036854775807", "9223372036854775808", "__metadata__", "format"]
TAGS = [b"py.set", b"torch.Size", b"t", b"py.pickle:a.B"]


def looks_like_int(text):
    digits = text[1:] if text.startswith("-") else text
    plain = digits.isascii() and digits.isdigit() and (digits[0] != "0" or text == "0")
    return plain and -(1 << 63) <= int(text) < 1 << 63


def segment(key):
    """Section 9."""
    if isinstance(key, int):
        return str(key)
    return ("~s" if looks_like_int(key) else "") + key.replace("~", "~0").replace("/", "~1")


class Shard:
    def __init__(self, rng):
        self.rng = rng
        self.items = {}  # name -> "tensor", "alias" or "object"
        self.tags = rng.sample(TAGS, rng.randrange(len(TAGS) + 1))
        self.heap = bytearray(rng.randbytes(rng.randrange(3)))
        self.dtypes, self.media_types = [], []

    def maybe(self, chance):
        return self.rng.random() < chance

    # Trees, section 10. A node is (kind, key_kind, tag, children, key, payload); items are filled in when their ordinals are known.

    def store(self, content):
        at = self.heap.find(content) if self.maybe(0.2) else -1
        if at < 0:
            at = len(self.heap)
            self.heap += content + self.rng.randbytes(self.rng.randrange(2))
        return at | len(content) << 32

    def scalar(self):
        rng = self.rng
        kind = rng.randrange(8)
        if kind == 3:
            magnitude = rng.randrange(1 << 64, 1 << rng.randrange(65, 200))
            payload = self.store(bytes([rng.randrange(2)]) + magnitude.to_bytes((magnitude.bit_length() + 7) // 8, "little"))
        elif kind == 5:
            payload = self.store(struct.pack("<2d", *(rng.choice([0.0, -1.5, math.inf, 1e-300]) for _ in range(2))))
        elif kind == 6:
            payload = self.store(rng.choice([*LETTERS, "text\0with NUL"]).encode())
        elif kind == 7:
            payload = self.store(rng.randbytes(rng.randrange(20)))
        elif kind == 4:
            payload = struct.unpack("<Q", struct.pack("<d", rng.choice([0.5, -1e300, 3.0, math.inf, -math.inf, math.nan, 0.1])))[0]
        else:
            payload = [0, rng.randrange(2), rng.getrandbits(64)][kind]
        return kind, payload

    def node(self, key, path, depth):
        rng = self.rng
        key_kind, word = (0, 0) if key is None else (2, key & (1 << 64) - 1) if isinstance(key, int) else (1, self.store(key.encode()))
        tag = rng.randrange(len(self.tags) + 1) if self.maybe(0.2) else 0
        if depth > 0 and self.maybe(0.5 if depth < 4 else 0.9):
            return self.container(rng.choice([8, 8, 8, 9, 10]), key_kind, word, tag, path, depth)
        if self.maybe(0.4) or path in ("__metadata__", "__dsckpt__"):
            kind, payload = self.scalar()
            return [[kind, key_kind, tag, 0, word, payload]]
        kind = rng.choice(["tensor", "tensor", "object", "alias"])
        self.items[path] = kind
        return [[{"tensor": 11, "alias": 12, "object": 13}[kind], key_kind, tag, 0, word, path]]

    def container(self, kind, key_kind, word, tag, path, depth):
        rng, below = self.rng, []
        count = rng.randrange(6)
        keys = dict.fromkeys(rng.choice([rng.choice(LETTERS), rng.randrange(-3, 12)]) for _ in range(count)) if kind == 8 else [None] * count
        for position, key in enumerate(keys):
            part = segment(position if key is None else key)
            below.append(self.node(key, part if path is None else f"{path}/{part}", depth - 1))
        nodes = sum(below, [])
        return [[kind, key_kind, tag, len(below), word, len(nodes)], *nodes]

    # Items, sections 6 and 7.

    def dtype(self):
        if self.maybe(0.1):
            code = self.rng.choice([26, 200, 0x8000, 0xFFFE, 0xFFFF])
            block = self.rng.choice([(1, 3), (32, 17), (2, 2)])
        else:
            code = self.rng.choice(list(BLOCKS))
            block = BLOCKS[code]
        row = next((row for row in self.dtypes if row[0] == code), None)
        if row is None:
            row = (code, self.bits(code), *block)
            self.dtypes.append(row)
        return row

    @staticmethod
    def bits(code):
        return {21: 6, 22: 6, 23: 4, 24: 4, 25: 4}.get(code) or (BLOCKS[code][1] * 8 if code in BLOCKS else 7)

    def shape(self, per_block):
        rng = self.rng
        dims = [rng.choice([1, 1, 2, 3, 5, 8, 64]) for _ in range(rng.randrange(4))]
        if self.maybe(0.1):
            dims.insert(0, 0)
        if self.maybe(0.02):
            dims = [0, 1 << 62]
        if math.prod(dims) % per_block:
            dims.append(per_block)
        return dims

    def stored(self, raw, encoding):
        """Chunks of an encoded item. Of an encoding that nobody knows any bytes will do; of the known ones, raw chunks."""
        chunks = [raw[at : at + CHUNK] for at in range(0, len(raw), CHUNK)]
        return [self.rng.randbytes(self.rng.randrange(1, 40)) for _ in chunks] if encoding > 2 else chunks

    def encoding(self):
        return self.rng.choice([1, 2, 3, 127, 128, 254, 255]) if self.maybe(0.3) else 0

    def tensor(self, name):
        code, _, per_block, block_bytes = dtype = self.dtype()
        shape = self.shape(per_block)
        size = math.prod(shape) // per_block * block_bytes
        if self.maybe(0.01) and per_block == 1:  # More than a chunk, on a boundary or beyond.
            shape = [CHUNK // block_bytes + self.rng.randrange(3)]
            size = shape[0] * block_bytes
        raw = self.rng.randbytes(size) if size < 1 << 16 else bytes(size)
        encoding = self.encoding()
        width = block_bytes if encoding == 2 else 1
        if any((min(size - at, CHUNK)) % width for at in range(0, size, CHUNK)):
            encoding = 1
        return {"name": name, "code": code, "dtype": dtype, "shape": shape, "raw": raw, "encoding": encoding,
                "stored": self.stored(raw, encoding)}

    def object(self, name):
        media_type = self.rng.choice([b"application/octet-stream", b"text/plain;charset=utf-8", b"a/b"])
        if media_type not in self.media_types or self.maybe(0.1):
            self.media_types.append(media_type)
        raw = self.rng.randbytes(self.rng.randrange(200))
        encoding = self.encoding()
        encoding = 1 if encoding == 2 else encoding
        position = max(i for i, text in enumerate(self.media_types) if text == media_type)
        return {"name": name, "media_type": position, "raw": raw, "encoding": encoding, "stored": self.stored(raw, encoding)}

    # Pieces, section 12.

    def pieces(self, tensors):
        logical, rows = {}, set()
        for ordinal, t in enumerate(tensors):
            per_block, elements = t["dtype"][2], math.prod(t["shape"])
            for _ in range(self.rng.randrange(3) if self.maybe(0.4) else 0):
                offset = self.rng.randrange(elements // per_block + 1) * per_block
                count = self.rng.randrange((elements - offset) // per_block + 1) * per_block
                name = f"logical/{len(logical)}"
                rows.add((ordinal, offset, name, *self.piece(logical, name, count, per_block), self.rng.choice([0, 0, 7])))
        if not rows:
            return None
        order = sorted(logical, key=str.encode)
        rows = sorted((tensor, offset, order.index(name), *rest) for tensor, offset, name, *rest in rows)
        return [(name, logical[name]) for name in order], [(row[0], row[2], row[1], *row[3:]) for row in rows]

    def piece(self, logical, name, count, per_block):
        """(form, bounds); sets the logical tensor's shape."""
        rng = self.rng
        if self.maybe(0.1):
            logical[name] = [per_block]
            return rng.choice([2, 77, 128, 255]), tuple(rng.getrandbits(64) for _ in range(rng.randrange(4)))
        if self.maybe(0.5):
            begin = rng.randrange(3) * per_block
            logical[name] = [begin + count + rng.randrange(3) * per_block]
            return 1, (begin, count)
        extents = [1, count]
        begins = [rng.randrange(3), rng.randrange(3) * per_block]
        logical[name] = [begins[0] + 1 + rng.randrange(2), begins[1] + count + rng.randrange(3) * per_block]
        return 0, (*begins, *extents)

    def build(self):
        rng = self.rng
        nodes = None
        if self.maybe(0.7):
            nodes = self.container(rng.choice([8, 8, 8, 9, 10]), 0, 0, 0, None, 5)
        else:
            for _ in range(rng.randrange(12)):
                name = "/".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 4)))
                if name not in ("__metadata__", "__dsckpt__"):
                    self.items[name] = rng.choice(["tensor", "tensor", "object", "alias"])
        of_kind = {kind: sorted((n for n, k in self.items.items() if k == kind), key=str.encode) for kind in ("tensor", "alias", "object")}
        if of_kind["alias"] and not of_kind["tensor"]:  # An alias needs a target: call them tensors.
            of_kind["tensor"], of_kind["alias"] = of_kind["alias"], []
        tensors = [self.tensor(name) for name in of_kind["tensor"]]
        self.dtypes += [row for row in [(25, 4, 2, 1)] if self.maybe(0.1) and all(r[0] != 25 for r in self.dtypes)]
        rng.shuffle(self.dtypes)
        for t in tensors:
            t["dtype"], t["position"] = t["dtype"], self.dtypes.index(t["dtype"])
        pieces = self.pieces(tensors)
        for t in tensors:
            t["dtype"] = t["position"]
        aliases = {name: rng.randrange(len(tensors)) for name in of_kind["alias"]}
        objects = [self.object(name) for name in of_kind["object"]]
        for node in nodes or []:
            if isinstance(node[5], str):
                kind = next(kind for kind in of_kind if node[5] in of_kind[kind])
                node[0], node[5] = {"tensor": 11, "alias": 12, "object": 13}[kind], of_kind[kind].index(node[5])
        content = {"tensors": tensors, "aliases": aliases, "objects": objects, "dtypes": self.dtypes, "media_types": self.media_types,
                   "tree": {"nodes": nodes, "heap": bytes(self.heap), "tags": self.tags} if nodes else None,
                   "attributes": self.attributes(), "pieces": pieces, "metadata": self.metadata(aliases, tensors),
                   "rank_own": self.rank_own(of_kind["object"]), "rank": rng.randrange(9), "align_empty": self.maybe(0.8)}
        content["minor"] = rng.choice([0, 0, 1, 9])
        if content["minor"]:
            self.annotate(content)
        content["compatible"] = rng.getrandbits(64) if self.maybe(0.2) else 0
        if content["minor"]:
            content["later_fields"] = rng.choice([[("Q", 5)], [None, ("strings", [b"later"])], [("table", [("B", 1)]), ("vector", "QQ", [])]])
        return content

    def annotate(self, content):
        """What 1.1 added."""
        rng = self.rng
        if self.maybe(0.1):
            content["other_sums"] = rng.choice([2, 200, 255]), rng.choice([0, 1, 32, 64])
        content["content"] = self.maybe(0.7) and "other_sums" not in content
        names = rng.sample(["com.example.a", "b", "\u6f22", "z" * 255], rng.randrange(4)) if self.maybe(0.3) else []
        content["vendor"] = {name: rng.randbytes(rng.randrange(9)) for name in names}
        if self.maybe(0.5):
            content["statistics"] = [(i, *self.statistics(t)) for i, t in enumerate(content["tensors"]) if self.maybe(0.8)]

    def statistics(self, tensor):
        """What they say of the elements is not looked at, but that counts are possible."""
        counts, left = [], math.prod(tensor["shape"])
        for _ in range(3):
            counts.append(self.rng.randrange(min(left, 5) + 1))
            left -= counts[-1]
        return *counts, *(self.rng.choice([0.0, -1.5, 1e300, math.nan]) for _ in range(4))

    def attributes(self):
        if self.maybe(0.5):
            return None
        outer, self.heap = self.heap, bytearray()
        below = []
        for key in self.rng.sample(LETTERS, self.rng.randrange(4)):
            word = self.store(key.encode())
            kind, payload = self.scalar()
            below.append((kind, 1, 0, 0, word, payload))
        heap, self.heap = self.heap, outer
        return {"nodes": [(8, 0, 0, len(below), 0, len(below)), *below], "heap": bytes(heap), "tags": []}

    def metadata(self, aliases, tensors):
        given = {key: self.rng.choice(LETTERS) for key in self.rng.sample(LETTERS, self.rng.randrange(3))}
        return {key: value for key, value in given.items() if key not in aliases and not key.startswith("dsckpt")}

    def rank_own(self, objects):
        roots = sorted({name for name in objects if self.maybe(0.2)}, key=str.encode)
        return [root for root in roots if not any(root.startswith(other + "/") for other in roots)]


def random_shard(seed):
    rng = random.Random(f"shard {seed}")
    return write_dsckpt.shard(Shard(rng).build(), rng)


def random_checkpoint(seed, folder):
    """Logical tensors cut into boxes along one dimension, or into flat ranges, over up to four ranks; some of them twice."""
    rng = random.Random(f"checkpoint {seed}")
    ranks, contents = rng.randrange(1, 5), rng.random() < 0.4
    held = [[] for _ in range(ranks)]  # of a rank: (logical name, shape, dtype code, form, bounds, bytes)
    for i in range(rng.randrange(1, 6)):
        code = rng.choice([2, 11, 12, 13, 15])
        width = BLOCKS[code][1]
        shape = [rng.randrange(1, 7) for _ in range(rng.randrange(1, 4))]
        data = rng.randbytes(math.prod(shape) * width)
        for rank, form, bounds, part in cut(rng, shape, data, width, ranks):
            for holder in {rank, rng.randrange(ranks)} if rng.random() < 0.2 else {rank}:
                held[holder].append((f"t{i}", shape, code, form, bounds, part))
    folder.mkdir(parents=True, exist_ok=True)
    said = {"attempt": f"attempt-{seed}", "step": rng.randrange(-1, 1000), "ranks": ranks, "serial": rng.randrange(3), "parent": 0,
            "minor": rng.choice([0, 1]), "compatible": 0, "shards": [], "logical": [], "placed": []}
    logical, placed = {}, []
    for rank in range(ranks):
        if not held[rank] and rng.random() < 0.5:
            continue
        name = f"shard-{rank}.dsckpt"
        content = of_rank(rng, held[rank]) | {"content": contents}
        data = write_dsckpt.shard(content, rng)
        (folder / name).write_bytes(data)
        said["shards"].append((name, rank, len(data), *struct.unpack_from("<2Q", data, len(data) - 96)))
        read = read_dsckpt.Shard(folder / name)
        said.setdefault("content", []).extend([read.content] if contents else [])
        for (logical_name, dtype, shape), column in read.logical_pieces():
            logical[logical_name] = (logical_name, dtype, list(shape))
            placed.append((logical_name, len(said["shards"]) - 1, column))
    order = sorted(logical, key=str.encode)
    said["logical"] = [logical[name] for name in order]
    rows = sorted((order.index(name), shard, column) for name, shard, column in placed)
    said["placed"] = [(shard, (column[0], i, *column[1:])) for i, shard, column in rows]
    if rng.random() < 0.3:
        write_parts(said, folder, rng)
    else:
        (folder / "dsckpt.manifest").write_bytes(write_dsckpt.manifest(said, rng))


def write_parts(said, folder, rng):
    """A manifest of up to four parts, some of them empty."""
    marks = sorted([0, len(said["logical"]), *(rng.randrange(len(said["logical"]) + 1) for _ in range(rng.randrange(4)))])
    dtypes, parts = sorted({dtype for _, dtype, _ in said["logical"]}), []
    for number, (first, last) in enumerate(zip(marks, marks[1:])):
        placed = [(shard, (column[0], column[1] - first, *column[2:])) for shard, column in said["placed"] if first <= column[1] < last]
        part = said | {"logical": said["logical"][first:last], "placed": placed, "dtypes": dtypes}
        data = write_dsckpt.manifest(part, rng)
        (folder / f"dsckpt.manifest.{number:05}").write_bytes(data)
        parts.append((len(data), *struct.unpack_from("<Q", data, len(data) - 16)))
    root = said | {"logical": [], "placed": [], "dtypes": dtypes, "parts": parts}
    (folder / "dsckpt.manifest").write_bytes(write_dsckpt.manifest(root, rng))


def cut(rng, shape, data, width, ranks):
    """(rank, form, bounds, bytes) of parts that cover the whole."""
    if rng.random() < 0.3:
        marks = sorted({0, math.prod(shape), *(rng.randrange(math.prod(shape) + 1) for _ in range(ranks - 1))})
        return [(rng.randrange(ranks), 1, (a, b - a), data[a * width : b * width]) for a, b in zip(marks, marks[1:])]
    dim = rng.randrange(len(shape))
    marks = sorted({0, shape[dim], *(rng.randrange(shape[dim] + 1) for _ in range(ranks - 1))})
    parts = []
    for a, b in zip(marks, marks[1:]):
        begins, extents = [0] * len(shape), list(shape)
        begins[dim], extents[dim] = a, b - a
        outer, inner = math.prod(shape[:dim]), math.prod(shape[dim + 1 :]) * width
        rows = [data[(o * shape[dim] + a) * inner : (o * shape[dim] + b) * inner] for o in range(outer)]
        parts.append((rng.randrange(ranks), 0, (*begins, *extents), b"".join(rows)))
    return parts


def of_rank(rng, held):
    """A shard of a rank: one stored tensor for each part, or parts of one dtype in one flat buffer."""
    groups = []
    for part in held:
        fitting = [group for group in groups if group[0][2] == part[2]]
        rng.choice(fitting).append(part) if fitting and rng.random() < 0.4 else groups.append([part])
    tensors, rows, shapes = [], set(), {}
    dtypes = sorted({(code, 8 * BLOCKS[code][1], *BLOCKS[code]) for _, _, code, *_ in held})
    for ordinal, group in enumerate(groups):
        code, at = group[0][2], 0
        for name, shape, _, form, bounds, part in group:
            shapes[name] = shape
            rows.add((ordinal, at, name, form, bounds, 0))
            at += len(part) // BLOCKS[code][1]
        tensors.append({"name": f"part-{ordinal:03}", "code": code, "dtype": [row[0] for row in dtypes].index(code), "shape": [at],
                        "raw": b"".join(part for *_, part in group), "encoding": 0, "stored": []})
    order = sorted(shapes, key=str.encode)
    rows = sorted((tensor, offset, order.index(name), *rest) for tensor, offset, name, *rest in rows)
    pieces = [(name, shapes[name]) for name in order], [(row[0], row[2], row[1], *row[3:]) for row in rows]
    return {"tensors": tensors, "aliases": {}, "objects": [], "dtypes": dtypes, "media_types": [], "tree": None, "attributes": None,
            "pieces": pieces if rows else None, "metadata": {}, "rank_own": [], "rank": 0, "minor": 0, "compatible": 0}


def write(seed, folder):
    """Returns the path written."""
    path = pathlib.Path(folder) / f"{seed}.dsckpt"
    if seed % 10 == 0:
        path = path.with_suffix("")
        random_checkpoint(seed, path)
    else:
        path.write_bytes(random_shard(seed))
    return path


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    pathlib.Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
    for number in range(first, first + count):
        write(number, sys.argv[3])
