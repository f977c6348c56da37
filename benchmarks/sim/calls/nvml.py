"""NVML: nothing here changes a setting."""

from __future__ import annotations

import ctypes
from ctypes import byref

from asking import NULL, Asked, i32, u32, u64

# Getters of one word, and what NVIDIA's reference says of a data-centre board.
GETTERS = {
    "nvmlDeviceGetIndex": 0, "nvmlDeviceGetMinorNumber": 0, "nvmlDeviceGetBrand": 0, "nvmlDeviceGetMultiGpuBoard": 0,
    "nvmlDeviceGetPowerUsage": 0, "nvmlDeviceGetPowerManagementLimit": 0, "nvmlDeviceGetPowerManagementDefaultLimit": 0,
    "nvmlDeviceGetEnforcedPowerLimit": 0, "nvmlDeviceGetPersistenceMode": 0, "nvmlDeviceGetDisplayMode": None,
    "nvmlDeviceGetDisplayActive": None, "nvmlDeviceGetAccountingMode": 0, "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetPerformanceState": 0, "nvmlDeviceGetPowerState": 0, "nvmlDeviceGetMemoryBusWidth": 0,
    "nvmlDeviceGetNumGpuCores": 0, "nvmlDeviceGetArchitecture": 0, "nvmlDeviceGetCurrPcieLinkGeneration": 0,
    "nvmlDeviceGetCurrPcieLinkWidth": 0, "nvmlDeviceGetMaxPcieLinkGeneration": 0, "nvmlDeviceGetMaxPcieLinkWidth": 0,
    "nvmlDeviceGetFanSpeed": 3, "nvmlDeviceGetNumFans": None, "nvmlDeviceGetInforomConfigurationChecksum": None,
    "nvmlDeviceGetMaxMigDeviceCount": 0, "nvmlDeviceGetVirtualizationMode": None, "nvmlDeviceGetBoardId": 0,
    "nvmlDeviceGetGpuOperationMode": None, "nvmlDeviceGetBridgeChipInfo": None, "nvmlDeviceIsMigDeviceHandle": 0,
    "nvmlDeviceGetAccountingBufferSize": 0, "nvmlDeviceGetIrqNum": 0, "nvmlDeviceGetPcieReplayCounter": 0,
}  # fmt: skip


def system(nvml: Asked) -> None:
    """NVML's life, and what it says of the machine."""
    text, value = ctypes.create_string_buffer(256), u32()
    nvml.ask("nvmlDeviceGetCount_v2", "before nvmlInit", byref(value), says=1)
    nvml.ask("nvmlSystemGetDriverVersion", "before nvmlInit", text, u32(80), says=1)
    nvml.ask("nvmlShutdown", "before nvmlInit", says=1)
    nvml.ask("nvmlInit_v2", "ok", says=0)
    nvml.ask("nvmlInit_v2", "again", says=0)
    nvml.ask("nvmlShutdown", "once", says=0)
    for name in ("nvmlSystemGetDriverVersion", "nvmlSystemGetNVMLVersion"):
        nvml.ask(name, "ok", text, u32(80), says=0)
        nvml.ask(name, "no room", text, u32(1), says=7)
        nvml.ask(name, "no place", NULL, u32(80), says=2)
    nvml.ask("nvmlSystemGetCudaDriverVersion_v2", "ok", byref(i32()), says=0)
    nvml.ask("nvmlSystemGetCudaDriverVersion_v2", "no place", NULL, says=2)
    nvml.ask("nvmlSystemGetProcessName", "process 1", u32(1), text, u32(256), says=0)
    nvml.ask("nvmlSystemGetProcessName", "no process", u32(4000000000), text, u32(256))
    nvml.ask("nvmlDeviceGetCount_v2", "ok", byref(value), says=0)
    nvml.ask("nvmlDeviceGetCount_v2", "no place", NULL, says=2)
    handle = ctypes.c_void_p()
    nvml.ask("nvmlDeviceGetHandleByIndex_v2", "0", u32(0), byref(handle), says=0)
    nvml.ask("nvmlDeviceGetHandleByIndex_v2", "99", u32(99), byref(ctypes.c_void_p()), says=2)
    nvml.ask("nvmlDeviceGetHandleByIndex_v2", "no place", u32(0), NULL, says=2)
    for name, what in (("UUID", "nvmlDeviceGetUUID"), ("Serial", "nvmlDeviceGetSerial")):
        if nvml.ask(what, "ok", handle, text, u32(96)) == 0:
            nvml.ask(f"nvmlDeviceGetHandleBy{name}", "its own", text, byref(ctypes.c_void_p()), says=0)
        nvml.ask(what, "no room", handle, text, u32(1), says=7)
        nvml.ask(what, "no place", handle, NULL, u32(96), says=2)
        nvml.ask(f"nvmlDeviceGetHandleBy{name}", "nobody's", b"GPU-0", byref(ctypes.c_void_p()))
        nvml.ask(f"nvmlDeviceGetHandleBy{name}", "no text", NULL, byref(ctypes.c_void_p()), says=2)
    nvml.ask("nvmlDeviceGetHandleByPciBusId_v2", "nonsense", b"nonsense", byref(ctypes.c_void_p()))
    nvml.ask("nvmlDeviceGetHandleByPciBusId_v2", "nobody's", b"00007777:77:07.0", byref(ctypes.c_void_p()), says=6)
    nvml.ask("nvmlShutdown", "twice", says=0)
    nvml.ask("nvmlShutdown", "once too often", says=1)


