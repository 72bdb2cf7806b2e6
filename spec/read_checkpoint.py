"""The second reader's half for sharded checkpoints (section 22): manifests, and directories that have one.

Beside read_dsckpt.py, which reads shards, and no more than that on anything but the standard library.
"""

import math
import pathlib
import re
import struct

from read_dsckpt import DTYPES, Shard, Table, check, check_strict, check_sum, cut_up, pieces_of, read_pieces, xxhash


def read_manifest(path, strict=False):
    """Section 22."""
    return describe_manifest(parse_manifest(path, strict))


def parse_manifest(path, strict=False):
    with open(path, "rb") as file:
        data = file.read()
    check(len(data) >= 64 and data.endswith(b"DSCKMANI"), "M1", "no trailer")
    size, buffer_bytes, major, minor, length, must, _, reserved, total = struct.unpack_from("<QQHHIQQQQ", data, len(data) - 64)
    check(size == len(data), "M2", f"{len(data)} bytes, the trailer says {size}")
    check_sum("xxh3_64", data[:-16], total, "M3", "manifest")
    check(major == 1, "M4", f"manifest version {major}.{minor}")
    check(must & ~1 == 0, "M5", f"unknown features {must:#x}")
    check(length == 64 and buffer_bytes + 64 == size and buffer_bytes % 8 == 0 and reserved == 0, "M6", "trailer")
    check(data[4:8] == b"DSCM", "M7", "identifier")
    if strict:
        check_strict(data[:buffer_bytes], "manifest.fbs")
    root = Table(data[:buffer_bytes], struct.unpack_from("<I", data)[0])
    shards, pieces = root.table(3), root.table(6)
    rows = list(zip(shards.strings(0), shards.vector(1, "I"), *(shards.vector(i, "Q") for i in (2, 3, 4)), strict=True))
    for name, *_ in rows:
        check_name(name)
    check(all(a[1::-1] < b[1::-1] for a, b in zip(rows, rows[1:])) and len({lower(row[0]) for row in rows}) == len(rows),
          "M12", "order of shards")
    content = shards.vector(5, "QQ")
    check(len(content) in (0, len(rows)), "M9", "content of shards")
    dtypes, columns = root.vector(4, "HHII"), pieces_of(pieces)
    parts = parts_of(root, must, columns)
    names, shapes = pieces.table(0).names(), cut_up(pieces.vector(1, "I"), pieces.vector(2, "q"), "L2")
    logical = [(name, dtypes[i], shape) for name, i, shape in zip(names, root.vector(5, "B"), shapes, strict=True)]
    placed = list(zip(root.vector(7, "I"), columns, strict=True))
    check(all(shard < len(rows) for shard, _ in placed), "M14", "shard of a piece")
    order = [(column[1], shard, column[0], *column[2:]) for shard, column in placed]
    check(all(a < b for a, b in zip(order, order[1:])), "M15", "pieces do not ascend")
    check(not parts or not names, "M18", "logical tensors beside parts")
    check({column[1] for column in columns} == set(range(len(names))), "M16", "a logical tensor without pieces")
    said = list(read_pieces(pieces))
    at = root.where(1), root.where(2), root.where(0), root.where(8), root.where(9)
    text = at[2] + root.get(at[2], "I")
    return {"attempt": root.data[text + 4 : text + 4 + root.get(text, "I")].decode(),
            "step": root.get(at[0], "q") if at[0] else 0, "ranks": root.get(at[1], "I") if at[1] else 0,
            "serial": root.get(at[3], "Q") if at[3] else 0, "parent": root.get(at[4], "Q") if at[4] else 0,
            "shards": rows, "content": content, "dtypes": dtypes, "logical": logical, "placed": placed, "pieces": said,
            "parts": parts}


def parts_of(root, must, columns):
    """Section 22.5: (file_bytes, xxh3_64) of each part."""
    table = root.table(10)
    check(bool(must & 1) == (table is not None), "M17", "feature bit 0 and parts")
    if table is None:
        return []
    parts = list(zip(table.vector(0, "Q"), table.vector(1, "Q"), strict=True))
    check(1 <= len(parts) <= 1024, "M17", f"{len(parts)} parts")
    check(not columns, "M18", "pieces beside parts")
    check(all(64 <= file_bytes <= 1 << 30 for file_bytes, _ in parts), "M18", "size of a part")
    return parts


def read_whole(folder, strict=False):
    """The manifest of a directory with what its parts hold, as if it stood in one file."""
    whole = parse_manifest(folder / "dsckpt.manifest", strict)
    for number, said in enumerate(whole["parts"]):
        path = folder / f"dsckpt.manifest.{number:05}"
        check(path.is_file() and not path.is_symlink(), "M19", f"{path.name} is missing, or no regular file")
        data = path.read_bytes()
        found = len(data), struct.unpack_from("<Q", data, len(data) - 16)[0] if len(data) >= 64 else None
        check(found == said, "M20", path.name)
        part = parse_manifest(path, strict)
        check(not part["parts"], "M21", f"{path.name} has parts")
        for key in ("attempt", "step", "ranks", "serial", "parent", "shards", "content", "dtypes"):
            check(part[key] == whole[key], "M22", f"{key} of {path.name}")
        base = len(whole["logical"])
        check(not base or not part["logical"] or whole["logical"][-1][0].encode() < part["logical"][0][0].encode(), "M23", path.name)
        whole["logical"] += part["logical"]
        whole["placed"] += [(shard, (column[0], base + column[1], *column[2:])) for shard, column in part["placed"]]
        whole["pieces"] += part["pieces"]
    return whole


