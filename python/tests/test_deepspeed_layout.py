"""Which whole tensors DeepSpeed's flat buffers are parts of, and what they are called."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dsckpt.deepspeed.consolidate import _Weights
from dsckpt.deepspeed.layout import Fragment, Layout
from dsckpt.deepspeed.pieces import Names
from dsckpt.deepspeed.stored_layout import layouts

torch = pytest.importorskip("torch")


def rows(names: Names, path: list[Any], shape: tuple[int, ...]) -> list[tuple[Any, ...]]:
    """Pieces as tuples."""
    return [
        (p.logical_name, p.logical_shape, p.box, p.flat, p.element_offset)
        for p in names.pieces(path, shape, "F32")
    ]


FLAT = Layout(
    stage=2,
    groups=(
        (
            Fragment(("a", "tied"), (3, 2), 4, 2, 0),
            Fragment(("b",), (5,), 0, 5, 2),
        ),
    ),
    sizes=(8,),
    scopes=("",),
)


@pytest.mark.parametrize(
    ("path", "shape", "expected"),
    [
        (
            ["optimizer_state_dict", "single_partition_of_fp32_groups", 0],
            (7,),
            [
                ("fp32/a", [3, 2], None, (4, 6), 0),
                ("fp32/tied", [3, 2], None, (4, 6), 0),
                ("fp32/b", [5], None, (0, 5), 2),
            ],
        ),
        (
            ["optimizer_state_dict", "base_optimizer_state", "state", 0, "exp_avg"],
            (8,),
            [("exp_avg/a", [3, 2], None, (4, 6), 0), ("exp_avg/b", [5], None, (0, 5), 2)],
        ),
        (  # Not a buffer: a number for each group.
            ["optimizer_state_dict", "base_optimizer_state", "state", 0, "step"],
            (),
            [("FILE/optimizer_state_dict/base_optimizer_state/state/0/step", [], [], None, 0)],
        ),
        (  # A buffer of another size than the live one.
            ["optimizer_state_dict", "single_partition_of_fp32_groups", 0],
            (9,),
            [
                (
                    "FILE/optimizer_state_dict/single_partition_of_fp32_groups/0",
                    [9],
                    [(0, 9)],
                    None,
                    0,
                )
            ],
        ),
    ],
)
def test_names_of_what_flat_buffers_hold(
    path: list[Any], shape: tuple[int, ...], expected: list[Any]
) -> None:
    file = "zero_pp_rank_0_mp_rank_00_optim_states"
    wanted = [(row[0].replace("FILE", file), *row[1:]) for row in expected]
    assert rows(Names(file + ".pt", FLAT), path, shape) == wanted


@pytest.mark.parametrize(
    ("file", "path", "shape", "stage", "expected"),
    [
        ("mp_rank_00_model_states.pt", ["module", "w"], (2,), 2, None),
        ("zero_pp_rank_0_mp_rank_00_model_states.pt", ["module", "mean"], (2,), 3, None),
        ("zero_pp_rank_0_mp_rank_00_model_states.pt", ["module", "w"], (0,), 3, "empty/F32/0"),
        (
            "zero_pp_rank_1_mp_rank_00_model_states.pt",
            ["module", "mean"],
            (2,),
            3,
            "zero_pp_rank_1_mp_rank_00_model_states/module/mean",
        ),
        ("layer_03-model_00-model_states.pt", ["weight"], (2,), 1, "module/3.weight"),
        ("layer_03-model_states.pt", ["weight"], (2,), 1, "module/3.weight"),
    ],
)
def test_names_of_whole_tensors(
    file: str, path: list[Any], shape: tuple[int, ...], stage: int, expected: str | None
) -> None:
    found = rows(Names(file, Layout(stage)), path, shape)
    assert [row[0] for row in found] == ([] if expected is None else [expected])


def test_layout_of_stored_flat_groups_skips_paddings() -> None:
    """Two ranks, buffers of 6: a has 4 elements and 1 of padding behind it, b has 5."""
    buffers = [torch.zeros(6), torch.zeros(4)]
    model = {
        "param_shapes": [{"a": torch.Size([2, 2]), "b": torch.Size([5])}],
        "shared_params": {"c": "a"},
    }
    states: dict[str, Any] = {"mp_rank_00_model_states.pt": model}
    for rank, buffer in enumerate(buffers):
        states[f"zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"] = {
            "optimizer_state_dict": {
                "zero_stage": 2,
                "single_partition_of_fp32_groups": [buffer],
                "param_alignment_paddings": [[1, 0]],
                "group_paddings": [6 - buffer.numel()],
            }
        }
    found = layouts(states)
    first = found["zero_pp_rank_0_mp_rank_00_optim_states.pt"].groups
    second = found["zero_pp_rank_1_mp_rank_00_optim_states.pt"].groups
    assert first == ((Fragment(("a", "c"), (2, 2), 0, 4, 0), Fragment(("b",), (5,), 0, 1, 5)),)
    assert second == ((Fragment(("b",), (5,), 1, 4, 0),),)


def test_a_frozen_layer_is_no_tied_one() -> None:
    tied = torch.tensor([1.5, float("nan")])
    stored = {
        "fp32/tied_modules.embed.weight": tied,
        "fp32/tied_modules.embed.bias": torch.ones(2),
        "fp32/1.weight": torch.ones(2),
        "module/0.weight": tied.bfloat16(),
        "module/0.bias": torch.zeros(2),  # Only the weight is tied.
        "module/0.buffer": torch.zeros(2),
        "module/1.weight": torch.ones(2).bfloat16(),
        "module/1.bias": torch.ones(2),  # Frozen.
        "module/2.weight": torch.tensor([3.0, 4.0]).bfloat16(),
        "module/3.weight": torch.ones(3),
        "module/4.bias": torch.zeros(2),
    }
    weights = object.__new__(_Weights)
    weights._whole = SimpleNamespace(tensors=stored, read=stored.__getitem__)  # type: ignore[assignment]
    owned = ["tied_modules.embed.weight", "tied_modules.embed.bias", "1.weight"]
    frozen = ["0.buffer", "1.bias", "2.weight", "3.weight", "4.bias"]
    assert weights._of_layers() == owned + frozen
