"""The compiled part of dsckpt. Private: programs use the package `dsckpt`.

Every call that waits or does I/O releases the GIL. Errors of the library are raised as
`dsckpt.DsckptError` with its code, path, offset and errno.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

__version__: Final[str]
WITH_CUDA: Final[bool]

def device_support() -> str | None:
    """None where device memory can be saved and loaded, else what is missing."""

def dtypes() -> list[tuple[int, str, int, int, int]]:
    """Registered dtypes: (code, safetensors name, bits, elements a block, bytes a block)."""

def stop_callbacks() -> None:
    """From here on engine threads call no Python. At exit, after all engines were closed."""

def fail_at_exit() -> None:
    """The process ends as it would, but with status 1 where that would be 0. Elsewhere than with
    glibc it does nothing."""

# How a tensor is captured (class Walker).
AT_SAVE: Final[int]
UNTIL_FENCE: Final[int]

def plain_keys(dict: dict[Any, Any]) -> bool:
    """Whether a dict node takes all keys: exact str (UTF-8, no NUL, at most 64 KiB) or int64."""

class Extents:
    """The memory of some tensors, as ranges of addresses. Not thread-safe."""

    def __init__(self, tensor_types: tuple[type, ...]) -> None: ...
    def add(self, tensors: Sequence[Any]) -> list[Any]:
        """Returns those that it cannot look at: of other types, without plain memory."""
    def add_range(self, begin: int, end: int) -> None: ...
    def holds(self, address: int, bytes: int) -> bool: ...

class Walker:
    """Turns one nested state into what the engine saves. One object a save; not thread-safe.

    Exact types None, bool, int, float, complex, str, bytes, dict (str and int keys), list, tuple
    and the types in `tensor_types` are taken as they are, in C++. Everything else, and what of
    those cannot be stored directly, goes to `classify(value, path)`, which returns one of

        ("leaf", value, tag)                     value: None, bool, int, float, complex, str, bytes
        ("dict" | "list" | "tuple", value, tag)  value: dict with str/int keys, or a sequence
        ("tensor", TensorSpec)
        ("object", media_type, payload, tag)     payload: bytes-like, copied inside the save
        ("own", value)                           what stands there, and is the rank's own

    `tag` is "" for none. `path` is the list of keys from the root.
    """

    def __init__(
        self,
        state: dict[Any, Any],
        *,
        classify: Callable[[Any, list[Any]], tuple[Any, ...]],
        tensor_types: tuple[type, ...] = (),
        attributes: dict[str, Any] | None = None,
        tensor_capture: Callable[[], Extents] | int = 0,
        host_capture: int | None = None,
        owner_of: Callable[[Any], Any] | None = None,
        stream_of: Callable[[int], int] | None = None,
        encoding: str = "raw",
        rank: int | None = None,
    ) -> None:
        """tensor_capture: AT_SAVE or UNTIL_FENCE for all, or what gives the memory that is
        captured UNTIL_FENCE, all other AT_SAVE: called for the first tensor that asks.
        host_capture: for all host tensors instead. owner_of(tensor): what to hold until the
        tensor is captured; None: the caller keeps all of `state` alive until then.
        stream_of(device): the CUDA stream handle that wrote the tensors of that device.
        encoding: "raw", "zstd" or "byteplane-zstd". rank: whose own is what classify() calls so;
        None: nobody's, it is like all else.
        """
    @property
    def lazy(self) -> list[Any]:
        """After a save: tensors that were described as UNTIL_FENCE, in order."""
    def on_described(self, call: Callable[[list[Any], list[Any]], None]) -> None:
        """call(lazy, held) inside the save, before anything is read. What it raises fails the save.
        held: storages, or tensors and arrays, that are read after the save has returned."""
    @property
    def tensor_count(self) -> int: ...

class TensorSpec:
    """A tensor in memory, for what the walker cannot look at itself."""

    def __init__(
        self,
        address: int,
        dtype: str,
        shape: Sequence[int],
        strides: Sequence[int] | None = None,
        *,
        device: int = -1,
        capture: int | None = None,
        owner: Any = None,
        tag: str = "",
        pieces: Sequence[Piece] = (),
        source: Any = None,
    ) -> None:
        """dtype: safetensors spelling ("BF16"). strides in elements. capture None: as the walker's
        tensor_capture says. source: what Walker.lazy lists for it; None: owner.
        """

class Piece:
    """dsckpt::OwnedPiece: which part of a logical tensor a stored tensor holds."""

    def __init__(
        self,
        logical_name: str,
        logical_shape: Sequence[int],
        *,
        box: Sequence[tuple[int, int]] | None = None,
        flat: tuple[int, int] | None = None,
        element_offset: int = 0,
        replica_group: int = 0,
    ) -> None: ...
    logical_name: str
    logical_shape: list[int]
    box: list[tuple[int, int]] | None
    flat: tuple[int, int] | None
    element_offset: int
    replica_group: int

class SaveHandle:
    """dsckpt::SaveHandle or CheckpointHandle. Thread-safe. In the main thread waits, those of
    Engine and CheckpointWriter too, end with what a signal handler raises; the save goes on."""

    def wait_captured(self) -> None: ...
    def wait_durable(self) -> None: ...
    def cancel(self) -> None: ...
    def progress(self) -> dict[str, int | bool]:
        """total_bytes, captured_bytes, flushed_bytes, captured, durable."""
    def ended(self) -> bool:
        """Whether the engine has ended all its files in whatever way; the next fence finds what
        failed. May say so a moment after wait_durable() has returned. A group may still be about to
        publish them."""
    of_group: bool
    """Whether it is one of CheckpointWriter."""

class Engine:
    """dsckpt::Engine. Thread-safe."""

    def __init__(
        self,
        *,
        pool_bytes: int = 1 << 30,
        window_bytes: int = 0,
        workers: int = 0,
        max_in_flight: int = 2,
        when_busy: str = "wait",
        io: str = "auto",
        direct_io: bool = True,
        device: int = -1,
        device_snapshot_bytes: int = 0,
        on_event: Callable[[str, str], None] | None = None,
    ) -> None:
        """when_busy: "wait", "skip", "replace". io: "auto", "uring", "threads". device: ordinal to
        pin the pool for at once. on_event(kind, message): kind "fallback", "save-failed",
        "durability", "not-finite".
        """
    def save(
        self,
        path: str,
        walker: Walker,
        *,
        on_captured: Callable[[], None] | None = None,
        metadata: dict[str, str] | None = None,
        metadata_format: str = "pt",
        safetensors: bool = False,
        statistics: bool = False,
        vendor: dict[str, bytes] | None = None,
    ) -> SaveHandle:
        """on_captured: called once on an engine thread when all memory was read; what it raises
        fails the save, and nothing is published before it returned. safetensors: a plain
        safetensors file.
        """
    def save_durably(
        self,
        path: str,
        walker: Walker,
        *,
        metadata: dict[str, str] | None = None,
        metadata_format: str = "pt",
        safetensors: bool = False,
        statistics: bool = False,
        vendor: dict[str, bytes] | None = None,
    ) -> None:
        """A save and its wait_durable(). However it ends, memory of the state is read no longer: a
        signal handler that raises cancels the save."""
    def fence(self, prefix: str = "") -> None: ...
    def fence_on_stream(self, stream: int, prefix: str = "") -> None: ...
    def wait_durable(self) -> None: ...
    def statistics(self) -> dict[str, int]:
        """dsckpt::Statistics; durations in nanoseconds."""
    def close(self) -> None:
        """Waits for all saves and frees pool and threads. A second call does nothing."""
    closed: bool

class Coordinator:
    """dsckpt::Coordinator. Base of coordinators written in Python: they override all five."""

    def __init__(self) -> None: ...
    def rank(self) -> int: ...
    def size(self) -> int: ...
    def session(self) -> str: ...
    def gather(self, key: str, mine: bytes, timeout_seconds: float) -> list[bytes]:
        """Rank 0: every rank's bytes; the others: []. TimeoutError names the missing ranks."""
    def broadcast(self, key: str, value: bytes, timeout_seconds: float) -> bytes: ...

