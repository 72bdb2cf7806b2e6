"""Names for the whole tensors that DeepSpeed's flat buffers are parts of.

fp32/NAME, exp_avg/NAME, exp_avg_sq/NAME, ...   of each parameter, from all ranks
module/NAME                                     weights in the precision of the model, buffers
FILE/...                                        what only means something in one rank's file
empty/DTYPE/SHAPE                               what ZeRO-3 leaves of parameters in such files
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dsckpt import _native
from dsckpt.tree import item_name

from .layout import Fragment, Layout

MAIN = re.compile(r"(zero_pp_rank_0+_)?mp_rank_00_model_states\.pt")
_LAYER = re.compile(r"layer_(\d+)(?:-model_\d+)?-model_states\.pt")
_FP32 = ("single_partition_of_fp32_groups", "fp32_flat_groups")
_STATE = ("base_optimizer_state", "optimizer_state_dict")

Path = Sequence["str | int"]


class Names:
    """Gives the tensors of one file their logical names.

    Args:
        file: Name of the file inside the checkpoint.
        layout: How this rank holds its state.
    """

    def __init__(self, file: str, layout: Layout) -> None:
        self._file = file
        self._layout = layout
        self._main = MAIN.fullmatch(file) is not None
        layer = _LAYER.fullmatch(file)
        self._layer = int(layer[1]) if layer is not None else None

    def pieces(self, path: Path, shape: Sequence[int], dtype: str) -> list[_native.Piece]:
        """What the tensor at a place of the file's state holds; none: a whole of its own name.

        Args:
            path: Keys from the root.
            shape: Of the tensor, in elements.
            dtype: Of the tensor, in the spelling of safetensors.
        """
        flat = self._in_buffer(path, shape)
        if flat is not None:
            return flat
        frozen = self._layout.frozen.get(str(path[-1])) if path[0] == _FROZEN else None
        if frozen is not None:
            return _pieces("module", self._layout.scope, frozen)
        return self._whole(path, shape, dtype)

    def _in_buffer(self, path: Path, shape: Sequence[int]) -> list[_native.Piece] | None:
        place = _buffer_of(path)
        if place is None or len(shape) != 1 or place[1] >= len(self._layout.groups):
            return None
        kind, group = place
        fragments, size = self._layout.groups[group], self._layout.sizes[group]
        end = max((f.offset + f.count for f in fragments), default=0)
        if not end <= shape[0] <= size or not fragments:
            return None
        scope = self._layout.scopes[group]
        return [piece for f in fragments for piece in _pieces(kind, scope, f)]

    def _whole(self, path: Path, shape: Sequence[int], dtype: str) -> list[_native.Piece]:
        if self._layer is not None:
            name = f"module/{self._layout.scope}{self._layer}.{item_name(path)}"
        elif self._layout.stage == 3 and 0 in shape:
            name = f"empty/{dtype}/{'x'.join(map(str, shape))}"
        elif self._main:
            return []
        else:
            name = f"{self._file.removesuffix('.pt')}/{item_name(path)}"
        box = [(0, size) for size in shape]
        return [_native.Piece(name, shape, box=box)]


_FROZEN = "frozen_param_fragments"


def _pieces(kind: str, scope: str, fragment: Fragment) -> list[_native.Piece]:
    # Readers of consolidated weights expect tied ones under each name; once is enough for the rest.
    names = fragment.names if kind in ("fp32", "module") else fragment.names[:1]
    flat = (fragment.begin, fragment.begin + fragment.count)
    return [
        _native.Piece(
            f"{kind}/{scope}{name}", fragment.shape, flat=flat, element_offset=fragment.offset
        )
        for name in names
    ]


def _buffer_of(path: Path) -> tuple[str, int] | None:
    """What a flat buffer of a file of optimizer states holds, and the buffer's position."""
    match path:
        case ["optimizer_state_dict", str(key), int(group)] if key in _FP32:
            return "fp32", group
        case ["optimizer_state_dict", str(key), "state", int(group), str(kind)] if key in _STATE:
            return kind, group
        case ["optimizer_state_dict", "base_optimizer_state", int(group), str(kind)]:
            return kind, group
    return None