def first_device(nvml: Asked) -> ctypes.c_void_p:
    """Return the handle of device 0, without asking."""
    handle = ctypes.c_void_p()
    nvml.library.nvmlInit_v2()
    nvml.library.nvmlDeviceGetHandleByIndex_v2(u32(0), byref(handle))
    return handle


def state(nvml: Asked) -> None:
    """What one board says of itself."""
    handle = first_device(nvml)
    text, value, long_ = ctypes.create_string_buffer(4096), u32(), u64()
    nvml.ask("nvmlDeviceGetName", "ok", handle, text, u32(96), says=0)
    nvml.ask("nvmlDeviceGetName", "no room", handle, text, u32(1), says=7)
    nvml.ask("nvmlDeviceGetName", "no place", handle, NULL, u32(96), says=2)
    nvml.ask("nvmlDeviceGetName", "no device", NULL, text, u32(96), says=2)
    for name, says in GETTERS.items():
        nvml.ask(name, "ok", handle, text, says=says)
    for name in list(GETTERS)[:12]:
        nvml.ask(name, "no place", handle, NULL, says=2)
        nvml.ask(name, "no device", NULL, text, says=2)
    for name in ("PciInfo_v3", "MemoryInfo", "BAR1MemoryInfo", "UtilizationRates", "TotalEnergyConsumption",
                 "CurrentClocksThrottleReasons", "SupportedClocksThrottleReasons"):  # fmt: skip
        name = f"nvmlDeviceGet{name}"
        nvml.ask(name, "ok", handle, text, says=0)
        nvml.ask(name, "no place", handle, NULL, says=2)
    for version, says in ((40 | 2 << 24, 0), (0, 25), (40 | 9 << 24, 25)):
        ctypes.cast(text, ctypes.POINTER(u32))[0] = version
        nvml.ask("nvmlDeviceGetMemoryInfo_v2", f"version {version:#x}", handle, text, says=says)
    nvml.ask("nvmlDeviceGetTemperature", "ok", handle, u32(0), byref(value), says=0)
    nvml.ask("nvmlDeviceGetTemperature", "sensor 9", handle, u32(9), byref(value), says=2)
    for kind in range(4):
        nvml.ask("nvmlDeviceGetClockInfo", f"clock {kind}", handle, u32(kind), byref(value), says=0)
        nvml.ask("nvmlDeviceGetMaxClockInfo", f"clock {kind}", handle, u32(kind), byref(value), says=0)
    nvml.ask("nvmlDeviceGetClockInfo", "clock 99", handle, u32(99), byref(value), says=2)
    nvml.ask("nvmlDeviceGetCudaComputeCapability", "ok", handle, byref(i32()), byref(i32()), says=0)
    nvml.ask("nvmlDeviceGetPowerManagementLimitConstraints", "ok", handle, byref(value), byref(u32()), says=0)
    nvml.ask("nvmlDeviceGetEncoderUtilization", "ok", handle, byref(value), byref(u32()), says=0)
    nvml.ask("nvmlDeviceGetDecoderUtilization", "ok", handle, byref(value), byref(u32()), says=0)
    nvml.ask("nvmlDeviceGetEccMode", "ok", handle, byref(value), byref(u32()), says=0)
    for kind in range(2):
        nvml.ask("nvmlDeviceGetTotalEccErrors", f"kind {kind}", handle, u32(kind), u32(0), byref(long_), says=0)
    nvml.ask("nvmlDeviceGetTotalEccErrors", "kind 9", handle, u32(9), u32(0), byref(long_), says=2)
    nvml.ask("nvmlDeviceGetMemoryErrorCounter", "device memory", handle, u32(1), u32(0), u32(2), byref(long_))
    words = [byref(u32()) for _ in range(4)]
    nvml.ask("nvmlDeviceGetRemappedRows", "ok", handle, *words, says=0)
    nvml.ask("nvmlDeviceGetTopologyCommonAncestor", "itself", handle, handle, byref(value))
    nvml.ask("nvmlDeviceOnSameBoard", "itself", handle, handle, byref(i32()))


