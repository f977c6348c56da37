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

# As jemalloc and its like: looks the C library's functions up when it is first asked for memory.
ALLOCATOR = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*real_malloc)(size_t), *(*real_realloc)(void *, size_t), (*real_free)(void *);
static char early[65536];
static size_t early_used;

void *malloc(size_t bytes)
{
  if (real_malloc == NULL) {
    *(void **)&real_free = dlsym(RTLD_NEXT, "free");
    *(void **)&real_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&real_malloc = dlsym(RTLD_NEXT, "malloc");
  }
  return real_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
  // The C library's dlsym itself may ask for some, before there is anybody to hand on to.
  bytes = (count * bytes + 15) / 16 * 16;
  if (real_malloc == NULL && early_used + bytes <= sizeof early) return early + (early_used += bytes) - bytes;
  char *there = malloc(bytes);
  for (size_t i = 0; there != NULL && i < bytes; i++) ((volatile char *)there)[i] = 0;
  return there;
}

void *realloc(void *there, size_t bytes)
{
  return there == NULL ? malloc(bytes) : real_realloc(there, bytes);
}

void free(void *there)
{
  if (real_free != NULL && ((char *)there < early || (char *)there >= early + sizeof early)) real_free(there);
}
"""
BUILDS = {
    "plain": [],
    "an address sanitizer": ["-fsanitize=address", "-static-libasan"],
    "a thread sanitizer": ["-fsanitize=thread", "-static-libtsan"],
    "an undefined behaviour sanitizer": ["-fsanitize=undefined", "-static-libubsan"],
    "an allocator of its own": ["allocator.c"],
}


def build(folder: Path, how: str) -> Path:
    """Return a C program with libcuda.so.1 in its needed libraries."""
    (folder / "program.c").write_text(PROGRAM)
    (folder / "allocator.c").write_text(ALLOCATOR)
    driver = SIMULATED_DRIVER_DIR / "libcuda.so.1"
    command = ["cc", "-O1", "-o", "program", "program.c", *BUILDS[how], str(driver), "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program as most are built."""
    return build(tmp_path_factory.mktemp("linked"), "plain")


@pytest.mark.parametrize("way", ["linked", "handle", "deep", "default", "next"])
def test_a_linked_program_is_limited_whichever_way_it_comes_by_a_function(ten_gib: Any, linked: Path, way: str) -> None:
    command = [str(linked), *([way] if way != "linked" else [])]
    done = subprocess.run(command, env=ten_gib.environment(), capture_output=True, text=True, timeout=240)

    assert done.stdout == "2 0 1 0\n", done.stderr


@pytest.mark.parametrize("how", [each for each in BUILDS if each != "plain"])
def test_a_program_that_looks_functions_up_before_it_has_begun_runs_and_is_limited(
    ten_gib: Any, tmp_path: Path, how: str
) -> None:
    """Catches a bug, ours too, where a program with a sanitizer in it ended at its start (CASES 19)."""
    program = build(tmp_path, how)

    # The thread sanitizer wants its memory where the host kernel's randomisation may put something else; what leaks
    # in the driver is not looked for.
    done = subprocess.run(
        ["setarch", "--addr-no-randomize", program, "next"],
        env=ten_gib.environment(ASAN_OPTIONS="detect_leaks=0"),
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.stdout == "2 0 1 0\n", done.stderr
