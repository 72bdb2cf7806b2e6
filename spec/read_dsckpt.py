#!/usr/bin/env python3
"""A second reader of dsckpt shards, written from spec/format.md alone; section numbers refer to it.

Standard library only. Checksums are checked where the package `xxhash` is installed, zstd chunks decoded where `zstandard`
or Python's own `compression.zstd` is. `read_dsckpt.py FILE` prints what `dsckpt inspect --json --tree` prints, less the path;
of a manifest, or a directory that has one, what the JSON of its vector says.
It checks what a reader needs to be right on good files; a strict one checks all of section 15. `--strict` also verifies
FlatBuffers by the rules of the official verifiers (strict_flatbuffer.py) and the JSON header by section 4.
"""

import base64
import json
import math
import pathlib
import struct
import sys

try:
    import xxhash
except ImportError:
    xxhash = None
try:
    from compression import zstd
except ImportError:
    try:
        import zstandard as zstd
    except ImportError:
        zstd = None

PAGE, CHUNK, FOOTER = 4096, 4 << 20, 128
MAGIC = b"\x89DSC\r\n\x1a\n"
MARK = b'{"__metadata__":{"dsckpt":"'
ENCODINGS = {0: "raw", 1: "zstd", 2: "byteplane-zstd"}
# Section 20.1: code -> name; codes that safetensors lacks.
DTYPES = dict(enumerate("BOOL U8 I8 U16 I16 U32 I32 U64 I64 F16 BF16 F32 F64 C64 C128 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ "
                        "F8_E5M2FNUZ F6_E2M3 F6_E3M2 F4 I4 U4".split(), 1))
LISTABLE = set(DTYPES) - {15, 24, 25}


class BadFile(Exception):
    pass


def check(condition, rule, text=""):
    if not condition:
        raise BadFile(f"rule {rule}: {text}")


def check_sum(kind, data, expected, rule, text):
    check(xxhash is None or getattr(xxhash, kind + "_intdigest")(data) == expected, rule, f"checksum of {text}")


def check_strict(data, schema):
    """What the official verifiers of FlatBuffers ask for, whatever their language."""
    import strict_flatbuffer  # Beside this file; needed for this only.

    try:
        strict_flatbuffer.verify(data, pathlib.Path(__file__).with_name(schema))
    except strict_flatbuffer.NotStrict as error:
        raise BadFile(f"strict: {error}") from None


