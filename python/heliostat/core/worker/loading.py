"""Loading of large modules in the zygote: quickly, and so that it can be forked afterwards."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import traceback

from heliostat import _heliostat

# Modules that a library loads anyway and that start threads: these end in a fork, which is quicker while the
# process is small.
_FIRST = {"torch": ("numpy",)}

# Modules that a library loads at the first use of its main parts, by the library.
_LATER = {"torch": ("torch.distributed", "torch._dynamo")}


def preloaded() -> list[str]:
    """The modules of the setting ``preload_python_modules``: names with commas between them."""
    # Not by `settings`, which loads pathlib: the zygote and all its copies would keep it.
    names = _heliostat.read_setting("preload_python_modules", os.environ)
    assert isinstance(names, str)
    return [name.strip() for name in names.split(",") if name.strip()]


def load(modules: list[str]) -> list[str]:
    """Import modules; those that cannot be are left to the workers, who say why."""
    # A library leaves a few megabytes of garbage as it loads. Looking for it takes a fifth of the time.
    gc.disable()
    try:
        for name in modules:
            for first in _FIRST.get(name, ()):
                with contextlib.suppress(ImportError):
                    importlib.import_module(first)
        _end_threads()
        loaded = [name for name in modules if _can_import(name)]
        _end_threads()
    finally:
        gc.freeze()
        gc.enable()
    return loaded


def later(modules: list[str]) -> list[str]:
    """Return the modules that users of these modules come to load besides."""
    names = [name for module in modules for name in _LATER.get(module, ())]
    return [name for name in names if name not in sys.modules]


def freeze() -> None:
    """Freeze the loaded modules, which live for ever: a collection in a child must not touch its
    shared pages.
    """
    gc.collect()
    gc.freeze()


def is_single() -> bool:
    """Whether this process has one thread only."""
    return len(os.listdir("/proc/self/task")) == 1


def _can_import(name: str) -> bool:
    try:
        importlib.import_module(name)
    except BaseException:
        traceback.print_exc()
        return False
    return True


def _end_threads() -> None:
    """Some libraries start threads as they are loaded, which they end before a fork and start again at
    their next use: this fork is for them."""
    if is_single():
        return
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