def join_shared_directory(
    path: str, rank: int, size: int, *, job: str = "", timeout_seconds: float = 600.0
) -> Coordinator: ...
def single_rank() -> Coordinator: ...

class CheckpointWriter:
    """dsckpt::CheckpointWriter. Holds a reference to the engine and the coordinator."""

    def __init__(
        self,
        engine: Engine,
        run_directory: str,
        *,
        coordinator: Coordinator | None = None,
        timeout_seconds: float = 1800.0,
        keep_last: int = 0,
        keep_every: int = 0,
        keep: Sequence[int] = (),
        standalone: bool = False,
        on_event: Callable[[str, str], None] | None = None,
    ) -> None: ...
    def save(
        self,
        step: int,
        shards: Sequence[tuple[str, Walker]],
        *,
        name: str = "",
        replace: bool = False,
        in_place: bool = False,
        on_captured: Callable[[], None] | None = None,
        metadata: dict[str, str] | None = None,
        statistics: bool = False,
        vendor: dict[str, bytes] | None = None,
    ) -> SaveHandle:
        """shards: (file name or "", walker). on_captured: called once for each shard."""
    def roll_back(self, step: int) -> None: ...
    def wait_durable(self) -> None: ...
    def close(self) -> None: ...

class OutputDirectory:
    """dsckpt::OutputDirectory."""

    def __init__(self, path: str) -> None: ...
    path: str
    def publish(self, replace: bool = False) -> None: ...
    def drop(self) -> None:
        """Removes what was not published. After publish(): nothing."""

