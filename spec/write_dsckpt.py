"""A writer of shards and manifests, written from spec/format.md alone; section numbers refer to it.

It is for tests: it takes columns as they are, lays a file out, and makes all sums right. Needs the package `xxhash`.
"""

import json
import struct

import xxhash
from read_dsckpt import CHUNK, DTYPES, LISTABLE, MAGIC, PAGE, up
from write_flatbuffer import Writer


def sums(raw):
    """Section 8: chunk sums, low half first."""
    whole = [xxhash.xxh3_128_intdigest(raw[at : at + CHUNK]) for at in range(0, len(raw), CHUNK)]
    return [(value & (1 << 64) - 1, value >> 64) for value in whole]


def stored_bytes(item):
    return len(b"".join(item["stored"])) if item["encoding"] else len(item["raw"])


def ends(lengths):
    out, total = [], 0
    for length in lengths:
        total += length
        out.append(total)
    return out


def names(texts, later):
    encoded = [text.encode() for text in texts]
    return ("table", [("bytes", b"".join(encoded)), ("vector", "I", ends(map(len, encoded))), *later])


def in_class_order(tensors):
    largest = lambda size: (size | PAGE) & -(size | PAGE)
    return sorted(tensors, key=lambda t: (-largest(len(t["raw"])), t["name"].encode()))


def lay_out(content):
    """Section 3: sets every item's "offset"; returns D, L and the begin of the index."""
    raw = [t for t in content["tensors"] if not t["encoding"]]
    listed = in_class_order(t for t in raw if t["code"] in LISTABLE)
    at = data_begin = up(8 + len(header(content, listed, 0, 0, 0)), PAGE)
    ends_of = []
    for region in (listed, in_class_order(t for t in raw if t["code"] not in LISTABLE)):
        for tensor in region:
            tensor["offset"], at = at, at + len(tensor["raw"])
        ends_of.append(at)
        at = up(at, PAGE)
    log = [t for t in content["tensors"] if t["encoding"]] + content["objects"]
    for item in sorted(log, key=lambda item: item["name"].encode()):
        item["offset"] = up(at, 64)
        at = item["offset"] + stored_bytes(item)
    return listed, data_begin, ends_of[0], up(at, 64)


def header(content, listed, data_begin, tail_begin, size):
    """Section 4.2."""
    quoted = lambda text: json.dumps(text, ensure_ascii=False)
    own = {name: content["tensors"][target]["name"] for name, target in content["aliases"].items()
           if name != "format" and not name.startswith("dsckpt")}
    members = {**content["metadata"], **own}
    text = ['"dsckpt":"%-8s"' % f"1.{content['minor']}", f'"dsckpt.bytes":"{size:020}"', '"format":' + quoted(members.pop("format", "pt"))]
    text += [f"{quoted(key)}:{quoted(members[key])}" for key in sorted(members, key=str.encode)]
    entries = ['"__metadata__":{' + ",".join(text) + "}"]
    for t in listed:
        place = t.get("offset", 0) - data_begin
        shape = ",".join(map(str, t["shape"]))
        entries.append(f'{quoted(t["name"])}:{{"dtype":"{DTYPES[t["code"]]}","shape":[{shape}],"data_offsets":[{place},{place + len(t["raw"])}]}}')
    begin, end = tail_begin - data_begin, size - data_begin
    entries.append(f'"__dsckpt__":{{"dtype":"U8","shape":[{end - begin:<20}],"data_offsets":[{begin:<20},{end:<20}]}}')
    return ("{" + ",".join(entries) + "}").encode()


def payload(items, first_sum, first_stored, later):
    """Section 6.5; the running totals of objects go on from the tensors'."""
    chunks = [len(item["sums"]) for item in items]
    stored = [len(item["stored"]) if item["encoding"] else 0 for item in items]
    return ("table", [("vector", "Q", [item["offset"] for item in items]), ("vector", "Q", [len(item["raw"]) for item in items]),
                      ("vector", "Q", [stored_bytes(item) for item in items]), ("vector", "B", [item["encoding"] for item in items]),
                      ("vector", "I", [first_sum + end for end in ends(chunks)]),
                      ("vector", "I", [first_stored + end for end in ends(stored)]), *later])


