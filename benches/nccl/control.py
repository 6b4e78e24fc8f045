"""The file that `MOTET_CONTROL` names (crates/motet-runtime/src/segment.rs has its layout): forcing settings from
Python. Change it only while every rank stands between two collectives."""

import ctypes
import mmap
import os
import struct

MAGIC = struct.unpack("<Q", b"MOTETSG1")[0]
SLOTS = 4096
BYTES = 8 * (80 + 8 * SLOTS)
COLLECTIVES = ["allgather", "reducescatter", "allreduce", "broadcast", "reduce"]
ALGORITHMS = ["tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"]
PROTOCOLS = ["ll", "ll128", "simple"]


class Control:
    def __init__(self, path):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size == 0:
                os.posix_fallocate(file, 0, BYTES)
            self.memory = mmap.mmap(file, BYTES)
        finally:
            os.close(file)
        # Eight bytes at a time, aligned: no reader sees half of one.
        self.words = (ctypes.c_uint64 * (BYTES // 8)).from_buffer(self.memory)
        if self.words[0] not in (0, MAGIC):
            raise ValueError(f"{path} is not a control file of this Motet; give another")
        self.words[0] = MAGIC

    def place(self, collective):
        return 16 + 4 * COLLECTIVES.index(collective)

    def word(self, collective):
        return self.words[self.place(collective)]

    def noted(self, collective):
        """How many calls the setting was applied to, and how many did not offer it."""
        place = self.place(collective)
        return self.words[place + 1], self.words[place + 2]

    def offered(self, collective):
        """Whether NCCL offered the setting in the last call. It may ask more than once for a call; once is enough."""
        applied, refused = self.noted(collective)
        return applied > 0 or refused == 0

    def pause_profiling(self, paused):
        """From the next forced call on."""
        self.words[4] = int(paused)

    def force(self, collective, mode):
        """`plan`: nothing is forced. `default`: NCCL's own. Else `algorithm/protocol[/channels]`."""
        place = self.place(collective)
        self.words[place + 1] = self.words[place + 2] = 0
        self.words[1] += 1
        setting = 0
        if mode != "plan":
            setting = 1
            if mode != "default":
                algorithm, protocol, *channels = mode.split("/")
                setting |= (ALGORITHMS.index(algorithm) + 1) << 1
                setting |= (PROTOCOLS.index(protocol) + 1) << 5
                setting |= (int(channels[0]) if channels else 0) << 8
        self.words[place] = (setting | self.words[1] << 51) & (2**64 - 1)
