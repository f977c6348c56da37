"""Living in other people's processes: what a program sees is what it would see without us."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any


def test_every_lookup_by_the_drivers_own_function_is_answered_as_without_us(ten_gib: Any) -> None:
    """Versions, per-thread-stream flags, unknown names, NULL: result and status alike (CASES 20)."""
    program = """
        import ctypes
        driver = ctypes.CDLL("libcuda.so.1")
        driver.cuInit(0)
        names = "cuMemAlloc cuMemFree cuMemAllocAsync cuLaunchKernel cuMemGetInfo cuGraphLaunch cuNoSuch cuMemCreate"
        for name in [*names.split(), "", "cuMemAlloc_v2"]:
            for version in (2000, 3020, 7000, 11040, 12000, 13000):
                for flags in (0, 1, 2):
                    pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
                    result = driver.cuGetProcAddress_v2(
                        name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), ctypes.byref(status))
                    say(name, version, flags, result, status.value, bool(pointer.value))
                    say(driver.cuGetProcAddress_v2(
                        name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), None))
        say(driver.cuGetProcAddress_v2(None, None, 12000, ctypes.c_uint64(0), None))
    """

    assert ten_gib.says(program) == ten_gib.says(program, LD_PRELOAD=None)


def test_a_lookup_gives_a_function_that_is_limited_whichever_way_it_is_found(ten_gib: Any) -> None:
    said = ten_gib.says("""
        import ctypes
        start()
        driver = ctypes.CDLL("libcuda.so.1")
        bytes_wanted = ctypes.c_size_t(11 * GIB)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
        there = ctypes.c_uint64()
        by_name = kind(ctypes.cast(driver.cuMemAlloc_v2, ctypes.c_void_p).value)
        found = []
        for look in ("cuGetProcAddress", "cuGetProcAddress_v2"):
            pointer = ctypes.c_void_p()
            extra = [None] if look.endswith("v2") else []
            getattr(driver, look)(b"cuMemAlloc", ctypes.byref(pointer), 12000, ctypes.c_uint64(0), *extra)
            found.append(kind(pointer.value))
        # The function that is looked up by itself, too.
        pointer = ctypes.c_void_p()
        driver.cuGetProcAddress_v2(b"cuGetProcAddress", ctypes.byref(pointer), 12000, ctypes.c_uint64(0), None)
        again = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64,
                                 ctypes.c_void_p)(pointer.value)
        again(b"cuMemAlloc", ctypes.byref(pointer), 12000, 0, None)
        found.append(kind(pointer.value))
        # By a handle that others opened, and by the library's whole path.
        path = next(line.split()[-1] for line in open("/proc/self/maps") if "libcuda.so" in line)
        found.append(kind(ctypes.cast(ctypes.CDLL(path).cuMemAlloc_v2, ctypes.c_void_p).value))
        say([call(ctypes.byref(there), bytes_wanted) for call in [by_name, *found]])
    """)

    assert said == ["[2, 2, 2, 2, 2]"]


def test_a_child_forked_after_start_is_answered_by_the_driver_as_without_us(ten_gib: Any) -> None:
    program = """
        start()
        ok(cu.cuMemAlloc(GIB))
        pid = os.fork()
        if pid == 0:
            say(int(cu.cuMemAlloc(MIB)[0]), int(cu.cuInit(0)[0]))
            os._exit(0)
        os.waitpid(pid, 0)
        ok(cu.cuMemAlloc(MIB))
    """

    assert ten_gib.says(program) == ten_gib.says(program, LD_PRELOAD=None)


def test_children_forked_before_start_share_the_limit(ten_gib: Any) -> None:
    said = ten_gib.says("""
        begun, may_take, full, over = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        pids = []
        for _ in range(4):
            pid = os.fork()
            if pid == 0:
                os.close(may_take[1])
                os.close(over[1])
                start()
                # Who starts when the others have taken all gets no context.
                os.write(begun[1], b".")
                os.read(may_take[0], 1)
                got = 0
                while not refused(cu.cuMemAlloc(GIB)):
                    got += 1
                    time.sleep(0.01)
                # It keeps what it has until all have been refused.
                os.write(full[1], b".")
                os.read(over[0], 1)
                os._exit(got)
            pids.append(pid)
        for _ in pids: os.read(begun[0], 1)
        os.close(may_take[1])
        for _ in pids: os.read(full[0], 1)
        os.close(over[1])
        say(sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids))
    """)

    # Ten at most; four contexts may take the rest of the last two.
    assert said[0] in ("8", "9", "10")


def test_a_child_that_is_executed_attaches_anew_and_takes_nothing_along(ten_gib: Any) -> None:
    """Memory held before exec is gone with the driver's context, and so is its charge."""
    said = ten_gib.says("""
        start()
        ok(cu.cuMemAlloc(9 * GIB))
        code = "from cuda.bindings import driver as cu; cu.cuInit(0); c = cu.cuDevicePrimaryCtxRetain(0)[1]; " \\
               "cu.cuCtxSetCurrent(c); print(int(cu.cuMemAlloc(9 << 30)[0]))"
        os.execv(sys.executable, [sys.executable, "-c", code])
    """)

    assert said == ["0"]


def test_threads_that_start_at_once_have_one_slot_and_share_the_limit(ten_gib: Any) -> None:
    said = ten_gib.says("""
        import threading
        gate, got = threading.Barrier(16), []
        def begin():
            gate.wait()
            start()
            while not refused(cu.cuMemAlloc(GIB // 4)):
                got.append(1)
        threads = [threading.Thread(target=begin) for _ in range(16)]
        for each in threads: each.start()
        for each in threads: each.join()
        say(len(got), len([line for line in open("/proc/self/maps") if "jvgpu-usage" in line]))
    """)

    # Forty quarters at most; the context may take the rest of the last ones.
    count, mappings = said[0].split()
    assert 36 <= int(count) <= 40
    assert mappings == "1"


