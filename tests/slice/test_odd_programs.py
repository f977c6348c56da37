"""Programs that do what programs seldom do: limits and counts hold, nothing hangs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

GIB = 1 << 30

# What calls have granted: overhead comes half a second later, and stays out of it.
HELD = """
import ctypes
from jupyter_vgpu.client import UserClient
client = UserClient.from_environment()
start()
driver = ctypes.CDLL("libcuda.so.1")

def held():
    return sum(each["devices"][0]["memory_bytes"] for each in client.usage()["processes"])
"""


def test_a_program_that_clears_its_environment_is_counted_by_the_next_agent(
    start_agent: Callable[[str], Any],
) -> None:
    """Catches a bug where the socket and the secret were looked up again, and not found, when an agent was new."""
    agent = start_agent("a100-80")
    held = agent.claim(10 * GIB)
    program = held.start("""
        start()
        ok(cu.cuMemAlloc(4 * GIB))
        os.environ.clear(); say('held')
        for line in sys.stdin:
            say(refused(cu.cuMemAlloc(7 * GIB)), int(cu.cuMemAlloc(MIB)[0]))
    """)
    assert program.stdout.readline() == "held\n"

    def counted_bytes() -> int:
        return sum(each["devices"][0]["memory_bytes"] for each in held.usage()["processes"])

    agent.end(signal.SIGKILL)
    agent.start()
    answers = [held.ask(program)]
    deadline = time.monotonic() + 60
    while counted_bytes() < 4 * GIB and time.monotonic() < deadline:
        answers.append(held.ask(program))
        time.sleep(0.2)
    counted = counted_bytes()
    held.end()

    assert set(answers) == {"True 0\n"}
    assert counted >= 4 * GIB


def test_a_thread_that_is_cancelled_while_the_agent_thinks_holds_up_no_other(ten_gib: Any) -> None:
    """Catches a bug where the lock of the first call was never given back, and the program stood still."""
    said = ten_gib.says("""
        import ctypes, socket, tempfile
        signal.alarm(60)
        folder = tempfile.TemporaryDirectory()
        os.environ["JUPYTER_VGPU_SOCKET"] = folder.name + "/silent"
        server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server.bind(os.environ["JUPYTER_VGPU_SOCKET"]); server.listen()
        libc, driver = ctypes.CDLL(None), ctypes.CDLL("libcuda.so.1")
        libc.pthread_cancel.argtypes = [ctypes.c_ulong]
        libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
        thread = ctypes.c_ulong()
        # No Python in it: a thread that is cancelled never gives back what it holds of that.
        libc.pthread_create(ctypes.byref(thread), None, driver.cuInit, None)
        asking, _ = server.accept()
        asking.recv(1 << 16)
        libc.pthread_cancel(thread)
        asking.close(); server.close()
        libc.pthread_join(thread, None)
        say(driver.cuInit(0))
    """)

    assert said == ["100"]


SIZES = (
    HELD
    + """
PINNED = (ctypes.c_int * 8)(1, 0, 1, 0)
pool, stream, graph = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
assert driver.cuStreamCreate(ctypes.byref(stream), 1) == driver.cuGraphCreate(ctypes.byref(graph), 0) == 0
assert driver.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
place, pitch = ctypes.c_uint64(), ctypes.c_size_t()

def size(number):
    return ctypes.c_size_t(number % 2**64)

def tries(number):
    here, wide = ctypes.byref(place), ctypes.byref(pitch)
    yield driver.cuMemAlloc_v2(here, size(number))
    yield driver.cuMemAllocManaged(here, size(number), 1)
    yield driver.cuMemAllocPitch_v2(here, wide, size(number), size(1), 4)
    yield driver.cuMemAllocPitch_v2(here, wide, size(1), size(number), 4)
    yield driver.cuMemAllocPitch_v2(here, wide, size(number), size(number), 4)
    yield driver.cuMemAllocAsync(here, size(number), stream)
    yield driver.cuMemAllocFromPoolAsync(here, size(number), pool, stream)
    yield driver.cuMemCreate(here, size(number), PINNED, ctypes.c_uint64(0))
    yield driver.cuArray3DCreate_v2(here, (ctypes.c_uint64 * 5)(number % 2**64, 1, 1, 4 << 32 | 0x20, 0))
    yield driver.cuArray3DCreate_v2(here, (ctypes.c_uint64 * 5)(1, number % 2**64, number % 2**64, 4 << 32 | 0x20, 0))
    yield driver.cuMipmappedArrayCreate(
        here, (ctypes.c_uint64 * 5)(number % 2**64, 1, 0, 4 << 32 | 0x20, 0), ctypes.c_uint(2**32 - 1))

before = held()
sizes = (-1, -2, -511, -512, -513, -2 * MIB, -2 * MIB - 1, 2**63, 2**63 - 1, 2**40)
answers = {what: list(tries(what)) for what in sizes}
say({answer != 0 for each in answers.values() for answer in each}, held() - before)
say(driver.cuMemAlloc_v2(ctypes.byref(place), size(9 * GIB)), held() - before == 9 * GIB)
say(driver.cuMemFree_v2(place), held() - before)
"""
)


def test_sizes_near_the_largest_number_are_refused_and_charge_nothing(ten_gib: Any) -> None:
    assert ten_gib.says(SIZES) == ["{True} 0", "0 True", "0 0"]


def test_a_handle_that_is_imported_twice_is_charged_once_until_the_last_is_gone(ten_gib: Any) -> None:
    said = ten_gib.says(
        HELD
        + """
props = cu.CUmemAllocationProp()
props.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
props.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
kind = cu.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
props.requestedHandleTypes = kind
before = held()
first = ok(cu.cuMemCreate(GIB, props, 0))
shared = ok(cu.cuMemExportToShareableHandle(first, kind, 0))
others = [ok(cu.cuMemImportFromShareableHandle(shared, kind)) for _ in range(2)]
say(held() - before == GIB)
for handle in (first, *others):
    ok((*cu.cuMemRelease(handle), None))
say(held() - before)
"""
    )

    assert said == ["True", "0"]


def test_a_program_without_descriptors_is_told_so_and_has_its_gpu_once_it_closes_some(ten_gib: Any) -> None:
    """Catches a bug where it read that no agent runs, or that agent and library are of different versions."""
    done = ten_gib.run("""
        import ctypes, resource
        signal.alarm(60)
        driver = ctypes.CDLL("libcuda.so.1")
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        taken = []
        try:
            while True:
                taken.append(os.open("/dev/null", os.O_RDONLY))
        except OSError:
            pass
        for spared in range(3):
            say(driver.cuInit(0))
            # What was refused is refused for a second.
            time.sleep(1.1)
            os.close(taken.pop())
        while taken:
            os.close(taken.pop())
        while driver.cuInit(0) != 0:
            time.sleep(0.1)
        start(); say(refused(cu.cuMemAlloc(11 * GIB)))
    """)

    assert done.stdout.splitlines() == ["100", "100", "100", "True"]
    assert done.stderr.startswith("jupyter_vgpu: no GPU for this process: it has too many files open. Close some,")
    assert len(done.stderr.splitlines()) == 1
