"""A reader of format 1.0, frozen as it was (reader_1_0), reads what later versions write, less what they add.

Argument: the folder spec.
"""

import json
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).with_name("reader_1_0")))
import read_dsckpt  # noqa: E402

valid = pathlib.Path(sys.argv[1]) / "conformance/valid"
# What 1.1 added to the JSON of a shard, and vectors that 1.0 refuses as it has to, each with the rule.
ADDED = {"content", "vendor"}
ADDED_TO_TENSORS = {"statistics"}
REFUSED = {"other-hash": "X3", "other-hash-32-bytes": "X3", "other-hash-sharded": "X3",
           "sharded-parts": "M5"}
failures = []


def without_additions(said):
    tensors = said.get("tensors", [])
    for tensor in tensors if isinstance(tensors, list) else []:
        for key in ADDED_TO_TENSORS:
            tensor.pop(key, None)
        if read_dsckpt.xxhash is None:
            tensor["digest"] = None
    for item in said.get("objects", []) if read_dsckpt.xxhash is None else []:
        item["digest"] = None
    return {key: value for key, value in said.items() if key not in ADDED}


def compare(path):
    expected = without_additions(json.loads(path.with_suffix(".json").read_text()))
    found = without_additions(json.loads(json.dumps(read_dsckpt.read_any(path))))
    return None if found == expected else "another value"


for path in sorted(valid.iterdir()):
    if path.suffix == ".json" or (path.is_dir() and not (path / "dsckpt.manifest").exists()):
        continue
    rule = REFUSED.get(path.stem)
    try:
        problem = compare(path)
    except read_dsckpt.BadFile as error:
        problem = None if rule and f"rule {rule}" in str(error) else f"refused: {error}"
    else:
        problem = problem or (rule and "is accepted")
    if problem:
        failures.append(f"{path.name}: {problem}")
print("\n".join(failures) or "the reader of 1.0 reads all of them")
sys.exit(bool(failures))
