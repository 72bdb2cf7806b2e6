"""The layout of flat buffers, from what DeepSpeed's own files say of it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .layout import Fragment, Layout

_OPTIMIZER = re.compile(r"(?:bf16_)?zero_pp_rank_(\d+)_mp_rank_(\d+)_optim_states\.pt")
_LAYER = re.compile(r"layer_\d+(?:-model_(\d+))?-model_states\.pt")
_MODEL = re.compile(r"(?:zero_pp_rank_(\d+)_)?mp_rank_(\d+)_model_states\.pt")


def layouts(states: Mapping[str, Any]) -> dict[str, Layout]:
    """What the files of one checkpoint hold, by file name.

    Args:
        states: The loaded files by name.

    Returns:
        A layout for every file; an empty one where it cannot be told (experts).
    """
    return {name: _layout(name, states, _slices(states)) for name in states}


def _slices(states: Mapping[str, Any]) -> int:
    """Over how many ranks weights are sliced. Stages of a pipeline are numbered like slices."""
    layers = {m[1] for m in map(_LAYER.fullmatch, states) if m}
    models = {m[2] for m in map(_MODEL.fullmatch, states) if m}
    return len(layers or models)


def _layout(name: str, states: Mapping[str, Any], slices: int) -> Layout:
    layer = _LAYER.fullmatch(name)
    if layer is not None:
        return Layout(scope=_scope(int(layer[1] or 0), slices))
    match = _OPTIMIZER.fullmatch(name) or _MODEL.fullmatch(name)
    if match is None:
        return Layout()
    rank, slice_ = int(match[1] or 0), int(match[2])
    model = states.get(f"mp_rank_{slice_:02d}_model_states.pt")
    model = model or states.get(f"zero_pp_rank_{rank}_mp_rank_{slice_:02d}_model_states.pt")
    ranks = sum(1 for m in map(_OPTIMIZER.fullmatch, states) if m and int(m[2]) == slice_)
    scope = _scope(slice_, slices)
    if not isinstance(model, dict) or model.get("param_shapes") is None or "num_experts" in model:
        return Layout(scope=scope)
    tied = _tied(states)
    if not _OPTIMIZER.fullmatch(name):
        return _of_model(model, name, rank, ranks, scope, tied)
    optimizer = states[name]["optimizer_state_dict"]
    stage = int(optimizer.get("zero_stage", 1))
    make = _stage3 if stage == 3 else _flat
    groups, sizes = make(model["param_shapes"], optimizer, rank, ranks, tied)
    return Layout(stage, groups, sizes, {}, (scope,) * len(groups), scope)


def _scope(slice_: int, slices: int) -> str:
    return f"mp_rank_{slice_ % slices:02d}/" if slices > 1 else ""


def _of_model(
    model: Mapping[str, Any],
    name: str,
    rank: int,
    ranks: int,
    scope: str,
    tied: Mapping[str, tuple[str, ...]],
) -> Layout:
    if not name.startswith("zero_pp_rank"):
        return Layout(scope=scope)
    frozen = {}
    for parameter, shape in (model.get("frozen_param_shapes") or {}).items():
        fragment = _partition(parameter, shape, rank, ranks, 0, tied)
        if fragment is not None:
            frozen[parameter] = fragment
    return Layout(3, frozen=frozen, scope=scope)


def _tied(states: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """All names of parameters that have several. Only the first rank lists them."""
    names: dict[str, tuple[str, ...]] = {}
    for state in states.values():
        shared = state.get("shared_params") if isinstance(state, dict) else None
        for other, owner in (shared or {}).items():
            known = names.get(owner, (owner,))
            names[owner] = known if other in known else (*known, other)
    return names


Groups = tuple[tuple[tuple[Fragment, ...], ...], tuple[int, ...]]


def _flat(
    shapes: Sequence[Mapping[str, Any]],
    optimizer: Mapping[str, Any],
    rank: int,
    ranks: int,
    tied: Mapping[str, tuple[str, ...]],
) -> Groups:
    """ZeRO 1 and 2: the parameters of a group one after another, cut into equal stretches."""
    groups, sizes = [], []
    gaps = optimizer.get("param_alignment_paddings") or [[0] * len(group) for group in shapes]
    paddings = optimizer.get("group_paddings") or [0] * len(shapes)
    for index, group in enumerate(shapes):
        buffer = optimizer["single_partition_of_fp32_groups"][index]
        # Buffers of bf16 without ZeRO keep their padding.
        padding = 0 if optimizer.get("zero_stage") is None else int(paddings[index])
        size = buffer.numel() + padding
        begin, position, fragments = rank * size, 0, []
        for (name, shape), gap in zip(group.items(), gaps[index]):
            count = math.prod(shape)
            first, last = max(position, begin), min(position + count, begin + size)
            if first < last:
                names = tied.get(name, (name,))
                fragments.append(
                    Fragment(names, tuple(shape), first - position, last - first, first - begin)
                )
            position += count + gap
        groups.append(tuple(fragments))
        sizes.append(size)
    return tuple(groups), tuple(sizes)


def _stage3(
    shapes: Sequence[Mapping[str, Any]],
    optimizer: Mapping[str, Any],
    rank: int,
    ranks: int,
    tied: Mapping[str, tuple[str, ...]],
) -> Groups:
    """ZeRO 3: an equal, padded part of every parameter."""
    groups = []
    for group in shapes:
        offset, fragments = 0, []
        for name, shape in group.items():
            fragment = _partition(name, shape, rank, ranks, offset, tied)
            if fragment is not None:
                fragments.append(fragment)
            offset += -(-math.prod(shape) // ranks)
        groups.append(tuple(fragments))
    return tuple(groups), tuple(buffer.numel() for buffer in optimizer["fp32_flat_groups"])


def _partition(
    name: str,
    shape: Sequence[int],
    rank: int,
    ranks: int,
    offset: int,
    tied: Mapping[str, tuple[str, ...]],
) -> Fragment | None:
    whole = math.prod(shape)
    part = -(-whole // ranks)
    begin = rank * part
    count = min(part, whole - begin)
    if count <= 0:
        return None
    return Fragment(tied.get(name, (name,)), tuple(shape), begin, count, offset)
