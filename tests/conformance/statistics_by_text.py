"""The statistics of the vector "statistics", computed from the text alone (spec/format.md, section 6.7): equal bit for bit.

Argument: the folder spec.
"""

import math
import pathlib
import struct
import sys

sys.dont_write_bytecode = True
spec = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(spec))
import read_dsckpt  # noqa: E402


def small_float(exponent_bits, fraction_bits, bias, kind):
    """The values of all codes of a float without blocks: IEEE 754 ("ieee"), or with NaN only where all bits are set ("fn")."""
    values = []
    for code in range(1 << (1 + exponent_bits + fraction_bits)):
        fraction, exponent = code & (1 << fraction_bits) - 1, code >> fraction_bits & (1 << exponent_bits) - 1
        sign = -1.0 if code >> (exponent_bits + fraction_bits) else 1.0
        top = exponent == (1 << exponent_bits) - 1
        if kind == "ieee" and top:
            value = math.nan if fraction else math.inf
        elif kind == "fn" and top and fraction == (1 << fraction_bits) - 1:
            value = math.nan
        else:
            value = math.ldexp(fraction + (1 << fraction_bits if exponent else 0), max(exponent, 1) - bias - fraction_bits)
        values.append(sign * value)
    return values


E8M0 = [2.0 ** (code - 127) for code in range(255)] + [math.nan]
BY_CODE = {"F8_E4M3": small_float(4, 3, 7, "fn"), "F8_E5M2": small_float(5, 2, 15, "ieee"), "F8_E8M0": E8M0}
FORMATS = {"F32": "f", "F64": "d", "F16": "e", "I8": "b", "U8": "B", "I32": "i", "U64": "Q"}


def elements(dtype, raw):
    """(element, its square) of each."""
    if dtype == "C64":
        parts = [(a, b) for a, b in struct.iter_unpack("<2f", raw)]
        for a, b in parts:
            if math.isnan(a) or math.isnan(b):
                yield math.nan, math.nan
            elif math.isinf(a) or math.isinf(b):
                yield math.inf, math.inf
            else:
                yield math.sqrt(a * a + b * b), a * a + b * b
        return
    if dtype == "BF16":
        values = [struct.unpack("<f", b"\0\0" + raw[i : i + 2])[0] for i in range(0, len(raw), 2)]
    elif dtype == "BOOL":
        values = [float(byte != 0) for byte in raw]
    elif dtype in BY_CODE:
        values = [BY_CODE[dtype][byte] for byte in raw]
    else:
        values = [float(value) for (value,) in struct.iter_unpack("<" + FORMATS[dtype], raw)]
    yield from ((value, value * value) for value in values)


def total(values):
    """The sum in the order of section 6.7; None stands for what is left out."""
    sums = []
    for begin in range(0, len(values), 4096):
        lanes = [0.0] * 16
        for i, value in enumerate(values[begin : begin + 4096]):
            if value is not None:
                lanes[i % 16] += value
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [lanes[k] + lanes[k + half] for k in range(half)]
        sums.append(lanes[0])
    while len(sums) > 1:
        sums = [sum(sums[i : i + 2][1:], sums[i]) for i in range(0, len(sums), 2)]
    return sums[0] if sums else 0.0


def expected(dtype, raw):
    pairs = list(elements(dtype, raw))
    finite = [(value, square) if math.isfinite(value) else None for value, square in pairs]
    kept = [pair[0] for pair in finite if pair]
    signed = lambda value: (value, math.copysign(1, value))
    said = {"nan": sum(math.isnan(value) for value, _ in pairs), "inf": sum(math.isinf(value) for value, _ in pairs),
            "zero": sum(value == 0 for value, _ in pairs),
            "min": min(kept, key=signed, default=None), "max": max(kept, key=signed, default=None)}
    sums = {key: total([pair and pair[i] for pair in finite]) for i, key in enumerate(("sum", "sum_squares"))}
    return said | {key: None if math.isnan(value) else read_dsckpt.number(value) for key, value in sums.items()}


shard = read_dsckpt.Shard(spec / "conformance/valid/statistics.dsckpt")
without, failures = [], []
for tensor in shard.tensors:
    if "statistics" not in tensor:
        without.append(tensor["name"])
        continue
    if tensor["encoding"] and read_dsckpt.zstd is None:
        continue
    wanted, found = expected(tensor["dtype"], shard.read(tensor)), tensor["statistics"]
    # repr: -0.0 and 0.0 are not the same.
    failures += [f"{tensor['name']}: {key}: expected {wanted[key]!r}, found {found[key]!r}" for key in wanted if repr(wanted[key]) != repr(found[key])]
if without != ["packed"]:
    failures.append(f"without statistics: {without}")
print("\n".join(failures) or f"{len(shard.tensors) - 1} tensors: equal")
sys.exit(bool(failures))
