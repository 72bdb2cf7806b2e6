"""Checkpoints that do not stop training: save and load the state of a training job.

`save` and `load` are the short way; `AsyncWriter` saves behind the computation, and gives a
`SaveHandle`; `open` looks into a file without loading it; `Run` and `Checkpoint` are for jobs of
many ranks. `dsckpt.random` has the state of random generators and data loaders, `dsckpt.convert`
the conversions; `dsckpt.dcp` (for torch.distributed.checkpoint) and `dsckpt.deepspeed` are imported
by name.
"""

from . import convert as convert
from . import random as random
from ._native import __version__, device_support
from .averaging import AverageReport, average
from .capture import ModifiedTooEarly
from .checkpoint import Checkpoint
from .components import PrincipalComponents, principal_components
from .errors import DsckptError, PickledWarning, PickleRefused
from .files import File, LazyTensor, open
from .handle import SaveCancelled, SaveHandle
from .loading import load, load_into
from .numbers import Difference, ElementDiff, TensorDiff, TensorStats, diff, stats
from .own import rank_own
from .parts import TracePart
from .run import Run, RunEntry
from .saving import save, save_safetensors
from .series import TensorSeries
from .table import Table, combine
from .tensor_info import TensorStatistics
from .tiles import Tile
from .tools import Problem, Report, inspect, merge, trace, verify
from .tracing import trace_part
from .trajectory import Trajectory, TrajectoryEvent
from .writer import AsyncWriter

__all__ = [
    "AsyncWriter",
    "AverageReport",
    "Checkpoint",
    "Difference",
    "DsckptError",
    "ElementDiff",
    "File",
    "LazyTensor",
    "ModifiedTooEarly",
    "PickleRefused",
    "PickledWarning",
    "PrincipalComponents",
    "Problem",
    "Report",
    "Run",
    "RunEntry",
    "SaveCancelled",
    "SaveHandle",
    "Table",
    "TensorDiff",
    "TensorSeries",
    "TensorStatistics",
    "TensorStats",
    "Tile",
    "TracePart",
    "Trajectory",
    "TrajectoryEvent",
    "__version__",
    "average",
    "combine",
    "device_support",
    "diff",
    "inspect",
    "load",
    "load_into",
    "merge",
    "open",
    "principal_components",
    "rank_own",
    "save",
    "save_safetensors",
    "stats",
    "trace",
    "trace_part",
    "verify",
]


def __dir__() -> list[str]:
    return [*__all__, "convert", "random"]
