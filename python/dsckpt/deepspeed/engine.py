"""The checkpoint engine that DeepSpeed's DataStates adapter asks for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dsckpt import loading

from . import config, consolidate, file_calls, layout, torch_files
from .patches import apply_all
from .pending_save import Request
from .pickle_allowlist import ALLOWED
from .service import service
from .tags import Tags

__all__ = ["CheckpointEngine"]


@dataclass
class _Open:
    """A checkpoint that DeepSpeed is handing over, file by file."""

    save_dir: str = ""
    tag: str = ""
    save_latest: bool = False
    tags: Tags | None = None
    files: dict[str, Any] = field(default_factory=dict)


class CheckpointEngine:
    """Saves DeepSpeed's checkpoints while training goes on, and loads them.

    DeepSpeed makes and calls it; a trainer sees it as `engine.checkpoint_engine.ckpt_engine`. All
    files of a `save_checkpoint()` become one checkpoint: nothing of it is there before every rank's
    files are durable, then all of it is. Parameters and optimizer state are read until the next
    model step, which waits where it must; all else is copied before `save_checkpoint()` returns.

    Not thread-safe: DeepSpeed calls it from the thread that trains.

    Args:
        deepspeed_config: DeepSpeed's parsed configuration; `datastates_config.config` is what
            stands under `"datastates_ckpt"` (docs/how-to/deepspeed.md lists the keys).
        rank: Rank in the job.

    Raises:
        RuntimeError: This DeepSpeed is not one that the adapter can be repaired for.
        ValueError: The configuration cannot be meant.
    """

    is_dsckpt = True
    """By this the patches of DeepSpeed's adapter know the class."""

    def __init__(self, deepspeed_config: Any, rank: int) -> None:
        problems = apply_all()
        if problems:
            raise RuntimeError(
                f"this version of DeepSpeed does not fit: {'; '.join(problems)}. Use one that "
                f'docs/how-to/deepspeed.md names, or remove "{config.KEY}" to save with torch'
            )
        self.settings = config.parse(deepspeed_config.datastates_config.config)
        self.rank = rank
        self._open: _Open | None = None
        self._closed = False
        service.configure(self.settings)
        self._thread = threading.get_ident()

    @contextmanager
    def checkpoint(self, engine: Any) -> Iterator[None]:
        """Surrounds DeepSpeed's `save_checkpoint()`: starts the save when all files are known.

        Args:
            engine: The DeepSpeedEngine.
        """
        with file_calls.exempt():
            service.make_room()
            _refuse(engine)
            yield from self._handed_over(engine)

    def _handed_over(self, engine: Any) -> Iterator[None]:
        self._open = opened = _Open()
        try:
            yield
        except BaseException as error:
            # The other ranks wait for this one's report.
            if opened.tags is not None and not opened.tags.differ():
                service.start(self._request(opened, engine, failure=error))
            raise
        finally:
            self._open = None
        if opened.tags is not None:
            service.start(self._request(opened, engine, alone=opened.tags.differ()))

    def create(self, info: Any) -> None:
        """Says which checkpoint the next files belong to.

        Args:
            info: DeepSpeed's CheckpointCommitInfo: tag, save_dir, save_latest.
        """
        if self._open is not None:
            self._open.tags = Tags()
            self._open.tags.say(info.tag)
            self._open.save_dir = info.save_dir
            self._open.tag = info.tag
            self._open.save_latest = bool(info.save_latest)

    def save(self, state_dict: Any, path: str) -> None:
        """Takes one file of a checkpoint.

        Outside of `save_checkpoint()`, as in `save_16bit_model()`, the file is for other programs:
        it is written at once, as torch.save does, or as safetensors where its name ends so.

        Args:
            state_dict: What to save; not copied before `save_checkpoint()` ends.
            path: The file.

        Raises:
            ValueError: The file does not lie in the checkpoint's directory.
        """
        if self._open is None:
            torch_files.export(state_dict, path)
            return
        folder, name = os.path.split(os.path.abspath(path))
        expected = os.path.abspath(os.path.join(self._open.save_dir, self._open.tag))
        if folder != expected:
            raise ValueError(f"{path} is not in {expected}, where the checkpoint is being saved")
        self._open.files[name] = state_dict

    def load(self, path: str, map_location: Any = None) -> Any:
        """Loads one file, after everything that was asked to be saved is durable on all ranks.

        Files of torch.save are loaded too, running code of theirs only where `allow_pickle` is set.

        Args:
            path: The file.
            map_location: As for torch.load.

        Returns:
            The state, in memory of its own.

        Raises:
            dsckpt.DsckptError: The file is missing or damaged, or an earlier save failed.
            dsckpt.PickleRefused: It holds objects of classes that are not allowed.
        """
        service.drain()
        allow = (*ALLOWED, *self.settings.allow)
        if torch_files.is_torch_file(path):
            return torch_files.load(path, map_location, self.settings.allow_pickle, allow)
        return loading.load(
            path,
            map_location,
            mmap=False,  # DeepSpeed trains on in what it gets.
            allow_pickle=self.settings.allow_pickle,
            allow=allow,
            verify=True,
        )

    def commit(self, info: Any) -> bool:
        """Waits until everything asked for is durable on all ranks."""
        service.drain()
        return True

    def wait(self, persist: bool = False) -> bool:
        """Waits until memory may change again.

        Args:
            persist: Waits until everything is durable on all ranks instead.
        """
        if persist:
            service.drain()
        else:
            service.wait_captured()
        return True

    def fence(self) -> None:
        """To be called before anything but `step()` changes parameters or optimizer state."""
        service.fence()

    def close(self) -> None:
        """Waits as commit() does. A second call does nothing.

        An engine that is collected as garbage may come here on any thread, in the middle of a save:
        then nothing is waited for. What was asked for becomes durable all the same.
        """
        if self._closed:
            return
        self._closed = True
        if threading.get_ident() == self._thread and not service.busy:
            service.drain()

    def _request(
        self,
        opened: _Open,
        engine: Any,
        failure: BaseException | None = None,
        alone: bool = False,
    ) -> Request:
        return Request(
            save_dir=opened.save_dir,
            tag=opened.tag,
            save_latest=opened.save_latest,
            step=int(engine.global_steps),
            alone=alone,
            files=opened.files,
            # Parts of whole tensors would be of no use without those of the other ranks.
            layout=layout.Layout() if alone else layout.of_engine(engine),
            sources=() if _updates_out_of_sight(engine) else layout.sources(engine),
            attributes=_attributes(engine),
            failure=failure,
        )


def _attributes(engine: Any) -> dict[str, Any]:
    import deepspeed

    found = {
        "framework": f"deepspeed {deepspeed.__version__}",
        "step": int(engine.global_steps),
        "world_size": int(engine.world_size),
    }
    if not engine.zero_optimization():  # Else DeepSpeed's own state says it.
        names = [n for n, p in engine.module.named_parameters() if not p.requires_grad]
        found[consolidate.FROZEN] = json.dumps(names)
    return found


def _updates_out_of_sight(engine: Any) -> bool:
    """Whether optimizer updates run while backward does: SuperOffload and ZenFlow."""
    return bool(engine.super_offload() or engine.zenflow)


def _refuse(engine: Any) -> None:
    if engine.use_node_local_storage():
        raise NotImplementedError(
            '"use_node_local_storage" is not supported: a checkpoint is one directory that all '
            "ranks see. Give a shared save_dir and remove the option"
        )
