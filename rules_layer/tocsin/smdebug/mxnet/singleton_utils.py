"""The hook of this process."""

from __future__ import annotations

from functools import partial

from tocsin.smdebug.core import singleton_utils
from tocsin.smdebug.core.singleton_utils import del_hook, set_hook
from tocsin.smdebug.mxnet.hook import Hook

__all__ = ["del_hook", "get_hook", "set_hook"]

get_hook = partial(singleton_utils.get_hook, hook_class=Hook)
