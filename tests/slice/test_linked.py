"""Programs that do not look the driver's functions up, but are linked against them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from jupyter_vgpu.native import SIMULATED_DRIVER_DIR

PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
extern int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
extern int cuMemAlloc_v2(unsigned long long *, size_t), cuMemFree_v2(unsigned long long);
extern int cuMemGetInfo_v2(size_t *, size_t *);

int main(int argc, char **argv)
{
  void *context;
  unsigned long long small, large;
  size_t free_bytes, total_bytes;
  if (cuInit(0) != 0 || cuDevicePrimaryCtxRetain(&context, 0) != 0 || cuCtxSetCurrent(context) != 0) return 1;
  int (*take)(unsigned long long *, size_t) = cuMemAlloc_v2;
  if (argc > 1) {
    const int deep = strcmp(argv[1], "deep") == 0;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
    *(void **)&take = dlsym(strcmp(argv[1], "default") == 0 ? RTLD_DEFAULT : handle, "cuMemAlloc_v2");
    if (strcmp(argv[1], "next") == 0) *(void **)&take = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
  }
  const int refused = take(&large, 11ull << 30);
  const int given = take(&small, 1ull << 30);
  cuMemGetInfo_v2(&free_bytes, &total_bytes);
  printf("%d %d %d %d\n", refused, given, total_bytes == 10ull << 30, cuMemFree_v2(small));
  return 0;
}
"""


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a C program with libcuda.so.1 in its needed libraries."""
    folder = tmp_path_factory.mktemp("linked")
    (folder / "program.c").write_text(PROGRAM)
    driver = SIMULATED_DRIVER_DIR / "libcuda.so.1"
    command = ["cc", "-O1", "-o", "program", "program.c", str(driver), "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program"


@pytest.mark.parametrize("way", ["linked", "handle", "deep", "default", "next"])
def test_a_linked_program_is_limited_whichever_way_it_comes_by_a_function(ten_gib: Any, linked: Path, way: str) -> None:
    command = [str(linked), *([way] if way != "linked" else [])]
    done = subprocess.run(command, env=ten_gib.environment(), capture_output=True, text=True, timeout=240)

    assert done.stdout == "2 0 1 0\n", done.stderr
