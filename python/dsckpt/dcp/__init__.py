"""Storage for torch.distributed.checkpoint: DCP's planning and resharding, dsckpt's files.

Example:
    >>> import torch.distributed.checkpoint as dcp
    >>> from dsckpt.dcp import DcpReader, DcpWriter
    >>> writer = DcpWriter()
    >>> dcp.async_save(state, storage_writer=writer, checkpoint_id="run/step-100")
    >>> dcp.load(state, storage_reader=DcpReader(), checkpoint_id="run/step-100")
"""

from .reader import DcpReader
from .writer import DcpWriter

__all__ = ["DcpReader", "DcpWriter"]
