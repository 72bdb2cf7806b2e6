"""Boxes of distributed tensors, on meshes that need no processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from test_checkpoint import WHOLE, save_parts

import dsckpt
from dsckpt import dtensor


def fake_mesh(rank: int, shape: tuple[int, ...]) -> Any:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    size = int(np.prod(shape))
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    return init_device_mesh("cpu", shape)


def placements() -> dict[str, tuple[tuple[int, ...], list[Any], tuple[int, ...]]]:
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    return {
        "rows": ((4,), [Shard(0)], (8, 3)),
        "uneven": ((4,), [Shard(0)], (5, 3)),
        "fewer rows than ranks": ((4,), [Shard(0)], (3, 2)),
        "columns": ((4,), [Shard(1)], (2, 6)),
        "copies": ((4,), [Replicate()], (2, 2)),
        "copies of rows": ((2, 2), [Replicate(), Shard(0)], (5, 2)),
        "both dimensions": ((2, 2), [Shard(0), Shard(1)], (5, 3)),
        "one dimension twice": ((2, 2), [Shard(0), Shard(0)], (7, 2)),
        "fsdp over tensor parallel": (
            (2, 2),
            [_StridedShard(0, split_factor=2), Shard(0)],
            (8, 2),
        ),
    }


@pytest.mark.parametrize("name", placements())
def test_boxes_of_dtensors(name: str, tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    mesh_shape, split, shape = placements()[name]
    whole = torch.arange(float(np.prod(shape))).reshape(shape)
    for rank in range(int(np.prod(mesh_shape))):
        mesh = fake_mesh(rank, mesh_shape)
        try:
            size, offset = compute_local_shape_and_global_offset(shape, mesh, split)
            want = [(o, o + s) for o, s in zip(offset, size)]
            local = whole[tuple(slice(b, e) for b, e in want)].contiguous()
            tensor = DTensor.from_local(
                local, mesh, split, run_check=False, shape=whole.shape, stride=whole.stride()
            )
            box = dtensor.box(tensor)
            assert all(a == b or a[0] == a[1] for a, b in zip(box, want)), (rank, box, want)
            dsckpt.save({"a": {"w": tensor}}, tmp_path / f"{rank}")
            dist_free = dsckpt.load(tmp_path / f"{rank}")["a"]["w"]
            assert torch.equal(dist_free, local)
            piece = dsckpt.open(tmp_path / f"{rank}").native.pieces(0)[0]
            copies = any(p.is_replicate() for p in split)
            assert (piece.logical_name, tuple(piece.logical_shape), piece.replica_group) == (
                "a/w",
                shape,
                int(copies),
            )
            into = {
                "a": {
                    "w": DTensor.from_local(
                        torch.zeros_like(local),
                        mesh,
                        split,
                        run_check=False,
                        shape=whole.shape,
                        stride=whole.stride(),
                    )
                }
            }
            dsckpt.load_into(into, tmp_path / f"{rank}")
            assert torch.equal(into["a"]["w"].to_local(), local)
        finally:
            dist.destroy_process_group()


def test_partial_dtensors_are_refused(tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor, Partial

    mesh = fake_mesh(0, (2,))
    try:
        tensor = DTensor.from_local(torch.ones(2), mesh, [Partial()], run_check=False)
        with pytest.raises(dsckpt.DsckptError, match="partial sums"):
            dsckpt.save({"w": tensor}, tmp_path / "s")
    finally:
        dist.destroy_process_group()


def test_dtensors_get_their_box_of_what_other_ranks_wrote(tmp_path: Path) -> None:
    from torch.distributed.tensor import DTensor, Shard

    save_parts(tmp_path / "run", 2)
    for rank in range(4):
        mesh = fake_mesh(rank, (4,))
        try:
            begin, end = min(6, rank * 2), min(6, rank * 2 + 2)
            local = torch.zeros(end - begin, 4)
            tensor = DTensor.from_local(
                local, mesh, [Shard(0)], run_check=False, shape=WHOLE.shape, stride=(4, 1)
            )
            dsckpt.load_into({"w": tensor}, tmp_path / "run")
            assert torch.equal(local, WHOLE[begin:end])
        finally:
            dist.destroy_process_group()
