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
    return OwnDict(_global_states(cuda))


def _global_states(cuda: bool) -> dict[str, Any]:
    state: dict[str, Any] = {"python": random.getstate()}
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
    _set_global_states(state)


def _set_global_states(state: dict[str, Any]) -> None:
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
    """A data loader that can go on in the middle of an epoch, and between two. Not thread-safe.

    Counts the batches handed out, and remembers the states of the generators that shuffle them: the
    loader's own, its samplers' and its dataset's (torch, NumPy or Python generators that they, and
    the samplers and datasets that these wrap, call `generator` or `rng`), and the global ones. A
    dataset's is that of this process, not of workers' copies. After load_state_dict(), the next
    iteration shuffles alike and
    skips what was handed out; the epochs after it draw what they would have drawn. What is shuffled
    by the global generators between epochs goes on from set_rng_state().

    Batches that worker processes have prefetched but nobody has got yet come again. The random
    numbers that persistent workers draw themselves go on in the epoch in which they were started.

    Skipped batches are read and dropped. Where that costs too much, use a loader that keeps its own
    place (torchdata's StatefulDataLoader) and save its state_dict().

    Args:
        loader: A torch DataLoader, or any iterable that yields the same each time it is begun from
            the same generator states.
    """

    def __init__(self, loader: Iterable[Any]) -> None:
        self.loader = loader
        self._epoch = 0
        self._batches = 0
        self._begun_with: Any = None
        self._seeds_workers: bool | None = None
        self._resume = False

    def state_dict(self) -> dict[str, Any]:
        """Epoch, batches handed out in it, and generators' states.

        Between epochs: those of the loader's own generators now. In an epoch: of these and the
        global ones, when it began. Marked as this rank's own (rank_own()).
        """
        begun = self._begun_with
        known = begun is not None or self._resume
        seeds = self._seeds_workers if known else self._takes_a_seed()
        return OwnDict(
            epoch=self._epoch,
            batches=self._batches,
            generator=begun,
            own=self._own_states() if begun is None else None,
            seeds_workers=seeds,
        )

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes over a state; the next iteration goes on from there.

        Args:
            state: From state_dict(), as it is or loaded.

        Raises:
            ValueError: The loader has not the generators that the state is of.
        """
        begun = state["generator"]
        self._check_own(state["own"] if begun is None else begun["own"])
        self._epoch = int(state["epoch"])
        self._batches = int(state["batches"])
        self._begun_with = begun
        self._seeds_workers = state["seeds_workers"]
        self._resume = True
        if begun is None:
            self._set_own_states(state["own"])

    @property
    def epoch(self) -> int:
        """Whole epochs handed out so far."""
        return self._epoch

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self._resume and self._begun_with is not None:
            batches = self._resumed()
        else:
            seeds = self._seeds_workers if self._resume else self._takes_a_seed()
            self._batches = 0
            self._begun_with = {"global": _global_states(cuda=False), "own": self._own_states()}
            batches = self._begin(seeds)
            self._seeds_workers = seeds
        self._resume = False
        for batch in batches:
            self._batches += 1
            yield batch
        self._epoch += 1
        self._batches = 0
        self._begun_with = None

    def _resumed(self) -> Iterator[Any]:
        now = _global_states(cuda=True)
        self._set_own_states(self._begun_with["own"])
        _set_global_states(self._begun_with["global"])
        batches = self._begin(self._seeds_workers)
        collections.deque(itertools.islice(batches, self._batches), maxlen=0)
        # What the training loop draws goes on from its own restored state.
        _set_global_states(now)
        return batches

    def _takes_a_seed(self) -> bool | None:
        """Whether a DataLoader draws a seed for workers when it is begun; None: it is none.

        One whose workers persist does so the first time only.
        """
        if not hasattr(self.loader, "persistent_workers"):
            return None
        loader: Any = self.loader
        kept = loader.persistent_workers and loader.num_workers > 0
        return not (kept and getattr(loader, "_iterator", None) is not None)

    def _begin(self, seeds: bool | None) -> Iterator[Any]:
        """Begins the loader; a seed for workers is drawn exactly where `seeds` says so."""
        takes = self._takes_a_seed()
        if seeds is None or takes is None or seeds == takes:
            return iter(self.loader)
        torch = _torch()
        own: Any = getattr(self.loader, "generator", None)
        if seeds:
            torch.empty((), dtype=torch.int64).random_(generator=own)
            return iter(self.loader)
        loader: Any = self.loader
        loader.generator = torch.Generator()  # Samplers have their own reference to the other.
        loader.generator.seed()
        try:
            return iter(self.loader)
        finally:
            loader.generator = own

    def _own(self) -> list[Any]:
        """The generators of the loader, its samplers and its dataset, each once."""
        found: list[Any] = []
        seen: list[Any] = []
        left: list[Any] = [self.loader]
        while left:
            each = left.pop(0)
            if each is None or any(each is other for other in seen):
                continue
            seen.append(each)
            for name in ("generator", "rng"):
                generator = getattr(each, name, None)
                known = any(generator is other for other in found)
                if not known and _kind_of(generator) is not None:
                    found.append(generator)
            left += [getattr(each, name, None) for name in ("sampler", "batch_sampler", "dataset")]
        return found

    def _own_states(self) -> list[Any]:
        return [_get_state(generator) for generator in self._own()]

    def _check_own(self, states: list[Any]) -> None:
        kinds = [_kind_of(generator) for generator in self._own()]
        stored = [kind for kind, _ in states]
        if kinds != stored:
            raise ValueError(
                f"the state is of a loader with the generators {stored}, this one has {kinds}: "
                "make the loader as it was made for the run that is resumed"
            )

    def _set_own_states(self, states: list[Any]) -> None:
        for generator, state in zip(self._own(), states):
            _set_state(generator, state)


def _kind_of(generator: Any) -> str | None:
    torch: Any = sys.modules.get("torch")
    numpy: Any = sys.modules.get("numpy")
    if torch is not None and isinstance(generator, torch.Generator):
        return "torch"
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return "numpy"
    if numpy is not None and isinstance(generator, numpy.random.RandomState):
        return "numpy, legacy"
    return "python" if isinstance(generator, random.Random) else None


def _get_state(generator: Any) -> tuple[str | None, Any]:
    kind = _kind_of(generator)
    if kind == "torch":
        return kind, generator.get_state()
    if kind == "numpy":
        return kind, generator.bit_generator.state
    if kind == "numpy, legacy":
        return kind, generator.get_state(legacy=False)
    return kind, generator.getstate()


def _set_state(generator: Any, stored: tuple[str, Any]) -> None:
    kind, state = stored
    if kind == "torch":
        generator.set_state(state.cpu())
    elif kind == "numpy":
        generator.bit_generator.state = state
    elif kind == "numpy, legacy":
        generator.set_state(state)
    else:
        version, words, gauss = state
        generator.setstate((version, tuple(words), gauss))


def _torch() -> Any:
    import torch

    return torch
