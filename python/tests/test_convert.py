"""dsckpt.convert, from and to each of the formats but DeepSpeed's."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import load_file, save_file

import dsckpt
from dsckpt import models
from dsckpt.convert import command, convert

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


def sample() -> dict[str, Any]:
    tied = torch.arange(6.0).view(2, 3)
    return {
        "model": OrderedDict(w=tied, tied=tied, half=torch.ones(3, dtype=torch.bfloat16)),
        "optimizer": {0: {"step": torch.tensor(2.0), "m": torch.arange(4.0)}},
        "empty": torch.empty(0, 2),
        "step": 7,
        "betas": (0.9, 0.999),
    }


def assert_equal(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            assert_equal(found[key], expected[key])
    else:
        assert found == expected


@pytest.mark.parametrize("zipped", [True, False])
def test_torch_save(tmp_path: Path, zipped: bool) -> None:
    torch.save(sample(), tmp_path / "a.pt", _use_new_zipfile_serialization=zipped)
    assert convert(tmp_path / "a.pt", tmp_path / "a.dsckpt") == tmp_path / "a.dsckpt"
    found = dsckpt.load(tmp_path / "a.dsckpt")
    assert_equal(found, sample())
    assert found["model"]["w"] is found["model"]["tied"]


def test_torch_save_in_several_files(tmp_path: Path) -> None:
    parts = {"1.bin": {"a": torch.arange(3)}, "2.bin": {"b": torch.ones(2)}}
    for name, part in parts.items():
        torch.save(part, tmp_path / name)
    index = {"weight_map": {"a": "1.bin", "b": "2.bin"}}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    convert(tmp_path, tmp_path / "a.dsckpt")
    assert_equal(dsckpt.load(tmp_path / "a.dsckpt"), {**parts["1.bin"], **parts["2.bin"]})
    for bad in ({"weight_map": {"a": "../1.bin"}}, {"weight_map": 1}, []):
        (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(bad))
        with pytest.raises(dsckpt.DsckptError, match=r"no (file beside|index of files)"):
            convert(tmp_path, tmp_path / "b.dsckpt")


def test_classes_are_refused_unless_allowed(tmp_path: Path) -> None:
    state = {"f": Fraction(1, 2)}
    torch.save(state, tmp_path / "a.pt")
    with pytest.raises(dsckpt.PickleRefused, match=r"fractions\.Fraction") as refused:
        convert(tmp_path / "a.pt", tmp_path / "a.dsckpt")
    assert refused.value.classes == ("fractions.Fraction",)
    assert not (tmp_path / "a.dsckpt").exists()
    for allowed in (Fraction, "fractions.Fraction"):
        convert(tmp_path / "a.pt", tmp_path / "a.dsckpt", allow=[allowed], overwrite=True)
        assert dsckpt.load(tmp_path / "a.dsckpt", allow=[Fraction]) == state


def test_dcp_directory(tmp_path: Path) -> None:
    state = sample()
    dcp.save(state, checkpoint_id=tmp_path / "dcp")
    convert(tmp_path / "dcp", tmp_path / "a.dsckpt")
    found = dsckpt.load(tmp_path / "a.dsckpt")
    # DCP makes plain dicts with string keys of all mappings, and forgets what was tied.
    state["model"] = dict(state["model"])
    state["optimizer"] = {"0": state["optimizer"][0]}
    assert found.keys() == state.keys()
    assert_equal({key: found[key] for key in state}, state)
    assert sorted(os.listdir(tmp_path)) == ["a.dsckpt", "dcp"]


class Evil:
    def __reduce__(self) -> Any:
        return (eval, ("__import__('os').environ.__setitem__('DSCKPT_EVIL', '1')",))


def test_pickles_of_dcp_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSCKPT_EVIL", raising=False)
    dcp.save({"evil": Evil()}, checkpoint_id=tmp_path / "object")
    dcp.save({"t": torch.ones(1)}, checkpoint_id=tmp_path / "metadata")
    (tmp_path / "metadata" / ".metadata").write_bytes(pickle.dumps(Evil()))
    for name in ("object", "metadata"):
        with pytest.raises(dsckpt.PickleRefused, match="eval"):
            convert(tmp_path / name, tmp_path / "a.dsckpt")
        assert "DSCKPT_EVIL" not in os.environ
    assert sorted(os.listdir(tmp_path)) == ["metadata", "object"]


def test_safetensors_both_ways_in_any_number_of_files(tmp_path: Path) -> None:
    state = {"a": torch.arange(4), "b": torch.ones(2, dtype=torch.bfloat16)}
    save_file(state, tmp_path / "a.safetensors", {"format": "pt"})
    convert(tmp_path / "a.safetensors", tmp_path / "a.dsckpt")
    assert_equal(dsckpt.load(tmp_path / "a.dsckpt"), state)
    convert(tmp_path / "a.dsckpt", tmp_path / "split", max_shard_size=32)
    index = json.loads((tmp_path / "split" / "model.safetensors.index.json").read_text())
    files = set(index["weight_map"].values())
    assert len(files) == 2
    merged: dict[str, torch.Tensor] = {}
    for file in sorted(files):
        merged.update(load_file(tmp_path / "split" / file))
    assert_equal(merged, state)
    convert(tmp_path / "split", tmp_path / "back.dsckpt")
    assert_equal(dsckpt.load(tmp_path / "back.dsckpt"), state)
    with pytest.raises(dsckpt.DsckptError, match="overwrite=True"):
        convert(tmp_path / "split", tmp_path / "back.dsckpt")
    convert(tmp_path / "split", tmp_path / "back.dsckpt", overwrite=True)
    convert(tmp_path / "back.dsckpt", tmp_path / "back.safetensors")
    assert_equal(load_file(tmp_path / "back.safetensors"), state)


def test_a_checkpoint_of_dcp_writer(tmp_path: Path) -> None:
    from dsckpt.dcp import DcpWriter

    pool = dsckpt.AsyncWriter(pool_bytes=8 << 20)
    state = {"model": {"w": torch.arange(4.0)}, "step": 3}
    dcp.save(state, storage_writer=DcpWriter(tmp_path / "a", pool))
    convert(tmp_path / "a", tmp_path / "a.safetensors")
    assert_equal(load_file(tmp_path / "a.safetensors"), {"model.w": torch.arange(4.0)})


@pytest.mark.parametrize(
    ("make", "options", "words"),
    [
        ("nothing", {}, "No such file"),
        ("directory", {}, "no checkpoint that can be converted"),
        ("text", {}, "neither a dsckpt"),
        ("pt", {"format": "deepspeed"}, "cannot be converted to deepspeed"),
        ("pt", {"filter": "nothing"}, "no tensor has such a name"),
        ("damaged", {}, "cannot be read by torch.load"),
        ("existing", {}, "exists"),
    ],
)
def test_refusals(tmp_path: Path, make: str, options: dict[str, Any], words: str) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    if make == "directory":
        source.mkdir()
    elif make in ("pt", "existing"):
        torch.save({"t": torch.ones(1)}, source)
    elif make == "text":
        source.write_text("x" * 100)
    elif make == "damaged":
        source.write_bytes(b"PK\x03\x04 and nothing more")
    if make == "existing":
        target.write_text("keep")
    with pytest.raises(dsckpt.DsckptError, match=words):
        convert(source, target, **options)
    assert make != "existing" or target.read_text() == "keep"
    assert make == "existing" or not target.exists()


def test_the_command_takes_what_needs_python_and_leaves_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(sample(), tmp_path / "a.pt")
    target = tmp_path / "a.dsckpt"
    assert command.run([str(tmp_path / "a.pt"), "-o", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema": "dsckpt.convert/1",
        "output": str(target),
    }
    assert_equal(dsckpt.load(target), sample())
    assert command.run([str(tmp_path / "a.pt"), "-o", str(target)]) == 2
    assert "exists: give another destination, or --force" in capsys.readouterr().err
    # Refusals name the options of the command.
    torch.save({"f": Fraction(1, 3)}, tmp_path / "f.pt")
    arguments = [str(tmp_path / "f.pt"), "-o", str(tmp_path / "f.dsckpt")]
    assert command.run(arguments) == 2
    said = capsys.readouterr().err
    assert "--allow fractions.Fraction or --allow-pickle" in said
    assert command.run([*arguments, "--allow-pickle"]) == 0
    # Of directories this command knows more kinds than the program.
    (tmp_path / "nothing").mkdir()
    assert command.run([str(tmp_path / "nothing"), "-o", str(tmp_path / "b")]) == 2
    assert ".metadata (torch.distributed.checkpoint)" in capsys.readouterr().err
    # Not a traceback where there is no PyTorch.
    monkeypatch.setitem(sys.modules, "dsckpt.convert.torch_saved", None)
    assert command.run([str(tmp_path / "f.pt"), "-o", str(tmp_path / "b")]) == 2
    assert "takes PyTorch" in capsys.readouterr().err
    # The program's: dsckpt to safetensors, its help, and what is not there.
    assert command.run([str(target), "-o", str(tmp_path / "b")]) is None
    assert command.run(["--help"]) is None
    assert command.run([str(tmp_path / "none"), "-o", str(tmp_path / "b")]) is None


def training_state() -> dict[str, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def assert_loads(weights: dict[str, torch.Tensor], state: dict[str, Any]) -> None:
    """With the strictness of from_pretrained()."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4))
    model.load_state_dict(weights, strict=True)
    assert_equal(dict(model.state_dict()), dict(state["model"]))


