"""Writes FlatBuffers in any of the layouts that the format allows (spec/format.md, appendix A): a random one each time.

Where objects stand, in which order fields lie, where padding is: readers must not care. Standard library only.
"""

import struct


def width(code):
    """Bytes that an element's largest member takes: what it is aligned to."""
    return max(struct.calcsize("<" + member) for member in code)


class Writer:
    """`table` takes the fields in the order of the schema; an absent one is None. A field is

    - ("B", 7): a scalar, with its code as in the module struct; ("QQ", (1, 2)): a struct;
    - ("table", [field, ...]);
    - ("vector", "QII", rows): structs, or scalars where the code has one letter;
    - ("bytes", b"..."), ("strings", [b"...", ...]), ("tables", [[field, ...], ...]).
    """

    def __init__(self, rng, identifier, align_empty=True):
        self.rng, self.align_empty = rng, align_empty
        self.data = bytearray(struct.pack("<I4s", 0, identifier))
        self.vtables = {}

    def finish(self, root):
        struct.pack_into("<I", self.data, 0, self.table(root))
        self.pad(8)
        return bytes(self.data)

    def pad(self, align, before=0):
        """Zeros, so that what stands `before` bytes further on is aligned; now and then more than it takes."""
        self.data += bytes(-(len(self.data) + before) % align)
        if self.rng.random() < 0.05:
            self.data += bytes(align * self.rng.randrange(1, 4))

    def table(self, fields):
        present = [i for i, field in enumerate(fields) if field is not None]
        self.rng.shuffle(present)
        inline = {i for i in present if fields[i][0].isupper() or len(fields[i][0]) == 1}
        sizes = {i: struct.calcsize("<" + fields[i][0]) if i in inline else 4 for i in present}
        begin_at_8, offsets, end = 4 * self.rng.randrange(2), [0] * len(fields), 4
        for i in present:
            end += -(begin_at_8 + end) % (width(fields[i][0]) if i in inline else 4)
            offsets[i], end = end, end + sizes[i]
        while offsets and offsets[-1] == 0 and self.rng.random() < 0.8:
            offsets.pop()
        vtable = struct.pack(f"<HH{len(offsets)}H", 4 + 2 * len(offsets), end, *offsets)
        after = self.rng.random() < 0.3
        at = self.vtables.get(vtable) if self.rng.random() < 0.7 else None
        if at is None and not after:
            at = self.vtable(vtable)
        self.pad(8, -begin_at_8)
        begin = len(self.data)
        self.data += bytes(end)
        if at is None:
            at = self.vtable(vtable)
        struct.pack_into("<i", self.data, begin, begin - at)
        for i in present:
            if i in inline:
                values = fields[i][1] if len(fields[i][0]) > 1 else fields[i][1:]
                struct.pack_into("<" + fields[i][0], self.data, begin + offsets[i], *values)
        for i in sorted(present, key=lambda _: self.rng.random()):
            if i not in inline:
                place = begin + offsets[i]
                struct.pack_into("<I", self.data, place, getattr(self, fields[i][0])(*fields[i][1:]) - place)
        return begin

    def vtable(self, vtable):
        self.pad(2)
        self.vtables[vtable] = len(self.data)
        self.data += vtable
        return self.vtables[vtable]

    def vector(self, code, rows):
        align = 4 if not rows and not self.align_empty else max(4, width(code))
        self.pad(align, 4)
        at = len(self.data)
        self.data += struct.pack("<I", len(rows))
        pack = struct.Struct("<" + code).pack
        for row in rows:
            self.data += pack(*row) if len(code) > 1 else pack(row)
        return at

    def bytes(self, content):
        self.pad(4)
        at = len(self.data)
        self.data += struct.pack("<I", len(content)) + content
        return at

    def string(self, text):
        at = self.bytes(text)
        self.data += b"\0"
        return at

    def strings(self, texts):
        return self.each(self.string, texts)

    def tables(self, tables):
        return self.each(self.table, tables)

    def each(self, write, contents):
        at = self.vector("I", [0] * len(contents))
        for i, content in enumerate(contents):
            place = at + 4 + 4 * i
            struct.pack_into("<I", self.data, place, write(content) - place)
        return at
