"""fp32 weights out of a checkpoint, whatever number of ranks wrote it."""

from __future__ import annotations

import json
import math
import os
import re
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dsckpt import pending
from dsckpt.checkpoint import MANIFEST, Checkpoint
from dsckpt.errors import DsckptError
from dsckpt.loading import load

from .pickle_allowlist import ALLOWED
from .pieces import MAIN

if TYPE_CHECKING:
    import torch

FROZEN = "frozen_parameters"
"""Attribute of a checkpoint without ZeRO: the names of its frozen parameters, as JSON."""

_EXPERTS = re.compile(r"layer_(\d+)_expert_(\d+)_mp_rank_00_model_states/(.+)")
_EXPERT = re.compile(r"\.deepspeed_experts\.(\d+)\.")


def fp32_state_dict(
    directory: str | os.PathLike[str], tag: str | None = None, exclude_frozen: bool = False
) -> OrderedDict[str, torch.Tensor] | None:
    """The model's state dict with parameters in the optimizer's precision, on the CPU.

    All of it: frozen and tied parameters, buffers, experts under their numbers in the whole model,
    layers of all stages of a pipeline. What no optimizer owns is made float32. A save of this
    process that is under way there is waited for.

    Args:
        directory: DeepSpeed's `save_dir`.
        tag: Which checkpoint; None: the one that `latest` names.
        exclude_frozen: Leaves out parameters that no optimizer owns.

    Returns:
        What DeepSpeed's function of zero_to_fp32 returns for its own checkpoints, and what that
        leaves out. None where no dsckpt checkpoint stands.

    Raises:
        dsckpt.DsckptError: The checkpoint is damaged, or does not hold what is asked for.
    """
    pending.settle(directory if tag is None else Path(directory, tag))
    if tag is None:
        latest = Path(directory, "latest")
        tag = latest.read_text().strip() if latest.is_file() else None
    if tag is None or not Path(directory, tag, MANIFEST).is_file():
        return None
    return read_fp32(str(Path(directory, tag)), exclude_frozen)


def read_fp32(checkpoint: str, exclude_frozen: bool = False) -> OrderedDict[str, torch.Tensor]:
    """As fp32_state_dict(), given the directory of one checkpoint."""
    return _Weights(checkpoint).all(exclude_frozen)