def pieces_table(logical, pieces, later):
    """Section 12. logical: (name, shape) in name order; pieces: (tensor, logical, element_offset, form, bounds, group), in order."""
    column = lambda i, code: ("vector", code, [piece[i] for piece in pieces])
    return ("table", [names([name for name, _ in logical], later), ("vector", "I", ends(len(shape) for _, shape in logical)),
                      ("vector", "q", [dim for _, shape in logical for dim in shape]), column(0, "I"), column(1, "I"), column(2, "Q"),
                      column(3, "B"), ("vector", "I", ends(len(piece[4]) for piece in pieces)),
                      ("vector", "Q", [bound for piece in pieces for bound in piece[4]]), column(5, "I"), *later])


def tree_table(tree, later):
    if tree is None:
        return None
    return ("table", [("vector", "BBHIQQ", tree["nodes"]), ("bytes", tree["heap"]) if tree["heap"] else None,
                      ("strings", tree["tags"]) if tree["tags"] else None, *later])


def statistics_table(rows, later):
    """Section 6.7: (tensor, nan, inf, zero, min, max, sum, sum_squares), in order."""
    return ("table", [("vector", code, [row[i] for row in rows]) for i, code in enumerate("IQQQdddd")] + later)


def content_of(content):
    """Section 8.1, low half first."""
    text = lambda encoded: struct.pack("<I", len(encoded)) + encoded
    digest = lambda code, shape, item: xxhash.xxh3_128_intdigest(
        struct.pack(f"<HHI{len(shape)}q", 1, code, len(shape), *shape) + b"".join(struct.pack("<QQ", *pair) for pair in item["sums"]))
    halves = lambda value: struct.pack("<QQ", value & (1 << 64) - 1, value >> 64)
    out = [struct.pack("<I", len(content["tensors"]))]
    out += [text(t["name"].encode()) + halves(digest(t["code"], t["shape"], t)) for t in content["tensors"]]
    out += [struct.pack("<I", len(content["aliases"]))]
    out += [text(name.encode()) + struct.pack("<I", target) for name, target in content["aliases"].items()]
    out += [struct.pack("<I", len(content["objects"]))]
    out += [text(o["name"].encode()) + text(content["media_types"][o["media_type"]]) + halves(digest(0, [len(o["raw"])], o))
            for o in content["objects"]]
    logical, pieces = content["pieces"] or ([], [])
    out += [struct.pack("<I", len(pieces))]
    for tensor, i, offset, form, bounds, _ in pieces:
        name, shape = logical[i]
        out += [struct.pack("<IQ", tensor, offset), text(name.encode()), struct.pack(f"<I{len(shape)}qB", len(shape), *shape, form),
                struct.pack(f"<I{len(bounds)}Q", len(bounds), *bounds)]
    tree = content["tree"] or {"nodes": [], "heap": b"", "tags": []}
    cut = lambda word: tree["heap"][word & 0xFFFFFFFF :][: word >> 32]
    out += [struct.pack("<I", len(tree["nodes"]))]
    for kind, key_kind, tag, children, key, payload in tree["nodes"]:
        out += [struct.pack("<BBI", kind, key_kind, children), text(tree["tags"][tag - 1] if tag else b"")]
        out += [text(cut(key)) if key_kind == 1 else struct.pack("<Q", key) if key_kind == 2 else b""]
        out += [text(cut(payload)) if kind in (3, 5, 6, 7) else struct.pack("<Q", payload)]
    out += [struct.pack("<I", len(content["rank_own"])), *(text(name.encode()) for name in content["rank_own"])]
    value = xxhash.xxh3_128_intdigest(b"".join(out))
    return value & (1 << 64) - 1, value >> 64


