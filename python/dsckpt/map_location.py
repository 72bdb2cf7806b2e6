"""Where loaded tensors go: what the argument `map_location` of load() means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native, dtypes, memory, rebuild
from .errors import DsckptError
from .materialize import Info, backend_for, materialize

if TYPE_CHECKING:
    import torch

MapLocation = Any
"""None, str, torch.device, dict or callable, as torch.load takes it."""

Mover = Callable[[Any], Any]


@dataclass(frozen=True)
class Place:
    """Where loaded tensors go: to a device directly, or to the CPU and then through `move`."""

    device: torch.device | None = None
    move: Mover | None = None

    def tensors(
        self,
        native: _native.File,
        mapping: memoryview | None,
        infos: Sequence[Info],
        verify: bool,
        made: dict[int, Any],
    ) -> list[Any]:
        """All tensors of a file, by ordinal. Those in `made` are on the CPU already."""
        if not infos:
            return []  # Neither torch nor NumPy is needed.
        if self.device is None and self.move is None:
            rest = [info for i, info in enumerate(infos) if i not in made] if made else infos
            loaded = iter(materialize(native, mapping, rest, backend_for(None), verify))
            return [made[i] if i in made else next(loaded) for i in range(len(infos))]
        arrays = _array_ordinals(native)
        stay = [i for i in range(len(infos)) if i in arrays and i not in made]
        go = [i for i in range(len(infos)) if i not in arrays and i not in made]
        out = dict(made)
        for chosen, backend, view in (
            (stay, backend_for(None), mapping),
            (go, backend_for(self.device), mapping if self.device is None else None),
        ):
            some = materialize(native, view, [infos[i] for i in chosen], backend, verify)
            out.update(zip(chosen, some))
        for i in out.keys() - arrays:
            out[i] = self._moved(out[i])
        return [out[i] for i in range(len(infos))]

    def _moved(self, tensor: Any) -> Any:
        if isinstance(tensor, memory.Packed):
            return tensor
        return self.move(tensor) if self.move is not None else tensor.to(self.device)


def _array_ordinals(native: _native.File) -> set[int]:
    """Tensors that were NumPy arrays: those stay on the CPU."""
    found: set[int] = set()

    def note(tag: str, value: Any, _: list[Any]) -> None:
        if tag.startswith(memory.ARRAY_TAG) and type(value) is int:
            found.add(value)

    count = len(native.tensors())
    rebuild.state(native, range(count), lambda *_: None, note)
    return found


def where_to(location: MapLocation) -> Place:
    """What a map_location means."""
    if location is None or location == "cpu":
        return Place()
    if not dtypes.have_torch():
        raise DsckptError("map_location needs torch, which is not installed", "InvalidArgument")
    import torch

    if isinstance(location, Mapping):
        location = location.get("cpu", "cpu")
    if callable(location) and not isinstance(location, torch.device):
        return Place(move=lambda tensor: _relocate(tensor, location))
    device = torch.device(location)
    if device.type == "cpu":
        return Place()
    if device.type == "cuda" and _native.device_support() is None:
        return Place(device)
    return Place(move=lambda tensor: tensor.to(device))


def _relocate(tensor: Any, location: Callable[[Any, str], Any]) -> Any:
    import torch

    moved = location(tensor.untyped_storage(), "cpu")
    if moved is None:
        return tensor
    storage = getattr(moved, "_untyped_storage", moved)
    made = torch.empty(0, dtype=tensor.dtype, device=storage.device)
    return made.set_(storage, 0, tensor.shape, tensor.stride())