class _Weights:
    """The weights of one checkpoint, by the names of the model's state dict."""

    def __init__(self, checkpoint: str) -> None:
        self._path = checkpoint
        self._whole = Checkpoint(checkpoint)
        mains = sorted(path for path in Path(checkpoint).iterdir() if MAIN.fullmatch(path.name))
        if not mains:
            raise self._unsupported("has no file of model states that names its parameters")
        self._state = load(mains[0], mmap=True, allow=ALLOWED)
        module = (self._state["module"] or {}).items()
        self._module = {name: value for name, value in module if _is_tensor(value)}
        self._zero = self._state["param_shapes"] is not None
        shapes = self._state["param_shapes"] or ()
        # Of experts a rank knows its own only, by their numbers there.
        self._partitioned = dict.fromkeys(n for g in shapes for n in g if not _EXPERT.search(n))

    def all(self, exclude_frozen: bool) -> OrderedDict[str, torch.Tensor]:
        """In the order of zero_to_fp32: buffers, frozen parameters, the others, tied ones."""
        if any(name.startswith("fp32/mp_rank_") for name in self._whole.tensors):
            raise self._unsupported("holds weights that are sliced over ranks")
        found: OrderedDict[str, torch.Tensor] = OrderedDict()
        tied = self._state["shared_params"] or {}
        buffers = self._buffers()
        owned = self._owned(buffers)
        others = {*buffers, *owned, *tied}
        rest = [name for name in self._module if name not in others]
        frozen = self._state.get("frozen_param_shapes") or dict.fromkeys(rest)
        frozen = {name: shape for name, shape in frozen.items() if not _EXPERT.search(name)}
        chosen = [*buffers, *([] if exclude_frozen else frozen), *owned]
        if exclude_frozen and not self._zero:
            left_out = self._frozen_without_zero()
            chosen = [name for name in chosen if name not in left_out]
        seen: dict[int, torch.Tensor] = {}
        for name in chosen:
            # Without ZeRO nothing else says that two names mean one tensor.
            stored = self._module.get(name)
            key = id(name if stored is None or not stored.numel() else stored)
            found[name] = seen[key] if key in seen else self._read(name, frozen.get(name))
            seen[key] = found[name]
        for name, value in self._experts():
            found[name] = value
        for name, owner in tied.items():
            if owner in found:
                found[name] = found[owner]
        return found

    def _buffers(self) -> list[str]:
        names = set(self._state["buffer_names"])
        return [name for name in self._module if name in names]

    def _owned(self, buffers: Iterable[str]) -> list[str]:
        """Parameters that an optimizer owns; without ZeRO all parameters."""
        if not self._module:
            return self._of_layers()
        if self._zero:
            return list(self._partitioned)
        others = set(buffers)
        return [name for name in self._module if name not in others]

    def _of_layers(self) -> list[str]:
        """Of a pipeline: its stages store layer by layer."""
        names = self._whole.tensors
        masters = (name.removeprefix("fp32/") for name in names if name.startswith("fp32/"))
        found = dict.fromkeys(masters)
        tied: dict[str, list[str]] = {}
        for name in found:
            if name.startswith("tied_modules."):
                tied.setdefault(name.split(".")[1], []).append(name)
        layers: dict[str, list[str]] = {}
        for name in (n.removeprefix("module/") for n in names if n.startswith("module/")):
            layers.setdefault(name.partition(".")[0], []).append(name)
        for layer in layers.values():
            # No optimizer knows a tied layer by its own number.
            own = any(name in found for name in layer)
            copies = set() if own else self._copies(layer, tied.values())
            found.update(dict.fromkeys(name for name in layer if name not in copies))
        return list(found)

    def _copies(self, layer: list[str], tied: Iterable[list[str]]) -> set[str]:
        """What of a layer is stored as a tied module's too.

        No file says which layers are tied, and a frozen one may have parameters of the same names:
        one of equal values tells. Not all have to be: a tied layer shares some of its parameters
        only. A layer that is frozen as a whole would be taken for a tied one if one of its
        parameters had the same name, shape and values.
        """
        for names in tied:
            owners = {name.split(".", 2)[2]: name for name in names}
            both = {n: owner for n in layer if (owner := owners.get(n.partition(".")[2]))}
            if any(self._are_equal(name, owner) for name, owner in both.items()):
                return set(both)
        return set()

    def _are_equal(self, weight: str, owner: str) -> bool:
        import torch

        stored, master = self._whole.read(f"module/{weight}"), self._whole.read(f"fp32/{owner}")
        if stored.shape != master.shape:
            return False
        cast = master.to(stored.dtype)
        return torch.allclose(stored, cast, rtol=0, atol=0, equal_nan=True)

    def _frozen_without_zero(self) -> set[str]:
        told = self._whole.attributes.get(FROZEN)
        if told is None:
            raise self._unsupported("does not say which of its parameters are frozen")
        return set(json.loads(told))

    def _read(self, name: str, shape: Any) -> torch.Tensor:
        if f"fp32/{name}" in self._whole.tensors:
            master: torch.Tensor = self._whole.read(f"fp32/{name}")
            return master
        if name in self._partitioned:
            raise self._unsupported(
                f"does not hold what the optimizers of all ranks have of {name}"
            )
        if f"module/{name}" in self._whole.tensors:
            value = self._whole.read(f"module/{name}")
        elif name in self._module:
            value = self._module[name]
        else:
            raise self._unsupported(f"does not hold {name}")
        if shape is not None and value.shape != shape:
            if math.prod(shape) != 0:
                raise self._unsupported(f"does not hold all of {name}")
            value = value.new_empty(shape)  # ZeRO-3 stores nothing of it.
        made: torch.Tensor = value.float() if value.is_floating_point() else value.clone()
        return made

    def _experts(self) -> Iterable[tuple[str, torch.Tensor]]:
        """Experts are numbered in the whole model by their files, in a rank by the optimizer."""
        stored = [(name, m) for name in self._whole.tensors if (m := _EXPERTS.fullmatch(name))]
        ranks = {
            m[1] for n in self._whole.tensors if (m := re.match(r"fp32/expert_rank_(\d+)/", n))
        }
        for name, match in stored:
            expert, key = int(match[2]), match[3]
            count = len({m[2] for _, m in stored if m[1] == match[1]})
            rank, local = divmod(expert, max(1, count // max(1, len(ranks))))
            mine = _EXPERT.sub(f".deepspeed_experts.{local}.", key)
            master = f"fp32/expert_rank_{rank:02d}/{mine}"
            value = self._whole.read(master if master in self._whole.tensors else name)
            yield key, value.float()

    def _unsupported(self, what: str) -> DsckptError:
        return DsckptError(
            f"{self._path} {what}: dsckpt.Checkpoint(...).tensors lists what can be read of it",
            "Unsupported",
            self._path,
        )


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