def roll_back(run_directory: str, step: int) -> None:
    """dsckpt::RollBack."""

# (name, dtype name, dtype code, shape, offset, raw bytes, stored bytes, encoding)
_TensorInfo = tuple[str, str, int, tuple[int, ...], int, int, int, str]
# (name, media type, offset, raw bytes, stored bytes, encoding)
_ObjectInfo = tuple[str, str, int, int, int, str]
# (nan, inf, zero, min, max, sum, sum of squares)
_Statistics = tuple[int, int, int, float, float, float, float]
# (name, address, bytes, strides in elements or None, device ordinal or -1, stream handle)
_Request = tuple[str, int, int, Sequence[int] | None, int, int]

class File:
    """dsckpt::File, an open shard or safetensors file. Thread-safe."""

    def __init__(
        self, path: str, *, map: bool = True, threads: int = 0, ignore_header: bool = False
    ) -> None: ...
    path: str
    format: str
    """"dsckpt" or "safetensors"."""
    format_version: str
    hash_id: int
    verifiable: bool
    file_bytes: int
    def tensors(self) -> list[_TensorInfo]:
        """In name order (UTF-8 bytes); the position is the ordinal."""
    def aliases(self) -> list[tuple[str, int]]:
        """(name, ordinal of the tensor)."""
    def objects(self) -> list[_ObjectInfo]: ...
    def find_tensor(self, name: str) -> _TensorInfo:
        """Aliases followed. KeyError."""
    def pieces(self, ordinal: int) -> list[Piece]: ...
    def digest(self, ordinal: int) -> str | None:
        """Digest of a tensor, 32 hex digits; None where the file is not verifiable."""
    def object_digest(self, ordinal: int) -> str:
        """The same of an object; it is read where the file cannot tell its digest."""
    def digest_of(self, name: str, *, compute: bool = False) -> str | None:
        """The same by name; with compute, also where it is None, read for it."""
    def statistics(self, name: str) -> _Statistics | None:
        """None: the file has none of this tensor."""
    content_digest: str | None
    """dsckpt::File::ContentDigest."""
    def vendor(self) -> dict[str, bytes]: ...
    def view(self, name: str) -> tuple[memoryview, bool]:
        """Read-only bytes of a tensor; whether they are the mapped file."""
    def read_slice(self, name: str, box: Sequence[tuple[int, int]], out: Any) -> None:
        """out: writable buffer of exactly the box's bytes."""
    def load(self, requests: Sequence[_Request], *, verify: bool = True) -> None: ...
    def read_object(self, name: str) -> bytes: ...
    def has_tree(self) -> bool: ...
    def rank_own(self) -> list[str]:
        """Names of the subtrees and items that are the rank's own, in name order."""
    def is_rank_own(self, name: str) -> bool:
        """Whether a name is one of them or lies below one."""
    def build(
        self,
        tensors: Sequence[Any],
        make_object: Callable[[int, str, list[Any]], Any],
        make_tagged: Callable[[str, Any, list[Any]], Any],
        *,
        shared_only: bool = False,
    ) -> Any:
        """The state tree as Python objects: the root dict. tensors: what stands for each tensor, by
        ordinal; aliases get the same. make_object(ordinal, tag, path) for objects; make_tagged(tag,
        value, path) for every other node with a tag, after its children were made. Containers:
        dict, list, tuple. shared_only: what is the rank's own is left out of dicts, and None in
        lists and tuples.
        """
    def attributes(self) -> dict[str, Any]: ...
    def metadata(self) -> dict[str, str]: ...