def test_weights_of_a_run_for_stock_loaders(tmp_path: Path) -> None:
    state = training_state()
    with (
        dsckpt.AsyncWriter(4 << 20) as writer,
        dsckpt.Run(tmp_path / "run", writer) as run,
    ):
        run.save(7, state).durable()
    select: dict[str, Any] = {"filter": "model/*", "strip_prefix": "model/"}
    one = convert(tmp_path / "run", tmp_path / "model.safetensors", **select)
    assert_loads(load_file(one), state)
    done = dsckpt.merge(
        tmp_path / "run" / "step-0000000007",
        tmp_path / "hf",
        max_shard_size=64,
        format="safetensors",
        **select,
    )
    assert (done["tensors"], done["conflicting_metadata"]) == (4, [])
    index = json.loads((tmp_path / "hf" / "model.safetensors.index.json").read_text())
    weights: dict[str, torch.Tensor] = {}
    for file in set(index["weight_map"].values()):
        weights.update(load_file(tmp_path / "hf" / file))
    assert index["weight_map"].keys() == weights.keys()
    assert_loads(weights, state)
    assert_loads(dsckpt.load(tmp_path / "hf"), state)


@pytest.mark.parametrize("kind", ["pt", "dcp"])
def test_to_safetensors_in_one_step(tmp_path: Path, kind: str) -> None:
    state, source = training_state(), tmp_path / "source"
    if kind == "pt":
        torch.save(state, source)
    else:
        dcp.save(state, checkpoint_id=source)
    target = convert(source, tmp_path / "all.safetensors", format="safetensors")
    assert "model/0.weight" in load_file(target)
    select: dict[str, Any] = {"filter": ["model/*"], "strip_prefix": "model/"}
    target = convert(source, tmp_path / "w.safetensors", format="safetensors", **select)
    assert_loads(load_file(target), state)
    convert(source, tmp_path / "b.safetensors", format="safetensors", dtype="BF16", **select)
    found = load_file(tmp_path / "b.safetensors")
    assert_equal(found, {key: value.bfloat16() for key, value in sorted(state["model"].items())})
    convert(source, tmp_path / "hf", format="safetensors", max_shard_size=64, **select)
    assert_loads(dsckpt.load(tmp_path / "hf"), state)
    # Nothing is left of what was in between.
    assert sorted(os.listdir(tmp_path)) == [
        "all.safetensors",
        "b.safetensors",
        "hf",
        "source",
        "w.safetensors",
    ]