def lower(name):
    """In ASCII alone, as the specification says: str.lower() knows more letters."""
    return name.encode().lower()


def check_name(name):
    """Section 22.2, "Shard names"."""
    whatever_case = re.IGNORECASE | re.ASCII
    check(0 < len(name.encode()) < 256 and name[0] != ".", "M10", name)
    check(not re.search(r"[/\\:\x00-\x1f\x7f]|[. ]$", name), "M10", name)
    check(not re.fullmatch(r"latest|dsckpt\.manifest(\.[0-9]+)?", name, whatever_case), "M10", name)
    check(not re.search(r"\.(incomplete|removed|replaced)-", name, whatever_case), "M10", name)
    devices = r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[1-9\u00b9\u00b2\u00b3]) *(\..*)?"
    check(not re.fullmatch(devices, name, whatever_case), "M10", name)


def describe_manifest(manifest):
    """As the JSON of its vector."""
    said = ("box", "flat", "element_offset", "replica_group")
    tensors = [{"name": name, "dtype": DTYPES[dtype[0]], "shape": shape, "pieces": []} for name, dtype, shape in manifest["logical"]]
    for (shard, column), (tensor, piece) in zip(manifest["placed"], manifest["pieces"], strict=True):
        row = {key: value for key, value in (piece or {}).items() if key in said}
        name = manifest["shards"][shard][0]
        tensors[column[1]]["pieces"] += [{"shard": name, "tensor": tensor} | row] if piece else []
    rows = [dict(zip(("name", "rank", "file_bytes", "index_bytes"), row)) | {"index_xxh3_64": f"{row[4]:016x}"}
            for row in manifest["shards"]]
    return {key: manifest[key] for key in ("attempt", "step", "ranks", "serial", "parent")} | {"shards": rows, "tensors": tensors}


def read_checkpoint(path, strict=False):
    """Section 22.3: a directory; every shard is what the manifest says of it. Returns what the JSON of its vector says."""
    path = pathlib.Path(path)
    manifest = read_whole(path, strict)
    shards = []
    for i, (name, rank, file_bytes, index_bytes, index_sum) in enumerate(manifest["shards"]):
        file = path / name
        check(file.is_file() and not file.is_symlink(), "S1", f"{name} is missing, or no regular file")
        shard = Shard(file, strict)
        check((len(shard.data), shard.index_bytes, shard.index_sum) == (file_bytes, index_bytes, index_sum), "S2", name)
        # (name, dtype, shape) of the logical tensor, then the piece's own columns.
        said = [(manifest["logical"][column[1]], (column[0], *column[2:]))
                for number, column in manifest["placed"] if number == i]
        held = sorted(shard.logical_pieces(), key=lambda row: (row[0][0].encode(), row[1]))
        check([(row[0][0], row[1]) for row in held] == [(row[0][0], row[1]) for row in said], "S3", f"pieces of {name}")
        check(held == said, "S4", f"dtypes and shapes of {name}")
        step = (shard.attributes or {}).get("step")
        check(type(step) is not int or step == manifest["step"], "S5", f"step of {name}")
        check(not shard.rank_own or shard.rank == rank, "S6", f"rank of {name}")
        check(not manifest["content"] or not shard.content or manifest["content"][i] == shard.content, "S7", f"content of {name}")
        shards.append(shard)
    tensors = {}
    for name, dtype, shape in manifest["logical"]:
        tensors[name] = assemble(manifest, shards, name, dtype, shape).hex()
    content = {"content": content_digest(manifest)} if manifest["content"] and xxhash else {}
    return {"step": manifest["step"], "shards": len(shards)} | content | {"tensors": tensors}


def content_digest(manifest):
    """Section 22.2: of all shards."""
    of_shards = zip(manifest["shards"], manifest["content"])
    data = b"".join(struct.pack("<I2Q", row[1], *content) for row, content in of_shards)
    return xxhash.xxh3_128_hexdigest(struct.pack("<I", len(manifest["shards"])) + data)


def assemble(manifest, shards, name, dtype, shape):
    """A logical tensor's bytes from all pieces of known form; block by block, which is slow and plain."""
    _, _, per_block, block_bytes = dtype
    blocks = [None] * (math.prod(shape) // per_block)
    for (number, column), (_, piece) in zip(manifest["placed"], manifest["pieces"], strict=True):
        if piece is None or piece["logical_name"] != name:
            continue
        data = shards[number].read(shards[number].tensors[column[0]])
        begin, _ = piece.get("flat", (0, 0))
        places = range(begin, begin + piece["elements"]) if "flat" in piece else box_places(piece["box"], shape)
        for i, place in enumerate(list(places)[::per_block]):
            at = (piece["element_offset"] // per_block + i) * block_bytes
            block = data[at : at + block_bytes]
            check(blocks[place // per_block] in (None, block), "copies", f"{name} differs between pieces")
            blocks[place // per_block] = block
    check(None not in blocks, "gap", f"{name} is not covered")
    return b"".join(blocks)


def box_places(box, shape):
    """Row-major positions of a box's elements in the whole."""
    places = [0]
    for (begin, end), size in zip(box, shape):
        places = [place * size + i for place in places for i in range(begin, end)]
    return places
