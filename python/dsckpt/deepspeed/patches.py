"""Repairs of DeepSpeed's adapter, applied when `datastates` is imported.

Each replaces one method, checks first that the method takes the parameters it expects, and says why
it is there. DeepSpeed's files are not touched.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import readers
from .service import service

logger = logging.getLogger("dsckpt.deepspeed")

Function = Callable[..., Any]
_MARK = "_dsckpt_original"
_ADAPTER = "deepspeed.runtime.checkpoint_engine.datastates_checkpoint_engine"
_ENGINE = "deepspeed.runtime.engine"


@dataclass(frozen=True)
class Patch:
    """One replaced function.

    Attributes:
        module: Where it is.
        owner: The class in that module; "" for a function of the module.
        name: The function.
        parameters: The parameters that it must begin with.
        wrap: Makes the replacement from the original.
        needed: What goes wrong without it.
    """

    module: str
    owner: str
    name: str
    parameters: tuple[str, ...]
    wrap: Callable[[Function], Function]
    needed: str

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return ".".join(filter(None, (self.module, self.owner, self.name)))

    def apply(self) -> str | None:
        """Puts the replacement in place.

        Returns:
            None, or why it cannot be done.
        """
        try:
            owner: Any = importlib.import_module(self.module)
            owner = getattr(owner, self.owner) if self.owner else owner
            original: Function = getattr(owner, self.name)
        except (ImportError, AttributeError) as error:
            return f"{self.place} is not there ({error})"
        if hasattr(original, _MARK):
            return None
        found = tuple(inspect.signature(original).parameters)
        if found[: len(self.parameters)] != self.parameters:
            return f"{self.place} takes {found}, expected {self.parameters}"
        replacement = functools.wraps(original)(self.wrap(original))
        setattr(replacement, _MARK, original)
        setattr(owner, self.name, replacement)
        if not self.owner:
            _replace_imported(original, replacement)
        return None


def _replace_imported(original: Function, replacement: Function) -> None:
    """In modules that have imported the function by its name."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        for name in [name for name, value in list(names.items()) if value is original]:
            names[name] = replacement


def apply_all() -> list[str]:
    """Applies every patch; a second call does nothing.

    Returns:
        What could not be patched, and what would go wrong, one text each.
    """
    if importlib.util.find_spec("deepspeed") is None:
        logger.warning("DeepSpeed is not installed: there is nothing to patch")
        return ["DeepSpeed is not installed"]
    problems = []
    for patch in PATCHES:
        problem = patch.apply()
        if problem is not None:
            problems.append(f"{problem}; without the patch, {patch.needed}")
            logger.warning("%s", problems[-1])
    return problems


def _shim(adapter: Any) -> Any:
    """Our engine inside DeepSpeed's adapter; None where another one is used, or none any more."""
    inner = getattr(adapter, "ckpt_engine", None)
    return inner if getattr(inner, "is_dsckpt", False) is True else None


def _create(original: Function) -> Function:
    def create(self: Any, info: Any) -> None:
        original(self, info)
        shim = _shim(self)
        if shim is not None:
            shim.create(info)

    return create


def _cleanup(original: Function) -> Function:
    def cleanup(self: Any) -> None:
        if self.__dict__.get("ckpt_engine") is not None and _shim(self) is None:
            original(self)
            return
        shim, self.ckpt_engine, self.commit_info = _shim(self), None, None
        if shim is not None:
            shim.close()

    return cleanup


def _save_checkpoint(original: Function) -> Function:
    def save_checkpoint(self: Any, *args: Any, **options: Any) -> Any:
        shim = _shim(self.checkpoint_engine)
        if shim is None:
            return original(self, *args, **options)
        with shim.checkpoint(self):
            return original(self, *args, **options)

    return save_checkpoint


def _load_checkpoint(original: Function) -> Function:
    def load_checkpoint(self: Any, *args: Any, **options: Any) -> Any:
        service.drain()
        return original(self, *args, **options)

    return load_checkpoint


def _fenced(original: Function) -> Function:
    def fenced(self: Any, *args: Any, **options: Any) -> Any:
        service.fence()
        return original(self, *args, **options)

    return fenced


def _captured(original: Function) -> Function:
    def captured(self: Any, *args: Any, **options: Any) -> Any:
        service.wait_captured()
        return original(self, *args, **options)

    return captured


PATCHES = (
    Patch(
        _ADAPTER,
        "DataStatesCheckpointEngine",
        "create",
        ("self", "info"),
        _create,
        "which checkpoint a file belongs to and whether `latest` is wanted is not passed on",
    ),
    Patch(
        _ADAPTER,
        "DataStatesCheckpointEngine",
        "cleanup",
        ("self",),
        _cleanup,
        "tearing an engine down twice raises AttributeError",
    ),
    Patch(
        _ENGINE,
        "DeepSpeedEngine",
        "save_checkpoint",
        ("self", "save_dir", "tag", "client_state", "save_latest"),
        _save_checkpoint,
        "nobody says when a checkpoint has all its files, and it is never committed",
    ),
    Patch(
        _ENGINE,
        "DeepSpeedEngine",
        "load_checkpoint",
        ("self", "load_dir", "tag"),
        _load_checkpoint,
        "a load right after a save looks for `latest` and for files that are still being written",
    ),
    Patch(
        _ENGINE,
        "DeepSpeedEngine",
        "_take_model_step",
        ("self", "lr_kwargs"),
        _fenced,
        "the model step changes what is still being copied; pipeline engines call nothing else",
    ),
    Patch(
        _ENGINE,
        "DeepSpeedEngine",
        "offload_states",
        ("self",),
        _captured,
        "pinned buffers are reused while a save still reads them, and no device memory gets free",
    ),
    Patch(
        "deepspeed.utils.zero_to_fp32",
        "",
        "get_fp32_state_dict_from_zero_checkpoint",
        ("checkpoint_dir", "tag", "exclude_frozen_parameters", "lazy_mode"),
        readers.fp32_of_zero_checkpoint,
        "fp32 weights are not those of the save before, and ZeRO-3 cannot load weights alone",
    ),
    *(
        Patch(
            "deepspeed.utils.zero_to_fp32",
            "",
            name,
            ("checkpoint_dir",),
            readers.files_of,
            "other tools, such as Lightning's, read a checkpoint while it is being written",
        )
        for name in ("get_checkpoint_files", "get_model_state_file")
    ),
    Patch(
        "deepspeed.checkpoint.ds_to_universal",
        "",
        "main",
        ("args",),
        readers.universal,
        "a checkpoint is converted while it is being written",
    ),
    Patch(
        "deepspeed.checkpoint.deepspeed_checkpoint",
        "DeepSpeedCheckpoint",
        "__init__",
        ("self", "dir"),
        readers.made_of,
        "a checkpoint is read while it is being written",
    ),
    Patch(
        "deepspeed.checkpoint.zero_checkpoint",
        "ZeROCheckpoint",
        "__init__",
        ("self", "dir"),
        readers.made_of,
        "a checkpoint is read while it is being written",
    ),
    Patch(
        "torch.serialization",
        "",
        "load",
        ("f", "map_location", "pickle_module"),
        readers.torch_load,
        "DeepSpeed's tools cannot read the files",
    ),
)