def up(value, unit):
    return -(-value // unit) * unit


class Table:
    """A FlatBuffers table, walked by hand: a signed offset leads to its vtable, whose entries locate the fields."""

    def __init__(self, data, at):
        self.data, self.at = data, at
        vtable = at - self.get(at, "i")
        self.fields = struct.unpack_from(f"<{self.get(vtable, 'H') // 2}H", data, vtable)[2:]

    def get(self, at, code):
        found = struct.unpack_from("<" + code, self.data, at)
        return found if len(found) > 1 else found[0]

    def where(self, field):
        offset = self.fields[field] if field < len(self.fields) else 0
        return self.at + offset if offset else None

    def table(self, field):
        where = self.where(field)
        return None if where is None else Table(self.data, where + self.get(where, "I"))

    def vector(self, field, code):
        where = self.where(field)
        if where is None:
            return []
        at = where + self.get(where, "I")
        size = struct.calcsize("<" + code) * self.get(at, "I")
        check(at + 4 + size <= len(self.data), "X2", "a vector leaves the index")
        aligned = (at + 4) % max(struct.calcsize("<" + element) for element in code) == 0
        check(size == 0 or aligned, "X2", "a vector is not aligned")
        if code == "s":
            return self.data[at + 4 : at + 4 + size]
        rows = list(struct.iter_unpack("<" + code, self.data[at + 4 : at + 4 + size]))
        return [row[0] for row in rows] if len(code) == 1 else rows

    def text(self, at):
        check(self.data[at + 4 + self.get(at, "I")] == 0, "X2", "a string without its NUL")
        return self.data[at + 4 : at + 4 + self.get(at, "I")]

    def string(self, field):
        return self.text(self.where(field) + self.get(self.where(field), "I"))

    def each(self, field):
        """Where the elements of a vector of strings or tables are."""
        at = self.where(field)
        return [at + self.get(at, "I") + 4 + 4 * i + offset for i, offset in enumerate(self.vector(field, "I"))]

    def strings(self, field):
        return [self.text(at).decode() for at in self.each(field)]

    def tables(self, field, of):
        return [of(Table(self.data, at)) for at in self.each(field)]

    def names(self):
        out = cut_up(self.vector(1, "I"), self.vector(0, "s"), "N1")
        check(all(a < b for a, b in zip(out, out[1:])), "N2", "names do not ascend")
        check(all(b"\0" not in name and name not in (b"__metadata__", b"__dsckpt__") for name in out), "N4")
        return [name.decode() for name in out]


def cut_up(ends, column, rule, start=0, last=True):
    out = []
    for end in ends:
        check(start <= end <= len(column), rule, "running totals leave their column")
        out.append(column[start:end])
        start = end
    check(not last or start == len(column), rule, "a column has entries left over")
    return out


def pieces_of(table):
    """By piece: (tensor, logical, element_offset, form, bounds, replica_group)."""
    columns = [table.vector(i, code) for i, code in ((3, "I"), (4, "I"), (5, "Q"), (6, "B"), (9, "I"))]
    columns.insert(4, list(map(tuple, cut_up(table.vector(7, "I"), table.vector(8, "Q"), "L2"))))
    check(len({len(column) for column in columns}) == 1, "L1", "columns of pieces")
    return list(zip(*columns))


def read_pieces(table):
    """Section 12: (stored tensor, piece), in order; the piece is None where its form is unknown."""
    names, ends = table.table(0).names(), table.vector(1, "I")
    shapes = cut_up(ends, table.vector(2, "q"), "L2")
    check(len(names) == len(shapes), "L1", "logical_dim_end")
    for name, shape in zip(names, shapes):
        check(all(dim >= 0 for dim in shape) and math.prod(dim or 1 for dim in shape) < 1 << 63, "L4", name)
    for tensor, logical, offset, form, bound, group in pieces_of(table):
        check(logical < len(names), "L5", "logical tensor")
        shape, half = shapes[logical], len(bound) // 2
        whole = shape if form == 0 else [math.prod(shape)]
        piece = {"logical_name": names[logical], "logical_shape": shape}
        ranges = [[begin, begin + count] for begin, count in zip(bound[:half], bound[half:])]
        if form <= 1:
            inside = all(end <= size for (_, end), size in zip(ranges, whole))
            check(len(bound) == 2 * len(whole) and inside, "L7", names[logical])
            piece |= {"box": ranges} if form == 0 else {"flat": ranges[0]}
            piece |= {"element_offset": offset, "replica_group": group, "elements": math.prod(bound[half:])}
        yield tensor, piece if form <= 1 else None


class Shard:
    def __init__(self, path, strict=False):
        with open(path, "rb") as file:
            self.data = file.read()
        self.read_footer()
        index = self.data[self.index_offset : self.index_offset + self.index_bytes]
        check_sum("xxh3_64", index, self.index_sum, "X1", "index")
        check(index[4:8] == b"DSCK", "X2", "index identifier")
        if strict:
            check_strict(index, "index.fbs")
        self.read_index(Table(index, struct.unpack_from("<I", index)[0]))
        self.check_layout()
        self.check_listing()
        if strict:
            self.check_header()
            computed = self.content_digest() if xxhash and self.content and self.hash_id == 1 else None
            check(computed is None or computed == self.content[1] << 64 | self.content[0], "content", "digest of the content")

    def read_footer(self):
        """Sections 5 and 13."""
        data, size = self.data, len(self.data)
        check(any(data[:PAGE]), "F1", "begins with zeros: a save that did not finish")
        check(data[8:].startswith(MARK) and data.endswith(MAGIC), "F1",
              f"no shard, or cut: {size} bytes, header: {data[8:82]}")
        footer = data[-FOOTER:]
        check_sum("xxh3_64", footer[:112], struct.unpack_from("<Q", footer, 112)[0], "F2", "footer")
        (says, self.D, self.L, self.index_offset, self.index_bytes, self.index_sum, self.header_sum, major, minor,
         length, must, _) = struct.unpack_from("<7QHHIQQ", footer)
        check(major == 1, "F3", f"format version {major}.{minor}")
        check(must == 0, "F4", f"unknown features {must:#x}")
        check(length == FOOTER, "F5", f"footer of {length} bytes")
        check(footer[80:112] == bytes(32), "F6", "reserved bytes")
        check(struct.unpack_from("<Q", data)[0] == self.D - 8, "F7", "header length")
        check(says == size, "F8", f"{size} bytes, the footer says {says}")
        check(PAGE <= self.D <= self.L <= self.index_offset and self.D % PAGE == self.index_offset % 64 == 0
              and self.index_bytes % 8 == 0 and self.index_offset + self.index_bytes + FOOTER == size, "F9", "geometry")
        check(int(data[61:81]) == size, "F10", "file size in the header")
        self.version = f"{major}.{minor}"

    def read_index(self, root):
        """Section 6; fields by their position in index.fbs."""
        tensors, aliases, objects = root.table(3), root.table(4), root.table(5)
        sums, stored = self.chunk_sums(root), root.vector(7, "QII")
        self.tensors = self.items(tensors, tensors.table(4), sums, stored, 0, 0)
        first = [sum(len(t[key]) for t in self.tensors) for key in ("sums", "stored")]
        self.objects = self.items(objects, objects.table(2), sums, stored, *first)
        check(first[0] + sum(len(o["sums"]) for o in self.objects) == len(sums), "P3", "sums left over")
        check(first[1] + sum(len(o["stored"]) for o in self.objects) == len(stored), "P4", "stored chunks left over")
        dtypes, media_types = root.vector(1, "HHII"), root.strings(2)
        shapes = cut_up(tensors.vector(2, "I"), tensors.vector(3, "q"), "T1")
        for tensor, position, shape in zip(self.tensors, tensors.vector(1, "B"), shapes, strict=True):
            code, _, block_elements, block_bytes = dtypes[position]
            check(block_elements > 0 and block_bytes > 0, "X5", f"dtype {code}")
            check(all(dim >= 0 for dim in shape) and math.prod(dim or 1 for dim in shape) < 1 << 63, "T2", tensor["name"])
            blocks, rest = divmod(math.prod(shape), block_elements)
            check(rest == 0 and blocks * block_bytes == tensor["bytes"], "T3", tensor["name"])
            tensor.update(code=code, descriptor=dtypes[position], dtype=DTYPES.get(code, f"unknown({code})"), width=block_bytes, shape=shape)
        for item, position in zip(self.objects, objects.vector(1, "B"), strict=True):
            item.update(code=0, media_type=media_types[position], width=1, shape=[item["bytes"]])
        self.aliases = dict(zip(aliases.table(0).names(), aliases.vector(1, "I"), strict=True))
        check(all(target < len(self.tensors) for target in self.aliases.values()), "X6", "alias target")
        names = [item["name"] for item in self.tensors + self.objects] + list(self.aliases)
        check(len(set(names)) == len(names), "N3", "a name occurs twice")
        for tensor in self.tensors:
            tensor["pieces"] = []
        self.pieces = []
        if root.table(8) is not None:
            pieces = root.table(8)
            columns = pieces_of(pieces)
            order = [(row[0], row[2], row[1], *row[3:]) for row in columns]
            check(all(a < b for a, b in zip(order, order[1:])), "L6", "pieces do not ascend")
            for ordinal, piece in read_pieces(pieces):
                check(ordinal < len(self.tensors), "L5", "stored tensor")
                check(piece is None or piece["element_offset"] + piece["elements"] <= math.prod(self.tensors[ordinal]["shape"]),
                      "L8", self.tensors[ordinal]["name"])
                self.tensors[ordinal]["pieces"] += [piece] if piece else []
            logical = list(zip(pieces.table(0).names(), cut_up(pieces.vector(1, "I"), pieces.vector(2, "q"), "L2")))
            self.pieces = [(logical[row[1]], (row[0], *row[2:])) for row in columns]
        self.attributes = self.read_tree(root.table(10))
        self.tree = self.read_tree(root.table(9))
        self.rank_own = [] if root.table(11) is None else root.table(11).names()
        self.rank = root.get(root.where(12), "I") if root.where(12) else 0
        above = lambda name: {name[:i] for i, character in enumerate(name) if character == "/"}
        check(not any(above(name) & set(self.rank_own) for name in self.rank_own), "L10", "a name below another")
        self.content = root.get(root.where(13), "2Q") if root.where(13) else None
        self.read_statistics(root.table(16))
        names, data = root.tables(17, lambda entry: entry.string(0)), root.tables(17, lambda entry: entry.vector(1, "s"))
        check(len(names) <= 32 and all(a < b for a, b in zip([b"", *names], names)), "X9", "vendor data")
        for name in names:
            check(0 < len(name) < 256 and not any(byte < 32 or byte == 127 for byte in name) and name.decode(), "X9", "a vendor's name")
        self.vendor = {name.decode(): bytes(text or b"") for name, text in zip(names, data)}

    def chunk_sums(self, root):
        """Sums of a hash other than XXH3-128 are counted, and not used."""
        byte = lambda field, default: root.get(root.where(field), "B") if root.where(field) else default
        self.hash_id, size = byte(0, 1), byte(14, 0)
        check(self.hash_id != 0, "X3", "hash id")
        sums, other = root.vector(6, "QQ"), root.vector(15, "s")
        if size == 0:
            check(not other, "X7", "sums without a size")
            return sums
        check(self.hash_id != 1 and size <= 64, "X7", "bytes of a sum")
        check(not sums and len(other) % size == 0, "X7", "sums")
        return [None] * (len(other) // size)

    def read_statistics(self, table):
        """Section 6.7."""
        columns = [] if table is None else [table.vector(i, code) for i, code in enumerate("IQQQdddd")]
        check(len({len(column) for column in columns}) <= 1, "X8", "columns of statistics")
        before = -1
        for tensor, nan, inf, zero, *floats in zip(*columns):
            check(before < tensor < len(self.tensors), "X8", "tensor of statistics")
            before = tensor
            check(nan + inf + zero <= math.prod(self.tensors[tensor]["shape"]), "X8", "counts")
            shown = [None if math.isnan(value) else number(value) for value in floats]
            self.tensors[tensor]["statistics"] = dict(zip(("nan", "inf", "zero", "min", "max", "sum", "sum_squares"), (nan, inf, zero, *shown)))

    def content_digest(self):
        """Section 8.1."""
        text = lambda data: struct.pack("<I", len(data)) + data
        digest = lambda item: bytes.fromhex(self.digest(item))[::-1]
        tensors, objects, own = self.tensors, self.objects, self.rank_own
        parts = [struct.pack("<I", len(tensors)), *(text(t["name"].encode()) + digest(t) for t in tensors),
                 struct.pack("<I", len(self.aliases))]
        parts += [text(name.encode()) + struct.pack("<I", target) for name, target in self.aliases.items()]
        parts += [struct.pack("<I", len(objects))]
        parts += [text(o["name"].encode()) + text(o["media_type"].encode()) + digest(o) for o in objects]
        parts += [struct.pack("<I", len(self.pieces))]
        for (name, shape), (tensor, offset, form, bounds, _) in self.pieces:
            parts += [struct.pack("<IQ", tensor, offset), text(name.encode()), struct.pack(f"<I{len(shape)}q", len(shape), *shape),
                      struct.pack(f"<BI{len(bounds)}Q", form, len(bounds), *bounds)]
        parts += [struct.pack("<I", len(self.nodes)), *self.nodes]
        parts += [struct.pack("<I", len(own)), *(text(name.encode()) for name in own)]
        return xxhash.xxh3_128_intdigest(b"".join(parts))

    def logical_pieces(self):
        """Section 22.3: ((name, dtype descriptor, shape), columns), those included that no piece says."""
        rows = [((name, self.tensors[column[0]]["descriptor"], shape), column) for (name, shape), column in self.pieces]
        declared = {column[0] for _, column in self.pieces}
        names = [(t["name"], i) for i, t in enumerate(self.tensors)] + list(self.aliases.items())
        for name, i in names:
            if i not in declared:
                shape = self.tensors[i]["shape"]
                bounds = (0,) * len(shape) + tuple(shape)
                rows.append(((name, self.tensors[i]["descriptor"], shape), (i, 0, 0, bounds, 0)))
        return rows

    def check_listing(self):
        """F11: the JSON header says the same listed tensors as the index."""
        digits = lambda text: check(text.isdigit(), "F11", f"the number {text}") or int(text)
        try:
            said = json.loads(self.data[8 : self.D].decode(), object_pairs_hook=unique, parse_int=digits)
            json.dumps(said, ensure_ascii=False).encode()  # Refuses escaped surrogates.
        except (ValueError, RecursionError) as error:
            raise BadFile(f"rule F11: {error}") from None
        self.members = said.pop("__metadata__")
        check(all(isinstance(value, str) for value in self.members.values()), "F11", "metadata other than strings")
        tensors = self.listed()
        others = {key: value for key, value in self.members.items() if key not in self.own() and key not in ("dsckpt", "dsckpt.bytes")}
        if len(said) == 1 and not fits(self.header_text(others, tensors)):
            tensors = []
        begin, end = self.tail_begin(tensors), len(self.data) - self.D
        entry = lambda dtype, shape, begin, end: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
        place = lambda t: (t["offset"] - self.D, t["offset"] - self.D + t["bytes"])
        expected = {t["name"]: entry(t["dtype"], t["shape"], *place(t)) for t in tensors}
        expected["__dsckpt__"] = entry("U8", [end - begin], begin, end)
        # As text: True is no 1.
        same = json.dumps(said, sort_keys=True) == json.dumps(expected, sort_keys=True)
        check(same, "F11", "the JSON header lists other tensors than the index")

    def listed(self):
        listed = [t for t in self.tensors if t["encoding"] == 0 and t["code"] in LISTABLE]
        return sorted(listed, key=lambda t: (-((t["bytes"] | PAGE) & -(t["bytes"] | PAGE)), t["name"].encode()))

    def tail_begin(self, listed):
        return self.L - self.D if listed or self.L == self.D else 0

    def own(self):
        """Members of the metadata that say aliases."""
        return {key: self.tensors[i]["name"] for key, i in self.aliases.items() if key != "format" and not key.startswith("dsckpt")}

    def given(self):
        """Members that the producer added."""
        own = self.own()
        return {key: value for key, value in self.members.items() if key not in own and not key.startswith("dsckpt")}

    def check_header(self):
        """Section 4: there is one header for a shard's index and its producer's metadata."""
        own, given, listed = self.own(), self.given(), self.listed()
        for key, target in own.items():
            check(self.members.get(key, target) == target, "header", f"{key} is an alias of {target}")
        for aliases, tensors in ((own, listed), ({}, listed), ({}, [])):
            text = self.header_text(aliases | given, tensors)
            if fits(text):
                break
        expected = struct.pack("<Q", up(8 + len(text), PAGE) - 8) + text
        expected = expected.ljust(up(len(expected), PAGE))
        check(self.data[: self.D] == expected, "header", "is not in canonical form")

    def header_text(self, members, listed):
        quoted = lambda text: json.dumps(text, ensure_ascii=False).encode()
        numbers = lambda values: b",".join(b"%d" % value for value in values)
        wide = lambda value: b"%-20d" % value
        parts = [b'"dsckpt":"%-8s"' % self.version.encode(), b'"dsckpt.bytes":"%020d"' % len(self.data),
                 b'"format":' + quoted(members.get("format", "pt"))]
        parts += [quoted(key) + b":" + quoted(value) for key, value in sorted(members.items(), key=lambda item: item[0].encode())
                  if key != "format"]
        entries = [b'"__metadata__":{' + b",".join(parts) + b"}"]
        for t in listed:
            place = numbers([t["offset"] - self.D, t["offset"] + t["bytes"] - self.D])
            entries.append(b'%s:{"dtype":"%s","shape":[%s],"data_offsets":[%s]}'
                           % (quoted(t["name"]), t["dtype"].encode(), numbers(t["shape"]), place))
        begin, end = self.tail_begin(listed), len(self.data) - self.D
        entries.append(b'"__dsckpt__":{"dtype":"U8","shape":[%s],"data_offsets":[%s,%s]}' % (wide(end - begin), wide(begin), wide(end)))
        return b"{" + b",".join(entries) + b"}"

    @staticmethod
    def items(table, payload, sums, stored, first_sum, first_stored):
        columns = [table.table(0).names()] + [payload.vector(i, code) for i, code in enumerate("QQQB")]
        columns += [cut_up(payload.vector(4, "I"), sums, "P3", first_sum, False),
                    cut_up(payload.vector(5, "I"), stored, "P4", first_stored, False)]
        keys = ("name", "offset", "bytes", "stored_bytes", "encoding", "sums", "stored")
        out = [dict(zip(keys, row)) for row in zip(*columns, strict=True)]
        for item in out:
            chunks = up(item["bytes"], CHUNK) // CHUNK
            check(len(item["sums"]) == chunks, "P3", item["name"])
            check(len(item["stored"]) == (chunks if item["encoding"] else 0), "P4", item["name"])
            total = sum(chunk[1] for chunk in item["stored"]) if item["encoding"] else item["bytes"]
            check(total == item["stored_bytes"], "P1", item["name"])
            for i, (_, size, reserved) in enumerate(item["stored"]):
                most = min(CHUNK, item["bytes"] - i * CHUNK) if item["encoding"] in ENCODINGS else size
                check(0 < size <= most and reserved == 0, "P5", item["name"])
        return out

    def check_layout(self):
        """Section 3: every offset follows from sizes, dtypes, encodings and names."""
        at = self.D
        for listed in (True, False):
            region = [t for t in self.tensors if t["encoding"] == 0 and (t["code"] in LISTABLE) == listed]
            region.sort(key=lambda t: (-((t["bytes"] | PAGE) & -(t["bytes"] | PAGE)), t["name"].encode()))
            for t in region:
                check(t["offset"] == at, "P2", f"{t['name']} at {t['offset']}, expected {at}")
                at += t["bytes"]
            check(not listed or at == self.L, "P2", "end of the listed region")
            at = up(at, PAGE)
        for item in sorted([t for t in self.tensors if t["encoding"]] + self.objects, key=lambda i: i["name"].encode()):
            check(item["offset"] == up(at, 64), "P2", f"{item['name']} at {item['offset']}, expected {up(at, 64)}")
            at = item["offset"] + item["stored_bytes"]
        check(up(at, 64) == self.index_offset, "P2", "index offset")

    def read_tree(self, table):
        """Section 10, as JSON: what JSON lacks is an object with one key that begins with '$'."""
        self.nodes = []  # As section 8.1 has them.
        if table is None:
            return None
        heap, tags = table.vector(1, "s") or b"", [None] + table.strings(2)
        used = 0

        def cut(word):
            nonlocal used
            used += word >> 32
            check(used <= 16 * len(heap) + (64 << 10), "R8", "heap ranges share too much")
            return heap[word & 0xFFFFFFFF : (word & 0xFFFFFFFF) + (word >> 32)]

        signed = lambda word: word - (word >> 63 << 64)
        pairs = lambda text: [number(x) for x in struct.unpack("<2d", text)]
        def big(text):
            check(len(text) <= 1 + (64 << 10), "R8", "a long integer")
            return ("-" if text[0] else "") + str(int.from_bytes(text[1:], "little"))

        leaf = [lambda w: check(w == 0, "R7"), lambda w: [False, True][w], signed, lambda w: {"$bigint": big(cut(w))},
                lambda w: number(struct.unpack("<d", struct.pack("<Q", w))[0]), lambda w: {"$complex": pairs(cut(w))},
                lambda w: cut(w).decode(), lambda w: {"$bytes": base64.b64encode(cut(w)).decode()}, dict_json, list,
                lambda values: {"$tuple": values}, lambda w: {"$tensor": self.tensors[w]["name"]},
                lambda w: {"$alias": list(self.aliases)[w]}, lambda w: {"$object": self.objects[w]["name"]}]
        stack = [[1, None, None, None, []]]  # open containers: children to come, kind, key, tag, (key, value) pairs
        for kind, key_kind, tag, children, key, payload in table.vector(0, "BBHIQQ"):
            check(stack[-1][0] > 0, "R3", "nodes after the tree")
            stack[-1][0] -= 1
            at = lambda word: struct.pack("<I", word >> 32) + heap[word & 0xFFFFFFFF :][: word >> 32]
            word = lambda value: struct.pack("<Q", value)
            self.nodes.append(struct.pack("<BBI", kind, key_kind, children) + at(0) if not tag else
                              struct.pack("<BBII", kind, key_kind, children, len(tags[tag].encode())) + tags[tag].encode())
            self.nodes[-1] += (b"" if key_kind == 0 else at(key) if key_kind == 1 else word(key))
            self.nodes[-1] += at(payload) if kind in (3, 5, 6, 7) else word(payload)
            key = [lambda: None, lambda: cut(key).decode(), lambda: signed(key)][key_kind]()
            if 8 <= kind <= 10:
                stack.append([children, kind, key, tags[tag], []])
            else:
                check(children == 0, "R3", "a leaf with children")
                value = leaf[kind](payload)
                stack[-1][4].append((key, {"$tag": tags[tag], "value": value} if tag else value))
            while len(stack) > 1 and stack[-1][0] == 0:
                _, kind, key, tag, below = stack.pop()
                value = leaf[kind](below if kind == 8 else [value for _, value in below])
                stack[-1][4].append((key, {"$tag": tag, "value": value} if tag else value))
        check(len(stack) == 1 and stack[0][0] == 0, "R3", "children are missing")
        return stack[0][4][0][1]

    def read(self, item):
        """Section 7: an item's raw bytes, checksums checked."""
        at, out = item["offset"], []
        for i, chunk_sum in enumerate(item["sums"]):
            length = min(CHUNK, item["bytes"] - i * CHUNK)
            size = item["stored"][i][1] if item["encoding"] else length
            chunk, at = self.data[at : at + size], at + size
            if item["encoding"]:
                check_sum("xxh3_64", chunk, item["stored"][i][0], "stored sum", item["name"])
            if size < length:
                check(zstd is not None, "zstd", "no zstd module for Python here")
                chunk = zstd.decompress(chunk)
                if item["encoding"] == 2:
                    planes = [chunk[j * length // item["width"] :][: length // item["width"]] for j in range(item["width"])]
                    chunk = bytes(byte for element in zip(*planes) for byte in element)
            if self.hash_id == 1:
                check_sum("xxh3_128", chunk, chunk_sum[1] << 64 | chunk_sum[0], "chunk sum", item["name"])
            out.append(chunk)
        return b"".join(out)

    def digest(self, item):
        """Section 8; None where it cannot be told."""
        if self.hash_id != 1:
            return None
        code, shape = item.get("code", 0), item.get("shape", [item["bytes"]])
        text = struct.pack(f"<HHI{len(shape)}q", 1, code, len(shape), *shape)
        return xxhash and xxhash.xxh3_128_hexdigest(text + b"".join(struct.pack("<QQ", *sums) for sums in item["sums"]))


def fits(header):
    """Section 4.3."""
    return up(8 + len(header), PAGE) <= 8 + 100_000_000


def number(value):
    return value if math.isfinite(value) else {"$float": str(value)}


def unique(pairs):
    check(len(dict(pairs)) == len(pairs), "F11", "a name occurs twice")
    return dict(pairs)


def dict_json(pairs):
    plain = all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs)
    return dict(pairs) if plain else {"$dict": [list(pair) for pair in pairs]}


def describe(shard):
    # Members in the order of the vectors.
    place = lambda item: {"bytes": item["bytes"], "stored_bytes": item["stored_bytes"], "offset": item["offset"],
                          "encoding": ENCODINGS.get(item["encoding"], f"unknown({item['encoding']})"), "digest": shard.digest(item)}
    row = lambda t: {"name": t["name"], "dtype": t["dtype"], "shape": t["shape"]} | place(t) | {"alias_of": None}
    pieces = lambda t: [{key: value for key, value in piece.items() if key != "elements"} for piece in t["pieces"]]
    more = lambda t: ({"pieces": pieces(t)} if t["pieces"] else {}) | ({"statistics": t["statistics"]} if "statistics" in t else {})
    tensors = [row(t) | more(t) for t in shard.tensors]
    tensors += [row(shard.tensors[i]) | {"name": name, "alias_of": shard.tensors[i]["name"]} for name, i in shard.aliases.items()]
    # Keys of attributes are strings: a plain object holds any.
    attributes = shard.attributes or {}
    attributes = dict(attributes["$dict"]) if "$dict" in attributes else attributes
    tree = shard.tree
    if tree is None:
        tree = {t["name"]: {"$tensor": t["name"]} for t in shard.tensors} | {name: {"$alias": name} for name in shard.aliases}
        tree |= {o["name"]: {"$object": o["name"]} for o in shard.objects}
    return {"schema": "dsckpt.inspect/1", "format_version": shard.version, "file_bytes": len(shard.data),
            "tensors": sorted(tensors, key=lambda t: t["name"].encode()),
            "objects": [{"name": o["name"], "media_type": o["media_type"]} | place(o) for o in shard.objects],
            "attributes": attributes} | annotations(shard) | {"tree": tree}


def annotations(shard):
    own = {"rank_own": shard.rank_own, "rank": shard.rank} if shard.rank_own else {}
    content = {"content": f"{shard.content[1]:016x}{shard.content[0]:016x}"} if shard.content else {}
    return own | content | ({"vendor": {name: {"bytes": len(data), "hex": data.hex()} for name, data in shard.vendor.items()}} if shard.vendor else {})


def read_any(path, strict=False):
    path = pathlib.Path(path)
    if not path.is_dir() and not path.name.endswith("manifest"):
        return describe(Shard(path, strict))
    import read_checkpoint  # Beside this file; it imports from here.

    return (read_checkpoint.read_checkpoint if path.is_dir() else read_checkpoint.read_manifest)(path, strict)


def main(arguments):
    paths = [argument for argument in arguments if argument != "--strict"]
    try:
        print(json.dumps(read_any(paths[0], len(paths) < len(arguments)), indent=1))
    except (BadFile, OSError, ValueError, LookupError, struct.error) as error:
        sys.exit(f"{paths[0]}: {error}")


if __name__ == "__main__":
    import read_dsckpt  # As a module, so that what imports from it means the same classes.

    read_dsckpt.main(sys.argv[1:])
