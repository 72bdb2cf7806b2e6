"""State of random generators and data loaders: a resumed run draws what it would have drawn.

Example:
    >>> state = {"model": model.state_dict(), "rng": dsckpt.random.rng_state()}
    >>> state["loader"] = loader.state_dict()
    ...
    >>> dsckpt.random.set_rng_state(state["rng"])
    >>> loader.load_state_dict(state["loader"])
"""

from __future__ import annotations

import collections
import itertools
import random
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from .own import OwnDict

__all__ = ["StatefulLoader", "rng_state", "set_rng_state"]


def rng_state(cuda: bool = True) -> dict[str, Any]:
    """The state of Python's, NumPy's and torch's global generators.

    Args:
        cuda: Whether the generators of all visible CUDA devices count, where CUDA is in use.

    Returns:
        A dict that save() stores without pickle: "python", and "numpy", "torch" (uint8 tensor) and
        "cuda" (one uint8 tensor a device) for what the process has imported and uses. It holds
        copies: drawing further numbers does not change it. It is marked as this rank's own
        (rank_own()).
    """
    state: dict[str, Any] = OwnDict({"python": random.getstate()})
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state(legacy=False)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        state["torch"] = torch.get_rng_state()
        if cuda and torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Sets the generators to what rng_state() returned. Imports what it has a state for.

    Args:
        state: From rng_state(), as it is or loaded.

    Raises:
        ValueError: The state is of more CUDA devices than there are here.
    """
    version, words, gauss = state["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    if "torch" in state:
        import torch

        torch.set_rng_state(state["torch"].cpu())
        devices = state.get("cuda", [])
        if len(devices) > torch.cuda.device_count():
            raise ValueError(
                f"the state has generators of {len(devices)} CUDA devices, but there are "
                f"{torch.cuda.device_count()}: take them out of state['cuda']"
            )
        for index, one in enumerate(devices):
            torch.cuda.set_rng_state(one.cpu(), index)


class StatefulLoader:
    """A data loader that can go on in the middle of an epoch. Not thread-safe.

    Counts the batches handed out, and remembers the state of the generator that shuffled them.
    After load_state_dict(), the next iteration shuffles alike and skips what was handed out.
    Batches that worker processes have prefetched but nobody has got yet come again.

    Skipped batches are read and dropped. Where that costs too much, use a loader that keeps its own
    place (torchdata's StatefulDataLoader) and save its state_dict().

    Args:
        loader: A torch DataLoader, or any iterable that yields the same each time it is begun from
            the same generator state.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader
        self._epoch = 0
        self._batches = 0
        self._begun_with: Any = None
        self._resume = False

    def state_dict(self) -> dict[str, Any]:
        """Epoch, batches handed out in it, and the generator's state when it began.

        Marked as this rank's own (rank_own()).
        """
        return OwnDict(epoch=self._epoch, batches=self._batches, generator=self._begun_with)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state; the next iteration goes on from there.

        Args:
            state: From state_dict(), as it is or loaded.
        """
        self._epoch = int(state["epoch"])
        self._batches = int(state["batches"])
        self._begun_with = state["generator"]
        self._resume = self._begun_with is not None

    @property
    def epoch(self) -> int:
        """Whole epochs handed out so far."""
        return self._epoch

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self._resume:
            batches = self._resumed()
        else:
            self._batches = 0
            self._begun_with = self._generator_state()
            batches = iter(self.loader)
        self._resume = False
        for batch in batches:
            self._batches += 1
            yield batch
        self._epoch += 1
        self._batches = 0
        self._begun_with = None

    def _resumed(self) -> Iterator[Any]:
        now = rng_state()
        self._set_generator_state(self._begun_with)
        batches = iter(self.loader)
        collections.deque(itertools.islice(batches, self._batches), maxlen=0)
        # What the training loop draws goes on from its own restored state.
        set_rng_state(now)
        return batches

    def _generator_state(self) -> Any:
        generator = getattr(self.loader, "generator", None)
        if generator is not None:
            return generator.get_state()
        return _torch().get_rng_state()

    def _set_generator_state(self, state: Any) -> None:
        generator = getattr(self.loader, "generator", None)
        if generator is not None:
            generator.set_state(state.cpu())
        else:
            _torch().set_rng_state(state.cpu())


def _torch() -> Any:
    import torch

    return torch
