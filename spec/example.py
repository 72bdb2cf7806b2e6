#!/usr/bin/env python3
"""Keeps "Worked example" in format.md in step with conformance/valid/example.dsckpt.

example.py --check compares, and exits with 1 when they differ; example.py --update writes the section.
"""

import pathlib
import struct
import sys

sys.dont_write_bytecode = True
SPEC = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SPEC))
from read_dsckpt import FOOTER, Shard, Table  # noqa: E402

BEGIN, END = "<!-- example:begin (written by spec/example.py --update) -->\n", "<!-- example:end -->"
FOOTER_FIELDS = [("file_bytes", "Q"), ("D", "Q"), ("L", "Q"), ("index_offset", "Q"), ("index_bytes", "Q"),
                 ("index_xxh3_64", "Q"), ("header_xxh3_64", "Q"), ("version_major", "H"), ("version_minor", "H"),
                 ("footer_bytes", "I"), ("must_understand", "Q"), ("compatible", "Q"), ("reserved", "32s"),
                 ("footer_xxh3_64", "Q"), ("magic", "8s")]
PAYLOAD = [("offset", "Q"), ("raw_bytes", "Q"), ("stored_bytes", "Q"), ("encoding", "B"), ("chunk_end", "I"),
           ("stored_chunk_end", "I")]
NAMES = [("bytes", "s"), ("ends", "I")]


def dump(data, begin, end):
    """Lines of 16 bytes; lines of zeros, and of spaces, are left out."""
    lines, skipped = [], False
    for at in range(begin - begin % 16, end, 16):
        row = data[max(at, begin) : min(at + 16, end)]
        if not row.strip(b"\0") or not row.strip(b" "):
            skipped = True
            continue
        if skipped and lines:
            lines.append("...")
        skipped = False
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{max(at, begin):08x}  {' '.join(f'{byte:02x}' for byte in row):<47}  {text}".rstrip())
    return ["```", *lines, "```"]


def show(code, values):
    if code == "s":
        return f"`{values.decode()}`"
    if code == "QQ":
        return ", ".join(f"`{high:016x}{low:016x}`" for low, high in values)
    return ", ".join("(" + ", ".join(map(str, v)) + ")" if isinstance(v, tuple) else str(v) for v in values) or "(empty)"


def columns(shard):
    """Each vector of the index: where its elements begin in the file, and what they are."""
    index = shard.data[shard.index_offset : shard.index_offset + shard.index_bytes]
    root = Table(index, struct.unpack_from("<I", index)[0])
    tensors, aliases, objects, tree, attributes = (root.table(i) for i in (3, 4, 5, 9, 10))
    tree_fields = [("nodes", "BBHIQQ"), ("heap", "s")]
    parts = [("", root, 1, [("dtypes", "HHII")]), ("tensors.names.", tensors.table(0), 0, NAMES),
             ("tensors.", tensors, 1, [("dtype", "B"), ("dim_end", "I"), ("dims", "q")]),
             ("tensors.payload.", tensors.table(4), 0, PAYLOAD), ("aliases.names.", aliases.table(0), 0, NAMES),
             ("aliases.", aliases, 1, [("target", "I")]), ("objects.names.", objects.table(0), 0, NAMES),
             ("objects.", objects, 1, [("media_type", "B")]), ("objects.payload.", objects.table(2), 0, PAYLOAD),
             ("", root, 6, [("chunk_sums", "QQ"), ("stored_chunks", "QII")]), ("tree.", tree, 0, tree_fields),
             ("attributes.", attributes, 0, tree_fields)]
    for prefix, table, first, fields in parts:
        for field, (name, code) in enumerate(fields, first):
            where = table.where(field)
            at = shard.index_offset + where + table.get(where, "I") + 4
            yield f"| `{prefix}{name}` | 0x{at:x} | {show(code, table.vector(field, code))} |"


def section(shard):
    data, at = shard.data, shard.index_offset + shard.index_bytes
    items = sorted(shard.tensors + shard.objects, key=lambda item: (item["offset"], item["name"]))
    out = [f"`{len(data)}` bytes. The header region, `[0, {shard.D})`:", "", *dump(data, 0, shard.D), "",
           f"Items: listed tensors in `[{shard.D}, {shard.L})`, then the log.", "", "| item | offset | bytes |",
           "| --- | --- | --- |"]
    out += [f"| `{item['name']}` | {item['offset']} = 0x{item['offset']:x} | {item['bytes']} |" for item in items]
    out += ["", *dump(data, shard.D, shard.index_offset), "", f"The index, `[{shard.index_offset}, {at})`. Its columns:", "",
            "| column | at | elements |", "| --- | --- | --- |", *columns(shard), "", *dump(data, shard.index_offset, at), "",
            "The footer:", "", "| field | at | value |", "| --- | --- | --- |"]
    for name, code in FOOTER_FIELDS:
        (value,) = struct.unpack_from("<" + code, data, at)
        text = value.hex(" ") if isinstance(value, bytes) else f"{value:016x}" if "xxh3" in name else str(value)
        out.append(f"| {name} | 0x{at:x} | {'zeros' if name == 'reserved' else text} |")
        at += struct.calcsize("<" + code)
    return "\n".join([*out, "", *dump(data, len(data) - FOOTER, len(data))]) + "\n"


def main():
    text = (SPEC / "format.md").read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    wanted = section(Shard(SPEC / "conformance/valid/example.dsckpt"))
    if sys.argv[1:] == ["--update"]:
        (SPEC / "format.md").write_text(text[:begin] + wanted + text[end:])
    elif sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    elif text[begin:end] != wanted:
        sys.exit("spec/format.md, 'Worked example', is not the example file's: run spec/example.py --update")


if __name__ == "__main__":
    main()
