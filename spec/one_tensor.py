"""Reads one tensor of a shard with NumPy alone: `one_tensor.py FILE NAME`. docs/how-to/read-one-tensor.md explains each line."""

import struct
import sys

import numpy as np

NUMPY = {2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<u4", 7: "<i4", 8: "<u8", 9: "<i8", 10: "<f2", 12: "<f4", 13: "<f8", 14: "<c8"}


def read(path, name):
    data = np.memmap(path, mode="r")
    footer = bytes(data[-128:])  # Section 5.
    index_offset, index_bytes, major, must = struct.unpack_from("<24x2Q16xH6xQ", footer)
    if footer[120:] != b"\x89DSC\r\n\x1a\n" or major != 1 or must != 0:
        raise ValueError(f"{path}: no shard, or one that needs a newer reader")
    index = bytes(data[index_offset : index_offset + index_bytes])  # Section 6, appendix A.

    def get(code, at):
        return struct.unpack_from("<" + code, index, at)[0]

    def child(table, field):  # Where the table or vector of a field begins.
        at = table + get("H", table - get("i", table) + 4 + 2 * field)
        return at + get("I", at)

    def column(table, field, code):
        at = child(table, field)
        return np.frombuffer(index, code, get("I", at), at + 4)

    root = get("I", 0)
    tensors = child(root, 3)
    names, payload = child(tensors, 0), child(tensors, 4)
    heap, ends = column(names, 0, "u1").tobytes(), [0, *column(names, 1, "<u4")]
    i = [heap[a:b] for a, b in zip(ends, ends[1:])].index(name.encode())
    if column(payload, 3, "u1")[i] != 0:
        raise ValueError(f"{name} is compressed: see section 7")
    code = column(root, 1, "<u2,<u2,<u4,<u4")[column(tensors, 1, "u1")[i]][0]
    dim_ends = [0, *column(tensors, 2, "<u4")]
    shape = column(tensors, 3, "<i8")[dim_ends[i] : dim_ends[i + 1]]
    begin, size = column(payload, 0, "<u8")[i], column(payload, 1, "<u8")[i]
    elements = data[int(begin) : int(begin) + int(size)]
    return elements.view(NUMPY[code]).reshape(shape) if code in NUMPY else elements


if __name__ == "__main__":
    print(read(sys.argv[1], sys.argv[2]))
