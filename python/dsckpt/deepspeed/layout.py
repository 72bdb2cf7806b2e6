"""How DeepSpeed has split parameters and optimizer state over the ranks of a live engine."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger("dsckpt.deepspeed")


@dataclass(frozen=True)
class Fragment:
    """Elements of a parameter inside a flat buffer.

    Attributes:
        names: The parameter's names; more than one where it is tied.
        shape: Of the whole parameter, without padding.
        begin: First element, counted in the whole parameter's row-major order.
        count: Number of elements.
        offset: Where they begin in the flat buffer, in elements.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    begin: int
    count: int
    offset: int


@dataclass(frozen=True)
class Layout:
    """What one rank's flat buffers hold.

    Attributes:
        stage: ZeRO stage; 0 to 3.
        groups: Fragments of each flat buffer, in the order of the optimizer's buffers.
        sizes: Elements of each flat buffer, padding included.
        frozen: Parameters that no optimizer owns and that ZeRO-3 has split, by name.
        scopes: What to put before the names of each buffer: the same name means other weights on
            tensor-parallel and expert-parallel ranks.
        scope: The same for what lies in no buffer.
    """

    stage: int = 0
    groups: tuple[tuple[Fragment, ...], ...] = ()
    sizes: tuple[int, ...] = ()
    frozen: dict[str, Fragment] = field(default_factory=dict)
    scopes: tuple[str, ...] = ()
    scope: str = ""


def of_engine(engine: Any) -> Layout:
    """Looks at an engine, at a time when no parameter is gathered.

    What it cannot make sense of is left out: checkpoints then hold it under DeepSpeed's names only.
    """
    stage = int(engine.zero_optimization_stage())
    scope = _scope(engine)
    try:
        names = _names(engine)
        if stage == 3:
            groups, sizes = _stage3_groups(engine.optimizer, names)
            frozen = _frozen(engine, names)
        else:
            groups, sizes = _flat_groups(engine.optimizer, names)
            frozen = {}
        scopes = tuple(scope + expert for expert in _expert_scopes(engine.optimizer, len(groups)))
    except Exception as error:
        logger.warning(
            "how %s lays out its state is not known here (%s: %s): this checkpoint loads as any, "
            "but cannot be merged",
            type(engine.optimizer).__name__,
            type(error).__name__,
            error,
        )
        return Layout(stage, scope=scope)
    return Layout(stage, groups, sizes, frozen, scopes, scope)


def _names(engine: Any) -> dict[int, tuple[str, ...]]:
    """All names of each parameter, the one DeepSpeed uses first."""
    names: dict[int, list[str]] = {}
    for name, parameter in engine.module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    for parameter, name in engine.param_names.items():
        known = names.setdefault(id(parameter), [])
        known[:] = [name, *(other for other in known if other != name)]
    return {key: tuple(value) for key, value in names.items()}


def _scope(engine: Any) -> str:
    mpu = engine.mpu
    for kind in ("tensor_model", "slice", "model"):
        size = getattr(mpu, f"get_{kind}_parallel_world_size", None)
        if size is not None:
            rank = getattr(mpu, f"get_{kind}_parallel_rank")()
            return f"mp_rank_{rank:02d}/" if size() > 1 else ""
    return ""


def _expert_scopes(optimizer: Any, count: int) -> list[str]:
    param_groups = getattr(getattr(optimizer, "optimizer", None), "param_groups", [])
    if not any(group.get("moe") for group in param_groups):
        return [""] * count
    from deepspeed.utils import groups

    return [
        f"expert_rank_{groups._get_expert_parallel_rank(group['name']):02d}/"
        if group.get("moe")
        else ""
        for group in param_groups
    ]


def _flat_groups(
    optimizer: Any, names: dict[int, tuple[str, ...]]
) -> tuple[tuple[tuple[Fragment, ...], ...], tuple[int, ...]]:
    """ZeRO 1 and 2, and bf16 without ZeRO: a rank owns a stretch of the flattened group."""
    groups = getattr(optimizer, "bit16_groups", None) or getattr(optimizer, "bf16_groups", None)
    buffers = getattr(optimizer, "single_partition_of_fp32_groups", None)
    if buffers is None:
        buffers = getattr(optimizer, "fp32_groups_flat_partition", None)
    if groups is None or buffers is None:
        return (), ()
    fragments = tuple(
        tuple(f for parameter in group for f in _flat_fragments(parameter, names))
        for group in groups
    )
    return fragments, tuple(buffer.numel() for buffer in buffers)


def _flat_fragments(parameter: Any, names: dict[int, tuple[str, ...]]) -> Iterable[Fragment]:
    mapping = getattr(parameter, "_hp_mapping", None)
    # Tied stages of a pipeline hold equal copies; one of them writes it.
    if mapping is None or getattr(parameter, "ds_pipe_replicated", False):
        return
    whole, part = mapping.lp_fragment_address, mapping.hp_fragment_address
    if whole.start + part.numel <= parameter.numel():
        shape = tuple(parameter.shape)
        yield Fragment(names[id(parameter)], shape, whole.start, part.numel, part.start)


def _stage3_groups(
    optimizer: Any, names: dict[int, tuple[str, ...]]
) -> tuple[tuple[tuple[Fragment, ...], ...], tuple[int, ...]]:
    """ZeRO 3: a rank owns an equal, padded part of every parameter."""
    groups = []
    for group in getattr(optimizer, "fp16_groups", ()):
        fragments: list[Fragment] = []
        offset = 0
        for parameter in group:
            fragment = _partition(parameter, names[id(parameter)], offset)
            if fragment is not None:
                fragments.append(fragment)
            offset += parameter.partition_numel()
        groups.append(tuple(fragments))
    buffers = getattr(optimizer, "fp32_partitioned_groups_flat", ())
    return tuple(groups), tuple(buffer.numel() for buffer in buffers)


def _partition(parameter: Any, names: tuple[str, ...], offset: int) -> Fragment | None:
    part = parameter.partition_numel()
    begin = part * _rank_in(parameter.ds_process_group)
    count = min(part, parameter.ds_numel - begin)
    return Fragment(names, tuple(parameter.ds_shape), begin, count, offset) if count > 0 else None


def _frozen(engine: Any, names: dict[int, tuple[str, ...]]) -> dict[str, Fragment]:
    found: dict[str, Fragment] = {}
    for parameter in engine.module.parameters():
        if parameter.requires_grad or not hasattr(parameter, "ds_id"):
            continue
        fragment = _partition(parameter, names[id(parameter)], 0)
        if fragment is not None:
            found[fragment.names[0]] = fragment
    return found


def _rank_in(group: Any) -> int:
    from deepspeed import comm

    return int(comm.get_rank(group=group))


def sources(engine: Any) -> Sequence[Any]:
    """What nothing but the model step changes: parameters, their fp32 copies, their state."""
    optimizer = engine.optimizer
    inner = getattr(optimizer, "optimizer", optimizer)
    found: list[Any] = list(engine.module.parameters())
    for name in (
        "single_partition_of_fp32_groups",
        "fp32_groups_flat_partition",
        "fp32_partitioned_groups_flat",
    ):
        found += getattr(optimizer, name, None) or ()
    for state in getattr(inner, "state", {}).values():
        found += state.values() if isinstance(state, dict) else ()
    return found
