"""Takes away one check of the second reader after the other: some vector has to notice.

A check is a call of check() or check_sum() in spec/read_dsckpt.py and spec/read_checkpoint.py. A mutant is noticed when a
vector that this check refuses is accepted, or refused by another check, or breaks the reader. Arguments: the folder spec, and the least share of mutants to be noticed in percent.
"""

import ast
import importlib.util
import json
import pathlib
import struct
import sys

sys.dont_write_bytecode = True
spec, least = pathlib.Path(sys.argv[1]), float(sys.argv[2])
sys.path.insert(0, str(spec))
try:
    import xxhash  # noqa: F401
except ImportError:
    print("skipped: this Python has no xxhash")
    sys.exit(77)

MODULES = ("read_dsckpt", "read_checkpoint")
# Checks that no file of these vectors can miss, each with its reason: (function, rule or text of the check).
REDUNDANT = {
    ("read", "no zstd module"): "that is of the machine, not of a file",
}


class Remover(ast.NodeTransformer):
    """Replaces the call with a number by None, and remembers where it was."""

    def __init__(self, number):
        self.number, self.seen, self.removed, self.function = number, -1, None, []

    def visit_FunctionDef(self, node):
        self.function.append(node.name)
        self.generic_visit(node)
        self.function.pop()
        return node

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in ("check", "check_sum") or self.function[-1:] == ["check_sum"]:
            return node
        self.seen += 1
        if self.seen != self.number:
            return node
        self.removed = (self.function[-1] if self.function else "", node.lineno, ast.unparse(node)[:110])
        return ast.copy_location(ast.Constant(None), node)


def load(changed=None, number=-1):
    """Both modules, one of them without a check. Returns what was removed."""
    removed = None
    for name in MODULES:
        path = spec / f"{name}.py"
        tree = ast.parse(path.read_text())
        if name == changed:
            remover = Remover(number)
            tree = ast.fix_missing_locations(remover.visit(tree))
            removed = remover.removed
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
        sys.modules[name] = module
        exec(compile(tree, str(path), "exec"), module.__dict__)
    return removed


def read(path):
    """Everything that the reader can say of a vector: strictly, sums of all items checked."""
    reader, checkpoint = (sys.modules[name] for name in MODULES)
    if path.is_dir():
        return checkpoint.read_checkpoint(path)
    if path.suffix == ".manifest":
        return checkpoint.read_manifest(path)
    shard = reader.Shard(path, strict=path.name.startswith(("v-header", "v-content")))
    for item in shard.tensors + shard.objects:
        if item["encoding"] in reader.ENCODINGS:
            shard.read(item)
    return reader.describe(shard)


def outcome(path):
    """Which check refuses the vector, else what breaks; None where it is read."""
    try:
        read(path)
    except sys.modules["read_dsckpt"].BadFile as error:
        return str(error)
    except Exception as error:
        return type(error).__name__
    return None


folders = spec / "conformance/invalid", spec / "conformance/valid"
paths = [path for folder in folders for path in sorted(folder.iterdir()) if path.suffix != ".json"]
load()
outcomes = [outcome(path) for path in paths]
missed, total = [], 0
for module in MODULES:
    number = 0
    while (removed := load(module, number)) is not None:
        number += 1
        total += 1
        function, line, text = removed
        if any(outcome(path) != expected for path, expected in zip(paths, outcomes)):
            continue
        if not any(function == where and rule in text for where, rule in REDUNDANT):
            missed.append(f"{module}.py:{line}: {text}")
share = 100 * (total - len(missed)) / total
print(f"{total} checks, {len(paths)} vectors: {share:.1f} % noticed")
print("\n".join(missed))
sys.exit(share < least)