def test_models_as_hugging_face_tools_write_them(tmp_path: Path) -> None:
    weights = {"a": torch.arange(4), "b": torch.ones(2)}
    for number, name in enumerate(
        (
            "model.safetensors",
            "adapter_model.safetensors",
            "diffusion_pytorch_model.safetensors",
            "pytorch_model.bin",
            "adapter_model.bin",
        )
    ):
        model = tmp_path / str(number)
        model.mkdir()
        (model / "config.json").write_text("{}")
        if name.endswith(".bin"):
            torch.save(weights, model / name)
        else:
            save_file(weights, model / name, {"format": "pt", "made": "by"})
            assert_equal(dsckpt.load(model), weights)
        target = convert(model, tmp_path / f"{number}.dsckpt")
        assert_equal(dsckpt.load(target), weights)
        if name.endswith(".safetensors"):
            assert dsckpt.open(target).metadata["made"] == "by"
            with pytest.raises(dsckpt.DsckptError, match=name):
                dsckpt.open(model)
    split = tmp_path / "split"
    split.mkdir()
    for name, key in (("1.safetensors", "a"), ("2.safetensors", "b")):
        save_file({key: weights[key]}, split / name, {"format": "pt", "same": "s", "rank": name})
    index = split / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}))
    for path in (split, index):
        assert_equal(dsckpt.load(path), weights)
        assert dsckpt.verify(path)
        assert not dsckpt.verify(path).checksums
        assert dsckpt.inspect(path)["complete"]
        with pytest.warns(UserWarning, match=r"'rank', which is left out: '1.safetensors' in"):
            convert(path, tmp_path / "whole.dsckpt", overwrite=True)
        assert_equal(dsckpt.load(tmp_path / "whole.dsckpt"), weights)
        assert dsckpt.open(tmp_path / "whole.dsckpt").metadata["same"] == "s"
    (split / "2.safetensors").unlink()
    for act in (dsckpt.load, lambda path: convert(path, tmp_path / "never")):
        with pytest.raises(dsckpt.DsckptError, match=r"2\.safetensors") as caught:
            act(split)
        assert caught.value.code == "Incomplete"
    report = dsckpt.verify(split)
    assert not report
    assert "2.safetensors" in report.problems[0].found


