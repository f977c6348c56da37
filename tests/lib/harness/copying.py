"""What programs in a slice need to call every copy function of the driver by its exported name."""

from __future__ import annotations

# For the prelude of tests/slice; `given` returns the arguments of one call. The driver's own layouts, by ctypes, so
# that no binding stands between the program and the exported symbol.
# source: CUDA Driver API 13.0, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUDA_MEMCPY3D_BATCH_OP.
COPIES = """
import ctypes
driver = ctypes.CDLL("libcuda.so.1")
size, word, place = ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint64
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4
ROW_BYTES = 4096

def fields(axes, number, address, context=()):
    told = []
    for end in ("from_", "to_"):
        told += [(end + axis, number) for axis in "xyzl"[:axes]]
        told += [(end + "type", word), (end + "host", place), (end + "device", address), (end + "array", place)]
        told += [(end + name, place) for name in context]
        told += [(end + name, number) for name in ("pitch", "height")[:axes - 2 or 1]]
    return told + [(name, number) for name in ("width", "rows", "depth")[:axes - 1 if axes == 4 else 2]]

class Flat(ctypes.Structure):
    _fields_ = fields(2, size, place)

class Solid(ctypes.Structure):
    _fields_ = fields(4, size, place, ["context"])

# Of CUDA before 3.2.
class OldFlat(ctypes.Structure):
    _fields_ = fields(2, word, word)

class OldSolid(ctypes.Structure):
    _fields_ = fields(4, word, word, ["context"])

class Operand(ctypes.Structure):
    _fields_ = [("kind", word), ("at", place), ("row", size), ("layer", size), ("location", word * 2)]

class Block(ctypes.Structure):
    _fields_ = [("source", Operand), ("target", Operand), ("extent", size * 3), ("order", word), ("flags", word)]

assert [ctypes.sizeof(each) for each in (Flat, Solid, OldFlat, OldSolid, Block)] == [128, 200, 96, 144, 112]

def described(kind, to, source, bytes, types, pitch=None, contexts=(0, 0), arrays=(0, 0)):
    copy = kind(width=min(bytes, ROW_BYTES), rows=max(bytes // ROW_BYTES, 1))
    copy.from_pitch = copy.to_pitch = copy.width if pitch is None else pitch
    if kind in (Solid, OldSolid):
        copy.depth, copy.rows = (2, copy.rows // 2) if copy.rows % 2 == 0 else (1, copy.rows)
        copy.from_height = copy.to_height = copy.rows
        copy.to_context, copy.from_context = contexts
    copy.to_type, copy.from_type = types
    for end, address, type, array in (("to_", to, types[0], arrays[0]), ("from_", source, types[1], arrays[1])):
        setattr(copy, end + ("host" if type == HOST else "device"), address)
        setattr(copy, end + "array", array)
    return ctypes.byref(copy)

def given(name, to, source, bytes, stream=None, types=(UNIFIED, UNIFIED), context=0, arrays=(0, 0), pitch=None):
    plain = name.removesuffix("_ptsz").removesuffix("_ptds")
    tail = [stream] if "Async" in plain else []
    if plain.startswith("cuMemcpyBatchAsync"):
        one, order = (place * 1), (word * 6)(1)
        failed = [] if plain.endswith("_v2") else [ctypes.byref(size())]
        lists = [one(to), one(source), (size * 1)(bytes), size(1), order, (size * 1)(0), size(1)]
        return lists + failed + tail
    if plain.startswith(("cuMemcpy3DBatchAsync", "cuMemcpy3DWithAttributes")):
        block = Block(Operand(1, source, 0, 0), Operand(1, to, 0, 0), (size * 3)(bytes, 1, 1), 1, 0)
        failed = [] if plain.endswith("_v2") else [ctypes.byref(size())]
        if "With" in plain:
            return [ctypes.byref(block), place(0)] + tail
        return [size(1), ctypes.byref(block)] + failed + [place(0)] + tail
    if plain.startswith("cuMemcpy3DPeer"):
        return [described(Solid, to, source, bytes, types, pitch, (context, context), arrays)] + tail
    if plain.startswith(("cuMemcpy2D", "cuMemcpy3D")):
        old, new = (OldFlat, Flat) if "2D" in plain else (OldSolid, Solid)
        if not plain.endswith("_v2"):
            return [described(old, to, source, bytes, (DEVICE, DEVICE))] + tail
        return [described(new, to, source, bytes, types, pitch, arrays=arrays)] + tail
    if plain.startswith("cuMemcpyPeer"):
        return [place(to), place(context), place(source), place(context), size(bytes)] + tail
    if "AtoA" in plain:
        return [place(arrays[0]), size(0), place(arrays[1]), size(0), size(bytes)]
    if "AtoD" in plain or "AtoH" in plain:
        return [place(to), place(arrays[1]), size(0), size(bytes)] + tail
    if "DtoA" in plain or "HtoA" in plain:
        return [place(arrays[0]), size(0), place(source), size(bytes)] + tail
    how = [(word * 6)(1)] if "WithAttributes" in plain else []
    return [place(to), place(source), size(bytes)] + how + tail

def array_of(bytes):
    # 16 bytes an element.
    shape = cu.CUDA_ARRAY_DESCRIPTOR()
    shape.Width, shape.Height, shape.NumChannels = bytes // 16, 0, 4
    shape.Format = cu.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
    return int(ok(cu.cuArrayCreate(shape)))
"""
