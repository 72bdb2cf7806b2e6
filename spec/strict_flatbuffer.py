"""Verifies a FlatBuffer as the strictest of the official verifiers do, from its .fbs schema.

Beyond bounds this is: every vector's elements are aligned, also those of an empty vector (Rust, Swift); strings are UTF-8 (Rust)
and end with a NUL; required fields are there; fields lie inside their table; a vtable is aligned to 2, a table to 4, and the
buffer has the identifier. What dsckpt writes passes. Its readers also take what fails only by an empty vector aligned to 4
(spec/format.md, section 6).
"""

import pathlib
import re
import struct

SCALARS = {"ubyte": 1, "byte": 1, "bool": 1, "ushort": 2, "short": 2, "uint": 4, "int": 4, "ulong": 8, "long": 8, "double": 8}


class NotStrict(Exception):
    pass


class Schema:
    """Structs and tables of a schema file and of those that it includes."""

    def __init__(self, path):
        self.structs, self.tables, self.root, self.identifier = {}, {}, None, None
        self.load(pathlib.Path(path))

    def load(self, path):
        text = re.sub(r"//[^\n]*", "", path.read_text())
        for include in re.findall(r'include\s+"([^"]+)"', text):
            self.load(path.parent / include)
        for kind, name, body in re.findall(r"\b(struct|table)\s+(\w+)\s*\{([^}]*)\}", text):
            fields = [(field, of, "required" in flags)
                      for field, of, flags in re.findall(r"(\w+)\s*:\s*(\[?\w+\]?)([^;]*);", body)]
            if kind == "struct":
                sizes = [SCALARS[of] for _, of, _ in fields]
                align = max(sizes)
                self.structs[name] = (-(-sum(sizes) // align) * align, align)
            else:
                self.tables[name] = fields
        self.root = re.search(r"root_type\s+(\w+)", text)[1]
        self.identifier = re.search(r'file_identifier\s+"(\w+)"', text)[1].encode()

    def element(self, of):
        """(bytes, alignment) of an element of a vector, or of a scalar field."""
        return self.structs.get(of) or (SCALARS[of], SCALARS[of])


class Verifier:
    def __init__(self, data, schema):
        self.data, self.schema = data, schema

    def check(self, condition, where, what):
        if not condition:
            raise NotStrict(f"{where}: {what}")

    def get(self, at, code, where):
        size = struct.calcsize("<" + code)
        self.check(at % size == 0, where, f"{size} bytes at {at} are not aligned")
        self.check(0 <= at <= len(self.data) - size, where, f"{at} is outside")
        return struct.unpack_from("<" + code, self.data, at)[0]

    def run(self):
        self.check(self.data[4:8] == self.schema.identifier, "buffer", "identifier")
        self.table(self.schema.root, self.get(0, "I", "root"), self.schema.root)

    def table(self, name, at, where):
        vtable = at - self.get(at, "i", where)
        vtable_bytes, table_bytes = (self.get(vtable + i, "H", where) for i in (0, 2))
        self.check(vtable_bytes % 2 == 0 and vtable_bytes >= 4, where, "vtable")
        self.check(vtable + vtable_bytes <= len(self.data) and at + table_bytes <= len(self.data), where, "leaves the buffer")
        offsets = [self.get(vtable + 4 + i, "H", where) for i in range(0, vtable_bytes - 4, 2)]
        for i, (field, of, required) in enumerate(self.schema.tables[name]):
            offset = offsets[i] if i < len(offsets) else 0
            self.check(offset or not required, f"{where}.{field}", "is required")
            if offset:
                self.field(of, at + offset, at + table_bytes, f"{where}.{field}")

    def field(self, of, at, end, where):
        if of in SCALARS:
            self.check(at % SCALARS[of] == 0 and at + SCALARS[of] <= end, where, f"at {at}")
            return
        if of in self.schema.structs:
            size, align = self.schema.structs[of]
            self.check(at % align == 0 and at + size <= end, where, f"at {at}")
            return
        self.check(at + 4 <= end, where, f"at {at}")
        target = at + self.get(at, "I", where)
        if of == "string":
            self.string(target, where)
        elif of in self.schema.tables:
            self.table(of, target, where)
        else:
            self.vector(of[1:-1], target, where)

    def string(self, at, where):
        end = at + 4 + self.get(at, "I", where)
        self.check(end < len(self.data), where, "leaves the buffer")
        self.check(self.data[end] == 0, where, "does not end with a NUL")
        try:
            self.data[at + 4 : end].decode()
        except UnicodeDecodeError:
            self.check(False, where, "is not UTF-8")

    def vector(self, of, at, where):
        count = self.get(at, "I", where)
        offsets = of == "string" or of in self.schema.tables
        size, align = (4, 4) if offsets else self.schema.element(of)
        self.check((at + 4) % align == 0, where, f"its elements at {at + 4} are not aligned to {align}")
        self.check(at + 4 + count * size <= len(self.data), where, "leaves the buffer")
        for i in range(count) if offsets else ():
            self.field(of, at + 4 + 4 * i, len(self.data), f"{where}[{i}]")


def verify(data, schema_path):
    """Raises NotStrict. `data` is aligned to 8, or to 64 in a shard: positions in it are positions in the file."""
    Verifier(data, Schema(schema_path)).run()