def test_parts_of_torch_save_that_disagree(tmp_path: Path) -> None:
    torch.save({"a": torch.ones(1), "b": torch.ones(1)}, tmp_path / "1.bin")
    torch.save({"b": torch.zeros(1)}, tmp_path / "2.bin")
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "1.bin", "b": "2.bin"}}))
    with pytest.raises(dsckpt.DsckptError, match="in another file") as caught:
        convert(tmp_path, tmp_path / "out")
    assert caught.value.code == "Mismatch"
    index.write_text(json.dumps({"weight_map": {"a": "1.bin", "c": "1.bin"}}))
    with pytest.raises(dsckpt.DsckptError, match=r"'c' is in 1\.bin, which lacks it"):
        convert(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_bases_of_models_are_those_of_the_program() -> None:
    text = (Path(__file__).parents[2] / "merge" / "model_index.h").read_text()
    table = re.search(r"kModelBases = \{(.*?)\};", text, re.DOTALL)
    assert table is not None
    assert tuple(re.findall(r'"([^"]*)"', table[1])) == models.BASES


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"weight_map": {}}', "NotCheckpoint"),
        ('{"weight_map": {"a": 1}}', "NotCheckpoint"),
        ('{"weight_map": {"a": "\\ud800"}}', "NotCheckpoint"),
        ("[" * 100000, "NotCheckpoint"),
        ('{"weight_map": {"a": "1\\u0000.safetensors"}}', "Corrupt"),
        ('{"weight_map": {"a": "2.safetensors", "b": "2.safetensors"}}', "Incomplete"),
        ('{"weight_map": {"a": "2.safetensors", "b": "1.safetensors"}}', "Incomplete"),
        ('\ufeff{"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}', None),
    ],
)
def test_indexes_are_read_as_strictly_as_by_the_program(
    tmp_path: Path, text: str, code: str | None
) -> None:
    for name in "ab":
        save_file({name: torch.ones(1)}, tmp_path / f"{1 + 'ab'.index(name)}.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(text, encoding="utf-8")
    for read in (dsckpt.load, dsckpt.inspect):
        if code is None:
            read(index)
        else:
            with pytest.raises(dsckpt.DsckptError) as caught:
                read(index)
            assert caught.value.code == code


def test_the_command_selects_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = training_state()
    torch.save(state, tmp_path / "a.pt")
    arguments = [str(tmp_path / "a.pt"), "-o", str(tmp_path / "w"), "--format", "safetensors"]
    chosen = ["--filter", "model/*", "--strip-prefix", "model/"]
    assert command.run([*arguments, *chosen]) == 0
    assert_loads(load_file(tmp_path / "w"), state)
    assert command.run([*arguments, *chosen]) == 2
    assert "or --force" in capsys.readouterr().err
    assert command.run([*arguments, *chosen, "--force", "--dtype", "F16"]) == 0
    assert load_file(tmp_path / "w")["0.weight"].dtype == torch.float16


def test_what_runs_code_cannot_be_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSCKPT_EVIL", raising=False)
    torch.save({"evil": Evil()}, tmp_path / "a.pt")
    with pytest.raises(dsckpt.PickleRefused, match="No allow=") as refused:
        convert(tmp_path / "a.pt", tmp_path / "a.dsckpt")
    assert (refused.value.classes, refused.value.never) == ((), ("builtins.eval",))
    for allowed in ("builtins.eval", eval):
        with pytest.raises(dsckpt.DsckptError, match="allow takes classes of data only"):
            convert(tmp_path / "a.pt", tmp_path / "a.dsckpt", allow=[allowed])  # type: ignore[list-item]
    assert "DSCKPT_EVIL" not in os.environ