class Checkpoint:
    """dsckpt::Checkpoint. Thread-safe."""

    def __init__(self, path: str, *, retry_seconds: float = 5.0) -> None: ...
    path: str
    has_manifest: bool
    step: int | None
    attempt: str
    ranks: int
    content_digest: str | None
    def shards(self) -> list[tuple[str, int, int]]:
        """(name, rank, bytes)."""
    def open_shard(self, shard: int) -> File: ...
    def tensors(self) -> list[tuple[str, str, tuple[int, ...], int, int]]:
        """Logical tensors: (name, dtype name, shape, bytes, pieces), in name order."""
    def pieces(self, tensor: int) -> list[tuple[int, int, Piece]]:
        """(shard, ordinal in the shard, piece)."""
    def digest(self, tensor: int, *, compute: bool = False) -> str | None:
        """Of a logical tensor that is stored whole; with compute, of any, read for it."""
    def statistics(self, tensor: int) -> _Statistics | None:
        """Of a logical tensor that is stored whole."""
    def check_coverage(self, tensor: int) -> None: ...
    def compare_copies(self, tensor: int) -> None: ...
    def read(self, requests: Sequence[tuple[str, Sequence[tuple[int, int]] | None, Any]]) -> None:
        """(logical name, box or None for all, writable buffer of exactly its bytes)."""
    open_shard_count: int

class RunDirectory:
    """dsckpt::RunDirectory."""

    def __init__(self, path: str) -> None: ...
    path: str
    latest_name: str | None
    def checkpoints(self) -> list[tuple[str, int | None, int, int, int, bool]]:
        """(name, step, bytes, shards, serial, abandoned), in the order of saves."""
    def ignored_entries(self) -> list[tuple[str, str]]: ...
    def latest(self) -> Checkpoint: ...
    def by_step(self, step: int) -> Checkpoint: ...

_TensorRow = tuple[str, str, tuple[int, ...], int, int, int, int]
"""(name, dtype name, shape, first and last checkpoint, checkpoints, forms)"""

class Trajectory:
    """dsckpt::Trajectory. Thread-safe."""

    def __init__(
        self,
        paths: Sequence[str],
        *,
        steps: Sequence[int] | None = None,
        step_from: str = "auto",
        max_open_files: int = 256,
    ) -> None: ...
    def checkpoints(self) -> list[tuple[int | None, str, str, dict[str, Any], str | None]]:
        """(step, path, operand, attributes, tree digest), in the order of steps."""
    def tensors(self) -> list[_TensorRow]:
        """In name order; the position is the ordinal."""
    def skipped(self) -> list[tuple[str, str]]:
        """(path, reason)."""
    index_bytes: int
    def matching(self, pattern: str) -> list[int]:
        """Ordinals of the names that a pattern matches."""
    def digests(self, tensors: Sequence[int]) -> bytes:
        """16 bytes each, a row for each checkpoint; zeros: none."""
    def form(self, checkpoint: int, tensor: int) -> tuple[str, tuple[int, ...], int] | None:
        """(dtype name, shape, bytes); None: the checkpoint lacks the tensor."""
    def statistics(self, checkpoint: int, tensor: int) -> _Statistics | None: ...
    def mapped(self, checkpoint: int, tensor: int) -> memoryview | None:
        """As view(), but None where that would copy."""
    def view(self, checkpoint: int, tensor: int) -> memoryview | None:
        """Read-only bytes of a tensor; None: it is in pieces."""
    def read(self, checkpoint: int, tensor: int, out: Any, *, offset: int = 0) -> None:
        """out: writable buffer; it is filled from this byte of the tensor's row-major image on."""

_Column = tuple[str, str, bool, Any, Any, Any]
"""(name, type as in Arrow's C data interface, whether values may be missing, values, bitmap,
offsets of texts); the last three are bytes, empty where there is nothing to say."""

class Table:
    """Columns in the layout of Arrow. Immutable."""

    def __init__(self, columns: Sequence[_Column], rows: int) -> None:
        """DsckptError: InvalidArgument."""
    rows: int
    def columns(self) -> list[_Column]:
        """With memoryviews of the table's own memory."""
    def arrow_schema(self) -> Any:
        """A capsule "arrow_schema"."""
    def arrow_stream(self) -> Any:
        """A capsule "arrow_array_stream"."""

def combine_tables(tables: Sequence[Table], key: str) -> Table:
    """Their rows, by the text in the column `key`. DsckptError: InvalidArgument."""

class Reading:
    """How measure() and events() read elements."""

    def __init__(
        self, *, against: int | None, memory: int, threads: int, verify: bool, cache: str | None
    ) -> None: ...

