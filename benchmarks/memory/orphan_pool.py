"""Which call on a pool that is gone ends a process: each order of calls in a process of its own, by the driver alone.

usage: orphan_pool.py            (prints a line for each order: its name, the exit code, the answers)
       orphan_pool.py ORDER      (goes one order in this process)

To be run outside a slice; inside one it shows what the slice makes of the same calls. An exit code of -11 is a
segmentation fault. On a GPU all of them take some ten seconds.
"""

from __future__ import annotations

import ctypes
import faulthandler
import subprocess
import sys
from collections.abc import Callable

from driver import MIB, Driver, pool_properties

SIZE = 64 * MIB
ORDER_SECONDS = 60.0

# Of cuda.h: CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, _USED_MEM_CURRENT, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE.
RESERVED, USED = 5, 7
POOL_OF_POINTER = 17


class Answers:
    """The driver, each of whose answers is printed before the next call is made."""

    def __init__(self) -> None:
        self.driver = Driver()

    def ask(self, symbol: str, *arguments: object) -> int:
        """Return the 64 bits that a call writes where its first argument points."""
        result = ctypes.c_uint64(0)
        code = self.driver.ask(symbol, ctypes.byref(result), *arguments)
        print(f"{symbol}={code}:{result.value:#x}", end=" ", flush=True)
        return result.value

    def tell(self, symbol: str, *arguments: object) -> None:
        """Call what writes nothing."""
        print(f"{symbol}={self.driver.ask(symbol, *arguments)}", end=" ", flush=True)

    def create(self) -> int:
        """Return a new pool."""
        return self.ask("cuMemPoolCreate", pool_properties())

    def amount(self, pool: int, attribute: int) -> None:
        """Ask a pool how much it has."""
        value = ctypes.c_uint64(0)
        code = self.driver.ask("cuMemPoolGetAttribute", pool, attribute, ctypes.byref(value))
        print(f"cuMemPoolGetAttribute({attribute})={code}:{value.value}", end=" ", flush=True)


def _nothing(_answers: Answers, _pool: int, _address: int) -> None:
    pass


def _used(answers: Answers, pool: int, _address: int) -> None:
    answers.amount(pool, USED)


def _whose(answers: Answers, _pool: int, address: int) -> None:
    answers.ask("cuPointerGetAttribute", POOL_OF_POINTER, address)


def _range(answers: Answers, _pool: int, address: int) -> None:
    size = ctypes.c_uint64()
    answers.ask("cuMemGetAddressRange_v2", ctypes.byref(size), address)


def _trim(answers: Answers, _pool: int, _address: int) -> None:
    answers.tell("cuMemPoolTrimTo", answers.ask("cuDeviceGetDefaultMemPool", 0), 0)


def _whose_and_range(answers: Answers, pool: int, address: int) -> None:
    _whose(answers, pool, address)
    _range(answers, pool, address)


Step = Callable[[Answers, int, int], None]


def _orphan(before: Step = _nothing, after: Step = _nothing, late: Step = _nothing) -> Callable[[Answers], None]:
    """Return the order: destroy a pool that has something in use, free that, make and destroy another pool.

    Args:
        before: Done before the pool is destroyed.
        after: Done when it is destroyed, and what was in use is not yet freed.
        late: Done when that is freed.
    """

    def order(answers: Answers) -> None:
        pool = answers.create()
        address = answers.ask("cuMemAllocFromPoolAsync", SIZE, pool, 0)
        answers.driver.wait()
        before(answers, pool, address)
        answers.tell("cuMemPoolDestroy", pool)
        after(answers, pool, address)
        answers.tell("cuMemFreeAsync", address, 0)
        answers.driver.wait()
        late(answers, pool, address)
        answers.tell("cuMemPoolDestroy", answers.create())

    return order


def _after_use(answers: Answers) -> None:
    """Destroy pools only when nothing of them is in use: what the library makes of the order above."""
    pool = answers.create()
    address = answers.ask("cuMemAllocFromPoolAsync", SIZE, pool, 0)
    answers.driver.wait()
    answers.tell("cuMemFreeAsync", address, 0)
    answers.driver.wait()
    answers.amount(pool, USED)
    answers.amount(pool, RESERVED)
    answers.tell("cuMemPoolDestroy", pool)
    answers.tell("cuMemPoolDestroy", answers.create())


def _over_reset(answers: Answers) -> None:
    """Ask a pool, and the device's own, after the primary context was reset."""
    own = answers.ask("cuDeviceGetDefaultMemPool", 0)
    pool = answers.create()
    answers.ask("cuMemAllocFromPoolAsync", SIZE, pool, 0)
    answers.ask("cuMemAllocAsync", SIZE, 0)
    answers.driver.wait()
    answers.tell("cuDevicePrimaryCtxReset_v2", 0)
    answers.amount(own, RESERVED)
    answers.amount(pool, RESERVED)
    answers.ask("cuDevicePrimaryCtxRetain", 0)
    answers.amount(own, RESERVED)
    answers.amount(pool, RESERVED)
    answers.tell("cuMemPoolDestroy", pool)


ORDERS: dict[str, Callable[[Answers], None]] = {
    "plainly": _orphan(),
    "used-before": _orphan(before=_used),
    "whose-after": _orphan(after=_whose),
    "range-after": _orphan(after=_range),
    "trim-after": _orphan(after=_trim),
    "trim-late": _orphan(late=_trim),
    "as-the-library-did": _orphan(before=_used, after=_whose_and_range, late=_trim),
    "used-after": _orphan(after=_used),
    "destroyed-after-use": _after_use,
    "over-reset": _over_reset,
}


def main() -> int:
    """Go one order, or start a process for each."""
    faulthandler.enable()
    if sys.argv[1:]:
        ORDERS[sys.argv[1]](Answers())
        return 0
    for name in ORDERS:
        try:
            done = subprocess.run(
                [sys.executable, __file__, name], capture_output=True, text=True, timeout=ORDER_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"{name:22} did not end in {ORDER_SECONDS:.0f} s", flush=True)
            continue
        print(f"{name:22} rc={done.returncode:4}  {done.stdout.strip()}", flush=True)
        if done.returncode:
            print("\n".join(f"    {line}" for line in done.stderr.splitlines()[-6:]), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