def processes(nvml: Asked) -> None:
    """Who is on the board, events, GPM, MIG: all of it read only."""
    handle = first_device(nvml)
    text, count, value = ctypes.create_string_buffer(1 << 16), u32(0), u32()
    for name in ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
                 "nvmlDeviceGetMPSComputeRunningProcesses_v3"):  # fmt: skip
        nvml.ask(name, "nobody, how many", handle, byref(count), NULL, says=0)
        nvml.ask(name, "no count", handle, NULL, NULL, says=2)
    count.value = 16
    nvml.ask("nvmlDeviceGetComputeRunningProcesses_v3", "room and no place", handle, byref(count), NULL, says=2)
    nvml.ask("nvmlDeviceGetProcessUtilization", "nobody", handle, NULL, byref(u32(0)), u64(0))
    nvml.ask("nvmlDeviceGetProcessUtilization", "no count", handle, NULL, NULL, u64(0), says=2)
    nvml.ask("nvmlDeviceGetAccountingPids", "while off", handle, byref(u32(0)), NULL)
    nvml.ask("nvmlDeviceGetSupportedEventTypes", "ok", handle, byref(u64()), says=0)
    events = nvml.make(ctypes.c_void_p, "nvmlEventSetCreate", "ok")
    nvml.ask("nvmlEventSetCreate", "no place", NULL, says=2)
    nvml.ask("nvmlDeviceRegisterEvents", "errors", handle, u64(8), events, says=0)
    nvml.ask("nvmlDeviceRegisterEvents", "no set", handle, u64(8), NULL, says=2)
    nvml.ask("nvmlEventSetWait_v2", "nothing comes", events, text, u32(1), says=10)
    nvml.ask("nvmlEventSetWait_v2", "no place", events, NULL, u32(1), says=2)
    nvml.ask("nvmlEventSetFree", "ok", events, says=0)
    ctypes.cast(text, ctypes.POINTER(u32))[0] = 1
    nvml.ask("nvmlGpmQueryDeviceSupport", "ok", handle, text, says=0)
    sample = nvml.make(ctypes.c_void_p, "nvmlGpmSampleAlloc", "ok")
    nvml.ask("nvmlGpmSampleGet", "ok", handle, sample, says=0)
    nvml.ask("nvmlGpmSampleFree", "ok", sample, says=0)
    nvml.ask("nvmlDeviceGetMigMode", "ok", handle, byref(value), byref(u32()), says=0)
    nvml.ask("nvmlDeviceGetMigMode", "no place", handle, NULL, NULL, says=2)
    for kind in range(10):
        nvml.ask("nvmlDeviceGetGpuInstanceProfileInfo", f"kind {kind}", handle, u32(kind), text)
    nvml.ask("nvmlDeviceGetGpuInstanceProfileInfo", "kind 99", handle, u32(99), text, says=2)
    nvml.ask("nvmlDeviceGetGpuInstances", "without MIG", handle, u32(19), text, byref(count), says=3)
    nvml.ask("nvmlDeviceGetGpuInstanceById", "without MIG", handle, u32(1), text, says=3)
    nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", "without MIG", handle, u32(0), text)
    nvml.ask("nvmlDeviceGetGpuInstanceId", "no MIG device", handle, byref(value))
    nvml.ask("nvmlDeviceGetComputeInstanceId", "no MIG device", handle, byref(value))
    nvml.ask("nvmlDeviceGetAttributes_v2", "no MIG device", handle, text)
    nvml.ask("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", "no MIG device", handle, byref(ctypes.c_void_p()))