def measure(
    run: Trajectory,
    tensors: Sequence[int],
    groups: Sequence[str],
    layers: Sequence[int | None],
    *,
    by: str,
    updates: bool,
    reading: Reading,
) -> Table:
    """groups, layers: of each tensor. by: "tensor": a row each; "dtype": dtypes are the groups."""

def events(run: Trajectory, tensors: Sequence[int], reading: Reading | None) -> list[_Event]:
    """reading: None: from indexes alone."""

_Event = tuple[str, int, int | None, int | None, str | None, float | None, float | None, int | None]
"""(kind, checkpoint, step, other checkpoint, name, value, threshold, element)"""

def divide(run: Trajectory, tensors: Sequence[int], parts: int) -> list[list[int]]:
    """Lists of tensors of nearly equal bytes."""

def map_private(fd: int, bytes: int) -> memoryview:
    """A writable, private mapping of a file, which needs the descriptor no longer. OSError."""

_Error = tuple[str, str, str, int | None, int]
"""(code, message, path or "", offset, errno) of a status."""

def find_checkpoint(path: str | bytes | os.PathLike[Any]) -> str:
    """The path of the checkpoint that "RUN@STEP", "RUN@latest" or "RUN@-N" means; other paths as
    they are."""

def verify(
    path: str | bytes | os.PathLike[Any],
    *,
    decode: bool = False,
    threads: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[
    bool,
    int,
    list[tuple[str, _Error | None, bool, list[tuple[str, str, int, str, str]]]],
    list[_Error],
]:
    """(ok, checked bytes, files, problems beyond single files); of each file (path, why it could
    not be checked, whether it has checksums, problems: (item, kind, offset, expected, found))."""

def average(
    run: Trajectory,
    checkpoints: Sequence[int],
    weights: Sequence[float],
    output: str | bytes | os.PathLike[Any],
    *,
    filters: Sequence[str] = (),
    excludes: Sequence[str] = (),
    dtype: int | None = None,
    safetensors: bool = False,
    verify: bool = True,
    replace: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The members of dsckpt.AverageReport; terms are (position, weight), copied (name, equal or
    None), nonfinite (name, NaN, infinities)."""

def ema_weights(count: int, beta: float) -> list[float]:
    """EmaWeights() of dsckpt/average.h. count is not 0."""

def gram(
    run: Trajectory,
    tensors: Sequence[int],
    *,
    memory: int = ...,
    threads: int = 0,
    verify: bool = True,
) -> dict[str, Any]:
    """Of all checkpoints: products (doubles as bytes, row by row), nonfinite by checkpoint, skipped
    (name, why), elements, read_bytes."""

def merge(
    paths: Sequence[str | bytes | os.PathLike[Any]],
    output: str | bytes | os.PathLike[Any],
    *,
    safetensors: bool = False,
    max_shard_bytes: int = 0,
    shards: int = 0,
    verify: bool = True,
    ignore_header: bool = False,
    dry_run: bool = False,
    replace: bool = False,
    filters: Sequence[str] = (),
    excludes: Sequence[str] = (),
    strip_prefix: str = "",
    renames: Sequence[str] = (),
    dtype: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """The members of the report of dsckpt/merge.h, those that `dsckpt merge --json` prints."""

_Moments = tuple[
    str,
    str,
    tuple[int, ...],
    int,
    int,
    int,
    int,
    float | None,
    float | None,
    float | None,
    float | None,
    float | None,
    float | None,
]
_Difference = tuple[
    int,
    int,
    int,
    int,
    int,
    float | None,
    float | None,
    float | None,
    float | None,
    float | None,
    int | None,
]

_Element = tuple[tuple[int, ...], float, float, float, int | None]

def stats(
    path: str | bytes | os.PathLike[Any],
    *,
    filters: Sequence[str] = (),
    excludes: Sequence[str] = (),
    verify: bool = True,
    threads: int = 0,
) -> list[_Moments]:
    """Of each tensor the members of dsckpt.TensorStats."""

def diff(
    a: str | bytes | os.PathLike[Any],
    b: str | bytes | os.PathLike[Any],
    *,
    rtol: float | None = None,
    atol: float | None = None,
    ulp: int | None = None,
    nan_equal: bool = True,
    whole: bool = False,
    show: int = 0,
    filters: Sequence[str] = (),
    excludes: Sequence[str] = (),
    verify: bool = True,
    threads: int = 0,
) -> list[tuple[str, str | None, str | None, _Difference | None, list[_Element]]]:
    """Of each tensor (state, name in a, name in b, the members of dsckpt.Difference, those of
    each dsckpt.ElementDiff)."""