def test_children_forked_while_threads_allocate_run_on_and_take_nothing_along(ten_gib: Any) -> None:
    program = ten_gib.start("""
        import threading, warnings
        # Python 3.12 and later warn of what is tried here.
        warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
        start()
        context = ok(cu.cuCtxGetCurrent())
        over = threading.Event()
        def churn():
            ok(cu.cuCtxSetCurrent(context))
            while not over.is_set():
                ok(cu.cuMemFree(ok(cu.cuMemAlloc(8 * MIB))))
        threads = [threading.Thread(target=churn) for _ in range(4)]
        for each in threads: each.start()
        codes = set()
        for _ in range(50):
            pid = os.fork()
            if pid == 0:
                # The driver's own answer in a forked child; ours must not hang on a lock that a thread held.
                cu.cuMemAlloc(MIB); cu.cuMemGetInfo()
                os._exit(7)
            codes.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        over.set()
        for each in threads: each.join()
        say(codes); sys.stdin.readline()
    """)

    said = program.stdout.readline()
    processes = {process["pid"]: process for process in ten_gib.usage()["processes"]}
    _, complaints = program.communicate("\n")

    assert (said, complaints) == ("{7}\n", "")
    assert processes[program.pid]["devices"][0]["memory_bytes"] == 0


def test_children_forked_while_threads_stand_at_a_closed_gate_run_on(claim: Callable[..., Any]) -> None:
    """CASES 26: the parent's launches are held back all the time; a child answers as the driver does, at once."""
    held = claim(1 << 30, share="1/8", ceiling="1/8")
    program = held.start("""
        import threading
        start()
        context = ok(cu.cuCtxGetCurrent())
        busy = ok(cu.cuModuleGetFunction(ok(cu.cuModuleLoadData(b"any text")), b"sim_busy_1000us"))
        over = threading.Event()
        def launch():
            ok((cu.cuCtxSetCurrent(context)[0], None))
            stream = ok(cu.cuStreamCreate(1))
            while not over.is_set():
                ok((cu.cuLaunchKernel(busy, 108, 1, 1, 256, 1, 1, 0, stream, 0, 0)[0], None))
            ok((cu.cuStreamSynchronize(stream)[0], None))
        threads = [threading.Thread(target=launch) for _ in range(3)]
        for each in threads: each.start()
        codes = set()
        for line in sys.stdin:
            if line != "fork\\n":
                break
            pid = os.fork()
            if pid == 0:
                result = cu.cuLaunchKernel(busy, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)[0]
                os._exit(7 if result != cu.CUresult.CUDA_SUCCESS else 1)
            say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        over.set()
        for each in threads: each.join()
        say("over")
    """)
    assert program.stdin is not None and program.stdout is not None
    deadline = time.monotonic() + 60
    while held.usage()["devices"][0]["throttled_launches"] < 10:
        assert time.monotonic() < deadline
        time.sleep(0.02)

    codes = []
    for _ in range(20):
        program.stdin.write("fork\n")
        program.stdin.flush()
        codes.append(program.stdout.readline())
    said = program.communicate("over\n")[0]

    assert codes == ["7\n"] * 20
    assert said == "over\n"


def test_programs_that_do_not_use_cuda_never_reach_the_agent(ten_gib: Any) -> None:
    """Catches a bug where any name beginning with cu started the machinery (CASES 23)."""
    said = ten_gib.says("""
        import socket, threading
        say(any("jvgpu" in line for line in open("/proc/self/maps")))
        say(threading.active_count(), len(os.listdir("/proc/self/task")))
    """)

    assert said == ["False", "1 1"]
    assert ten_gib.usage()["processes"] == []


def test_a_tenant_goes_on_when_the_agent_is_killed_and_is_counted_again_by_the_next(
    start_agent: Callable[[str], Any],
) -> None:
    agent = start_agent("a100-80")
    held = agent.claim(10 << 30)
    program = held.start("""
        start()
        ok(cu.cuMemAlloc(4 * GIB)); say('held')
        for line in sys.stdin:
            say(refused(cu.cuMemAlloc(7 * GIB)), int(cu.cuMemAlloc(MIB)[0]))
    """)
    assert program.stdout.readline() == "held\n"

    agent.end(signal.SIGKILL)
    without_agent = held.ask(program)
    agent.start()
    deadline = time.monotonic() + 60
    # The next agent may know by NVML what is held before the first question.
    answers = [held.ask(program)]
    while held.used_bytes() < 4 << 30 and time.monotonic() < deadline:
        answers.append(held.ask(program))
        time.sleep(0.2)
    used = held.used_bytes()
    held.end()

    assert without_agent == "True 0\n", "limits hold without an agent, and small allocations go on"
    assert set(answers) == {"True 0\n"}
    assert used >= 4 << 30


def test_sigkill_of_a_whole_group_frees_everything(ten_gib: Any) -> None:
    programs = [ten_gib.start("start(); ok(cu.cuMemAlloc(GIB)); say('held'); sys.stdin.readline()") for _ in range(4)]
    assert [program.stdout.readline() for program in programs] == ["held\n"] * 4

    for program in programs:
        os.kill(program.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while ten_gib.used_bytes() and time.monotonic() < deadline:
        time.sleep(0.01)

    assert ten_gib.used_bytes() == 0
    assert ten_gib.usage()["processes"] == []
