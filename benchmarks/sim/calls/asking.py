"""Ask a driver library one call after another, and say what it answered.

A line is written before each call and one after it, so that a call that ends the process is known by name.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Any

MIB = 1 << 20

u32, i32, u64, size = ctypes.c_uint, ctypes.c_int, ctypes.c_uint64, ctypes.c_size_t
NULL = ctypes.c_void_p(None)


class Asked:
    """One library and what it was asked."""

    def __init__(self, library: str, leave_out: Collection[tuple[str, str]] = ()) -> None:
        """Load the library; it is found as any program finds it.

        Args:
            library: Its file name.
            leave_out: Names and cases that are not asked, since they end the process.
        """
        self.library = ctypes.CDLL(library)
        self._leave_out = frozenset(leave_out)

    def ask(self, name: str, case: str, *arguments: Any, says: int | None = None) -> int:
        """Call a function and return its result, -1 when the library has no such function or this call is left out.

        Args:
            name: The exported symbol.
            case: What is special about the arguments; a name and a case stand for one call.
            arguments: As ctypes values; Python's integers are 32 bits wide.
            says: What NVIDIA's reference says of it; None where it says nothing, or several things.
        """
        print(json.dumps({"name": name, "case": case, "says": says}), flush=True)
        if (name, case) in self._leave_out:
            print(json.dumps({"result": None}), flush=True)
            return -1
        function = getattr(self.library, name, None)
        result = -1
        if function is not None:
            function.restype = i32
            result = int(function(*arguments))
        print(json.dumps({"result": result}), flush=True)
        return result

    def note(self, name: str, case: str, result: int, says: int | None = None) -> None:
        """Say what a call left in a place for answers."""
        print(json.dumps({"name": name, "case": case, "says": says}))
        print(json.dumps({"result": result}), flush=True)

    def make(self, kind: Any, name: str, case: str, *arguments: Any, says: int | None = 0) -> Any:
        """Call a function whose first parameter is a place for a value of `kind`, and return the value."""
        place = kind()
        self.ask(name, case, ctypes.byref(place), *arguments, says=says)
        return place


Group = Callable[[Asked], None]


def with_context(cuda: Asked) -> ctypes.c_void_p:
    """Make the primary context of device 0 current, without asking."""
    context = ctypes.c_void_p()
    cuda.library.cuInit(0)
    cuda.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.library.cuCtxSetCurrent(context)
    return context


def rows_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield the calls in what a group has written; one that ended the process has the result None."""
    asked: dict[str, Any] | None = None
    for line in text.splitlines():
        told = json.loads(line)
        if "result" not in told:
            asked = told
        elif asked is not None:
            yield asked | told
            asked = None
    if asked is not None:
        yield asked | {"result": None}


def fail(message: str) -> None:
    """End with a message."""
    sys.exit(f"calls: {message}")
