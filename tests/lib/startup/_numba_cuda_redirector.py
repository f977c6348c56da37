"""Stands before numba-cuda's module of this name until somebody imports numba.

numba-cuda has every Python program of its environment load that module as it starts, so that numba's CUDA part is found
in numba-cuda's folder. That is two thirds of the time in which an interpreter starts, and few programs that the tests
start ever ask for numba.
"""

import sys


class _Later:
    """Puts the real module in place once it is of use, and finds nothing itself."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] not in ("numba", "numba_cuda"):
            return
        sys.meta_path.remove(cls)
        here = __file__.rpartition("/")[0]
        kept = sys.path[:]
        del sys.modules[__name__]
        sys.path[:] = [folder for folder in kept if folder != here]
        try:
            __import__(__name__)
        finally:
            sys.path[:] = kept


sys.meta_path.insert(0, _Later)
