"""What the commands print with --json is what spec/json says: nothing missing, nothing more.

Arguments: the folder spec, and the program dsckpt.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError:
    print("skipped: this Python has no jsonschema")
    sys.exit(77)

spec, program = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
valid, invalid = spec / "conformance/valid", spec / "conformance/invalid"
schemas = {path.stem: json.loads(path.read_text()) for path in sorted((spec / "json").glob("*.json"))}
failures, seen = [], set()


def closed(schema):
    """The same schema, in which an object has no members but those described: readers may meet more, tests may not."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(value) for key, value in schema.items()}
    return out | ({"additionalProperties": False} if isinstance(out.get("properties"), dict) and "type" in out else {})


def check(*arguments):
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True)
    try:
        printed = json.loads(done.stdout)
        name = printed["schema"].removeprefix("dsckpt.").partition("/")[0]
        seen.add(name)
        jsonschema.validate(printed, closed(schemas[name]))
    except (ValueError, KeyError, jsonschema.ValidationError) as error:
        failures.append(f"{' '.join(map(str, arguments))}: {str(error)[:400]}\n{done.stderr[:200]}")


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    run = folder / "run"
    shutil.copytree(valid / "sharded", run / "step-1000")
    shutil.copytree(valid / "later-sharded", run / "step-7")
    (run / "step-9.incomplete-1").mkdir()
    for path in sorted(valid.glob("*.dsckpt")):
        check("inspect", path)
        check("inspect", "--tree", path)
        check("verify", path)
        check("hash", path)
        check("stats", path)
        check("diff", path, valid / "example.dsckpt", "--show", "3")
    for path in sorted(path for path in valid.iterdir() if path.is_dir()):
        check("inspect", path)
        check("verify", path)
    for name in ("v-gap", "v-copies", "s1-missing"):
        check("verify", invalid / name)
        check("inspect", invalid / name)
    for path in [*sorted(invalid.glob("v-*.dsckpt")), *sorted(invalid.glob("f1-*.dsckpt"))]:
        check("verify", path)
        check("inspect", path)
    check("stats", valid / "sharded", "--by", "all")
    check("stats", valid / "sharded", "--quantiles", "0.5,1")
    check("stats", valid / "sharded", "--hist", "log2")
    check("hash", "--duplicates", valid / "example.dsckpt", valid / "example.dsckpt")
    check("diff", run, valid / "sharded", "--all")
    check("diff", run, valid / "sharded", "--all", "--by", "all")
    check("diff", valid / "example.dsckpt", valid / "example.dsckpt", "--summary", "--rtol", "1e-3")
    check("ls", run)
    check("ls", run, "--attr", "step", "--attr", "none")
    check("ls", run, "--digest", "--time")
    check("trace", "--quick", run)
    check("trace", "--quick", valid / "example.dsckpt")
    check("gram", valid / "example.dsckpt")
    check("gram", run, "--by", "tensor")
    check("report", run, "-o", folder / "r.html")
    check("trace", run)
    for path in sorted(valid.glob("*.dsckpt")):
        check("trace", path, "--by", "layer", "--against", "init")
    check("average", valid / "example.dsckpt", "-o", folder / "average.dsckpt")
    check("average", "--lerp", valid / "example.dsckpt", valid / "example.dsckpt", "--alpha", "0:1:0.5", "-o", folder / "a.dsckpt")
    check("inspect", run)
    check("rollback", run, "step-7")
    check("export", valid / "example.dsckpt", "-o", folder / "e.safetensors")
    check("extract", valid / "example.dsckpt", "model/bias[1:]", "-o", folder / "w.npy")
    check("edit", valid / "example.dsckpt", "-o", folder / "edited.dsckpt", "--set", "step=3")
    check("import", folder / "e.safetensors", "-o", folder / "e.dsckpt")
    check("inspect", folder / "e.safetensors")
    check("verify", folder / "e.safetensors")
    check("merge", "--dry-run", valid / "sharded", "-o", folder / "m.dsckpt")
    check("merge", valid / "example.dsckpt", valid / "mixed.dsckpt", "-o", folder / "m.dsckpt")
    check("merge", valid / "sharded", "-o", folder / "m", "--shards", "2")
    check("merge", invalid / "v-gap", "-o", folder / "gap.dsckpt")
    digests = subprocess.run([program, "hash", valid / "example.dsckpt"], capture_output=True, text=True, check=True).stdout
    (folder / "digests").write_text(digests)
    check("hash", "--check", folder / "digests")
    check("inspect", folder / "nowhere")

unseen = schemas.keys() - seen
if unseen:
    failures.append(f"no command here prints {sorted(unseen)}")
print("\n".join(failures[:20]) or f"{len(seen)} schemas hold")
sys.exit(bool(failures))