def index(content, rng):
    tensors, objects, later = content["tensors"], content["objects"], content.get("later_fields", [])
    every = tensors + objects
    first = sum(len(t["sums"]) for t in tensors), sum(len(t["stored"]) for t in tensors if t["encoding"])
    stored = [(xxhash.xxh3_64_intdigest(chunk), len(chunk), 0) for item in every if item["encoding"] for chunk in item["stored"]]
    other = content.get("other_sums")  # (hash id, bytes of a sum): of a hash that nobody knows.
    chunks = [pair for item in every for pair in item["sums"]]
    instead = content.get("instead", {})  # Of sums, for files that break a rule.
    other_bytes = instead.get("sums", rng.randbytes(len(chunks) * other[1]) if other and other[1] else b"")
    vendor = content.get("vendor") or {}
    root = [
        ("B", other[0]) if other else ("B", 1) if rng.random() < 0.3 else None,
        ("vector", "HHII", content["dtypes"]),
        ("strings", content["media_types"]),
        ("table", [names((t["name"] for t in tensors), later), ("vector", "B", [t["dtype"] for t in tensors]),
                   ("vector", "I", ends(len(t["shape"]) for t in tensors)), ("vector", "q", [dim for t in tensors for dim in t["shape"]]),
                   payload(tensors, 0, 0, later), *later]),
        ("table", [names(content["aliases"], later), ("vector", "I", list(content["aliases"].values())), *later]),
        ("table", [names((o["name"] for o in objects), later), ("vector", "B", [o["media_type"] for o in objects]), payload(objects, *first, later), *later]),
        ("vector", "QQ", instead.get("chunk_sums", [] if other and other[1] else chunks)),
        ("vector", "QII", stored),
        pieces_table(*content["pieces"], later) if content["pieces"] else None,
        tree_table(content["tree"], later), tree_table(content["attributes"], later),
        names(content["rank_own"], later) if content["rank_own"] else None,
        ("I", content["rank"]) if content["rank_own"] else None,
        ("QQ", content_of(content)) if content.get("content") else None,
        ("B", other[1]) if other else None,
        ("bytes", other_bytes) if other_bytes else None,
        statistics_table(content["statistics"], later) if content.get("statistics") else None,
        ("tables", [[("string", name.encode()), ("bytes", vendor[name]), *later] for name in sorted(vendor)]) if vendor else None,
        *later,
    ]
    return Writer(rng, b"DSCK", content.get("align_empty", True)).finish(root)


def shard(content, rng):
    """The bytes of a shard. `content` has tensors, aliases and objects in name order, and what index() looks at."""
    for item in content["tensors"] + content["objects"]:
        item.setdefault("sums", sums(item["raw"]))
    listed, data_begin, tail_begin, index_offset = lay_out(content)
    data = bytearray(index_offset)
    for item in content["tensors"] + content["objects"]:
        stored = b"".join(item["stored"]) if item["encoding"] else item["raw"]
        data[item["offset"] : item["offset"] + len(stored)] = stored
    buffer = index(content, rng)
    size = index_offset + len(buffer) + 128
    text = struct.pack("<Q", data_begin - 8) + header(content, listed, data_begin, tail_begin, size)
    data[:data_begin] = text.ljust(data_begin)
    footer = struct.pack("<7QHHIQQ32x", size, data_begin, tail_begin, index_offset, len(buffer), xxhash.xxh3_64_intdigest(buffer),
                         xxhash.xxh3_64_intdigest(bytes(data[:data_begin])), 1, content["minor"], 128, 0, content["compatible"])
    return bytes(data) + buffer + footer + struct.pack("<Q", xxhash.xxh3_64_intdigest(footer)) + MAGIC


def manifest(said, rng):
    """Section 22. shards: (name, rank, file_bytes, index_bytes, index_xxh3_64), in order; logical: (name, dtype, shape); placed: (shard, piece).
    Where it has them: content: (low, high) by shard; parts: (file_bytes, xxh3_64), and dtypes, those of all of its parts."""
    later = said.get("later_fields", [])
    column = lambda i, code: ("vector", code, [row[i] for row in said["shards"]])
    dtypes = said.get("dtypes") or sorted({dtype for _, dtype, _ in said["logical"]})
    content, parts = said.get("content"), said.get("parts")
    minor = max(said["minor"], 1) if content or parts else said["minor"]
    # Fields of 1.1, and behind them those of later versions.
    of_shards = [("vector", "QQ", content) if content else None, *later] if content or later else []
    table = ("table", [("vector", "Q", [row[i] for row in parts]) for i in range(2)]) if parts else None
    of_root = [table, *later] if parts or later else []
    root = [None, ("q", said["step"]), ("I", said["ranks"]),
            ("table", [("strings", [row[0].encode() for row in said["shards"]]), column(1, "I"), column(2, "Q"), column(3, "Q"), column(4, "Q"), *of_shards]),
            ("vector", "HHII", dtypes), ("vector", "B", [dtypes.index(dtype) for _, dtype, _ in said["logical"]]),
            pieces_table([(name, shape) for name, _, shape in said["logical"]], [piece for _, piece in said["placed"]], later),
            ("vector", "I", [shard for shard, _ in said["placed"]]), ("Q", said["serial"]), ("Q", said["parent"]), *of_root]
    root[0] = ("string", said["attempt"].encode())
    buffer = Writer(rng, b"DSCM").finish(root)
    end = struct.pack("<QQHHIQQQ", len(buffer) + 64, len(buffer), 1, minor, 64, 1 if parts else 0, said["compatible"], 0)
    return buffer + end + struct.pack("<Q", xxhash.xxh3_64_intdigest(buffer + end)) + b"DSCKMANI"
