"""The storage writer for torch.distributed.checkpoint."""

from __future__ import annotations

import atexit
import os
import re
import threading
import weakref
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import Metadata, SavePlan, SavePlanner, StorageWriter
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from .. import _native, capture, streams
from ..checkpoint import MANIFEST
from ..errors import DsckptError
from ..writer import AsyncWriter
from . import items
from . import metadata as encoding
from .group import Commit, Group, shared_writer
from .staging import Fences, Staged

_STEP = re.compile(r"[0-9]+(?=\D*\Z)")

_live: weakref.WeakSet[DcpWriter] = weakref.WeakSet()


class DcpWriter(StorageWriter):
    """Writes checkpoints of torch.distributed.checkpoint, and stages asynchronous ones.

        writer = DcpWriter()
        dcp.save(state, storage_writer=writer, checkpoint_id="run/step-100")
        future = dcp.async_save(state, storage_writer=writer, checkpoint_id="run/step-200")

    Each rank writes one dsckpt file with its share of the plan: tensors under their names, parts of
    tensors with their boxes, plain values as they are, other objects as torch.save() makes them.
    DCP's metadata is a plain value in the file of rank 0, without pickle. `dsckpt verify`, `dsckpt
    merge` and `dsckpt.Checkpoint` work on the directory, and safetensors opens its files.

    **Commit.** The directory is complete or not there: it is made under another name and renamed by
    the rank that coordinates, when the files of all ranks and the metadata are durable
    (_native.CheckpointWriter). DCP hands out the metadata last, after all ranks have written. So
    the coordinating rank begins its own part in finish(); the others in write_data(). A save that
    fails on one rank fails on all, and leaves nothing.

    **async_save.** The writer is its own stager. CPU tensors are copied before async_save()
    returns. Device tensors that only an optimizer changes are read where they are, behind the next
    forward and backward; the next optimizer step waits for that, and fence() is for updates that no
    hook sees. Optimizers are known once they have stepped, or through watch(); other device tensors
    are copied on their device. AsyncCheckpointerType.PROCESS is refused: lent memory does not leave
    the process.

    `async_stager` given to async_save() replaces this staging, and works too.

    Not thread-safe, but for the thread of DCP that saves; one save at a time, as with DCP's own.
    """

    _synchronize_after_execute = False

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        writer: AsyncWriter | None = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        overwrite: bool = False,
        run: bool = False,
        timeout_seconds: float = 1800.0,
    ) -> None:
        """Makes a writer; nothing is written yet.

        Args:
            path: Directory of the checkpoint. `checkpoint_id` of dcp.save() goes before it.
            writer: Gives its engine and pool. None: an engine of 1 GiB, one for all DcpWriters of
                the process.
            process_group: The group of the saves; the same as given to dcp.save(). async_save()
                needs one that nothing else uses meanwhile: DCP plans on a thread of its own.
            overwrite: Replace a complete checkpoint of that name, instead of refusing it.
            run: The parent directory is a run directory: `latest` in it is kept up to date, and
                what crashed jobs left there is removed. The step is the last number in the name.
            timeout_seconds: Until all ranks' files have to be durable.
        """
        super().__init__()
        self._path = None if path is None else os.fspath(path)
        self._writer = writer
        self._overwrite = overwrite
        self._group = Group(process_group, timeout_seconds, run)
        self._fences = Fences(lambda: self._async_writer().native)
        self._staged: Staged | None = None
        self._commit: Commit | None = None
        self._state: dict[str, Any] = {}
        _live.add(self)
        capture.install(self)

    # What training loops call.

    def watch(self, source: torch.nn.Module | torch.optim.Optimizer) -> None:
        """As AsyncWriter.watch(): its tensors are changed by optimizer steps only."""
        capture.updated.add(source)

    def fence(self, stream: int | None = None) -> None:
        """As AsyncWriter.fence(); optimizer steps call it by themselves.

        Raises:
            ModifiedTooEarly: A tensor changed before it was read; that save fails.
        """
        self._fences.fence(stream)

    def wait_captured(self, storage: int | None = None) -> None:
        """Blocks until every tensor of the save under way has been read. Arguments as
        AsyncWriter.wait_captured()."""
        self._fences.wait_captured(storage)

    def close(self) -> None:
        """Waits until the last save is published or has failed. A second call does nothing.

        Every rank has to call it, or to end.
        """
        self._give_up()
        self._settle()

    # AsyncStager.

    @property
    def should_synchronize_after_execute(self) -> bool:
        """False: async_save() does not wait for the capture; optimizer steps do."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any]:
        """Called by async_save(): gives the state as it has to be saved."""
        if self._staged is not None:
            self._staged.wait_begun()
        self._staged = Staged(state_dict)
        self._fences.add(self._staged)
        return self._staged.state

    def synchronize_staging(self) -> None:
        """The same as wait_captured()."""
        self.wait_captured()

    # StorageWriter.

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        """Called at the beginning of a save, with its directory (`checkpoint_id`)."""
        if checkpoint_id is not None:
            self._path = os.fspath(checkpoint_id)
        staged = self._staged
        if staged is not None and threading.current_thread() is staged.maker:
            self._drop_staged()  # That of an asynchronous save that failed before this one.
        elif staged is not None:
            staged.met()
        self._give_up()
        self._settle()

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Called on every rank."""
        if not kwargs.get("use_collectives", True):
            raise DsckptError(
                "use_collectives=False is not supported: all ranks commit a checkpoint together",
                "Unsupported",
            )
        self._group.set_up(is_coordinator, kwargs.get("rank"))

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Called on every rank. Changes nothing."""
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Called on the coordinating rank: looks at what stands in the way. Changes no plan."""
        self._group.check_size(len(plans))
        self._check_target()
        return plans

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Called on every rank, on the saving thread: begins its part of the checkpoint.

        The coordinating rank only looks it up here; see the class.
        """
        self._commit = self._group.commit(self._async_writer().native, self._target())
        try:
            self._state, results = items.resolve(plan, planner, self._shard())
            if self._group.rank != 0:
                self._begin()
        except BaseException:
            self._give_up()
            raise
        future: Future[list[WriteResult]] = Future()
        future.set_result(results)
        return future

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Called on the coordinating rank: writes its part and the metadata, and commits.

        Returns when the checkpoint is durable.
        """
        assert self._commit is not None
        metadata.version = _dcp_version()
        metadata.storage_data = {r.index: r.storage_data for rank in results for r in rank}
        metadata.storage_meta = None
        try:
            self._state[encoding.KEY] = encoding.encode(metadata)
            self._begin()
            self._commit.wait_durable()
        finally:
            self._give_up()
            self._commit = None

    @property
    def checkpoint_id(self) -> str | None:
        """Directory of the checkpoint."""
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        """Whether it is a path."""
        return "://" not in os.fspath(checkpoint_id)

    def __getstate__(self) -> Any:
        self._drop_staged()
        raise DsckptError(
            "a DcpWriter cannot go to another process: use AsyncCheckpointerType.THREAD",
            "Unsupported",
        )

    def __del__(self) -> None:
        if hasattr(self, "_commit"):
            self._give_up()

    def _async_writer(self) -> AsyncWriter:
        if self._writer is None:
            self._writer = shared_writer()
        return self._writer

    def _target(self) -> str:
        if self._path is None:
            raise DsckptError(
                "no path: give one to DcpWriter, or a checkpoint_id to dcp.save()",
                "InvalidArgument",
            )
        return os.path.abspath(self._path)

    def _check_target(self) -> None:
        path = self._target()
        if not os.path.lexists(path):
            return
        if os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)  # Made for this checkpoint; it is published by a rename.
        elif not os.path.exists(os.path.join(path, MANIFEST)):
            raise DsckptError(
                f"{path} stands and is no checkpoint of dsckpt: remove it, or give another name",
                "AlreadyExists",
                path,
            )
        elif not self._overwrite:
            raise DsckptError(
                f"checkpoint {path} stands already: give another name, or overwrite=True",
                "AlreadyExists",
                path,
            )

    def _shard(self) -> str:
        return f"shard-{self._group.rank:05}.dsckpt"

    def _begin(self) -> None:
        assert self._commit is not None
        staged = self._staged
        # All is captured lazily: what could change was copied when it was staged, and a trainer
        # that did not stage waits for the whole save.
        walker = _native.Walker(
            self._state,
            classify=items.classify,
            tensor_capture=_native.UNTIL_FENCE,
            stream_of=streams.current if staged is None else staged.stream_of,
        )
        try:
            self._commit.begin(
                [(self._shard(), walker)],
                step=self._step(),
                replace=self._overwrite,
                on_captured=None if staged is None else staged.check,
            )
        finally:
            self._state = {}
            self._drop_staged()

    def _step(self) -> int:
        found = _STEP.search(os.path.basename(self._target()))
        return min(int(found[0]), (1 << 63) - 1) if found else 0

    def _give_up(self) -> None:
        """Ends what DCP did not end; does nothing after a save that went well."""
        if self._commit is not None:
            self._state = {}
            self._commit.give_up()
            self._drop_staged()

    def _settle(self) -> None:
        commit, self._commit = self._commit, None
        if commit is not None:
            commit.settle()

    def _drop_staged(self) -> None:
        staged, self._staged = self._staged, None
        if staged is not None:
            staged.begun()


def _dcp_version() -> str | None:
    from torch.distributed.checkpoint import filesystem

    return getattr(filesystem, "CURRENT_DCP_VERSION", None)


def _at_exit() -> None:
    # Before the engines end: other ranks would wait for what this one will not do any more.
    for writer in list(_live):
        writer._give_up()


atexit.register(_at_exit)
