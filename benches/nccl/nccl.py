"""NCCL by ctypes, from whichever libnccl.so.2 is given: the five collectives that a tuner is asked about."""

import ctypes

INT32, SUM = 2, 0  # ncclInt32, ncclSum
NAMES = ["broadcast", "reduce", "allgather", "reducescatter", "allreduce"]


class NcclError(Exception):
    pass


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


class Nccl:
    def __init__(self, path):
        # Local: a process may have another NCCL in it (PyTorch's).
        self.library = ctypes.CDLL(path, mode=0)
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        self.library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
        self.communicator = ctypes.c_void_p()

    def call(self, function, *arguments):
        status = getattr(self.library, function)(*arguments)
        if status != 0:
            raise NcclError(f"{function}: {self.library.ncclGetErrorString(status).decode()}")

    def version(self):
        version = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(version))
        return version.value

    def unique_id(self):
        identity = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(identity))
        return bytes(identity)

    def begin(self, rank, ranks, identity):
        self.ranks = ranks
        identity = UniqueId.from_buffer_copy(identity)
        self.call("ncclCommInitRank", ctypes.byref(self.communicator), ranks, identity, rank)

    def end(self):
        self.call("ncclCommDestroy", self.communicator)

    def enqueue(self, name, source, target, size, stream):
        """A collective of `size` bytes in nccl-tests' meaning, on 32-bit integers; root is rank 0."""
        source, target = ctypes.c_void_p(source), ctypes.c_void_p(target)
        elements = size // 4
        part = ctypes.c_size_t(elements // self.ranks)
        count = ctypes.c_size_t(elements)
        last = (self.communicator, stream)
        if name == "allreduce":
            self.call("ncclAllReduce", source, target, count, INT32, SUM, *last)
        elif name == "allgather":
            self.call("ncclAllGather", source, target, part, INT32, *last)
        elif name == "reducescatter":
            self.call("ncclReduceScatter", source, target, part, INT32, SUM, *last)
        elif name == "broadcast":
            self.call("ncclBroadcast", source, target, count, INT32, 0, *last)
        elif name == "reduce":
            self.call("ncclReduce", source, target, count, INT32, SUM, 0, *last)
        else:
            raise NcclError(f"{name} is none of {', '.join(NAMES)}")
