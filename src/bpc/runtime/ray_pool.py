"""Ray: functions that are computed on a cluster of machines. Needs `bpc[ray]`.

    await pool(function, *arguments)     the function's result, computed somewhere in the cluster

The function must be one of a module, and pure: Ray may compute it twice. Large arguments that come again, such as the
model of a run, are sent to the cluster once. Without an address a cluster of this machine is started.
"""

import asyncio
import importlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextlib import suppress
from types import ModuleType
from typing import Any, Final, TypeVar, TypeVarTuple

from bpc.runtime.settings import ConfigMissing

T = TypeVar("T")
Args = TypeVarTuple("Args")
SHARED_ARGUMENTS: Final = 4  # that stay in the cluster's memory; each is about a megabyte


class RayPool:
    """Computes functions on a Ray cluster, which is joined when the first of them is called."""

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._ray: ModuleType | None = None
        self._joining = threading.Lock()
        self._shared: OrderedDict[Hashable, Any] = OrderedDict()

    async def __call__(self, function: Callable[[*Args], T], *arguments: *Args) -> T:
        ray = await asyncio.to_thread(self._join)
        references = [self._share(ray, argument) for argument in arguments]
        reference = ray.remote(function).remote(*references)
        try:
            result: T = await asyncio.wrap_future(reference.future())
        except asyncio.CancelledError:
            with suppress(Exception):  # the job is over, whatever becomes of its task
                ray.cancel(reference, force=True)
            raise
        return result

    def _join(self) -> ModuleType:
        with self._joining:
            if self._ray is None:
                ray = load_ray()
                if not ray.is_initialized():
                    is_ready: Future[None] = Future()
                    threading.Thread(target=self._keep_joined, args=(ray, is_ready), name="ray", daemon=True).start()
                    is_ready.result()
                self._ray = ray
            return self._ray

    def _keep_joined(self, ray: ModuleType, is_ready: Future[None]) -> None:
        """Join, and stay: the processes of a cluster that was started here end with the thread that started them."""
        try:
            ray.init(
                address=self._address or "local", include_dashboard=False, log_to_driver=False, configure_logging=False
            )
        except BaseException as error:  # noqa: BLE001 (whoever waits gets it)
            is_ready.set_exception(error)
            return
        is_ready.set_result(None)
        threading.Event().wait()

    def _share(self, ray: ModuleType, argument: Any) -> Any:
        """The argument, or its place in the cluster if it is worth one: an object that is not just a text or bytes."""
        if isinstance(argument, str | bytes | int | None) or not isinstance(argument, Hashable):
            return argument
        place = self._shared.get(argument)
        if place is None:
            place = self._shared[argument] = ray.put(argument)
            if len(self._shared) > SHARED_ARGUMENTS:
                self._shared.popitem(last=False)
        return place


def load_ray() -> ModuleType:
    try:
        return importlib.import_module("ray")
    except ImportError:
        raise ConfigMissing.for_setting(
            "BPC_ITEMS_ENGINE", "is `ray`, and Ray is not installed", fix="install `bpc[ray]`"
        ) from None
