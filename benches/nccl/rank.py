"""One rank of `run.py`, which starts it and tells it what to do, line by line. It does every step together with the
others: `run.py` sends a step when all have answered the one before, which is the only barrier there is, so that
settings can be changed in between.

    rank.py HOST PORT RANK RANKS DEVICE NCCL"""

import array
import base64
import json
import os
import socket
import sys

import cuda
import nccl

PERIOD = 251  # a prime, so that no chunk looks like the next


def pattern(elements, first):
    """`elements` integers: position modulo PERIOD, plus `first`, as bytes."""
    block = array.array("i", (it + first for it in range(PERIOD))).tobytes()
    return (block * (elements // PERIOD + 1))[: 4 * elements]


def sums(elements, offset, ranks):
    """What all ranks' patterns add up to, from element `offset` on."""
    total = ranks * (ranks - 1) // 2
    block = array.array("i", (ranks * ((it + offset) % PERIOD) + total for it in range(PERIOD))).tobytes()
    return (block * (elements // PERIOD + 1))[: 4 * elements]


def expected(name, rank, ranks, size):
    """What must be in the target; none where it does not matter."""
    elements, part = size // 4, size // 4 // ranks
    if name == "allreduce":
        return sums(elements, 0, ranks)
    if name == "allgather":
        return b"".join(pattern(part, it) for it in range(ranks))
    if name == "reducescatter":
        return sums(part, part * rank, ranks)
    if name == "broadcast":
        return pattern(elements, 0)
    return sums(elements, 0, ranks) if rank == 0 else None


class Rank:
    def __init__(self, rank, ranks, device, library):
        self.rank, self.ranks = rank, ranks
        self.nccl = nccl.Nccl(library)
        self.gpu = cuda.Gpu(device)
        self.size = 0
        self.start, self.stop = self.gpu.event(), self.gpu.event()
        self.graphs = {}

    def do(self, step):
        return getattr(self, "do_" + step["do"])(step)

    def do_about(self, _):
        return {"nccl": self.nccl.version(), "gpu": self.gpu.name}

    def do_identity(self, _):
        return {"id": base64.b64encode(self.nccl.unique_id()).decode()}

    def do_begin(self, step):
        self.nccl.begin(self.rank, self.ranks, base64.b64decode(step["id"]))
        return {}

    def do_room(self, step):
        self.size = step["bytes"]
        self.source, self.target = self.gpu.allocate(self.size), self.gpu.allocate(self.size)
        return {}

    def enqueue(self, step, times=1):
        for _ in range(times):
            self.nccl.enqueue(step["collective"], self.source, self.target, step["bytes"], self.gpu.stream)

    def do_check(self, step):
        """Fresh input, poisoned output, every element compared."""
        size = step["bytes"]
        self.gpu.write(self.source, pattern(size // 4, self.rank))
        self.gpu.fill(self.target, 0xA5, size)
        self.enqueue(step)
        self.gpu.wait()
        wanted = expected(step["collective"], self.rank, self.ranks, size)
        return {"right": wanted is None or self.gpu.read(self.target, len(wanted)) == wanted}

    def do_capture(self, step):
        self.graphs[step["mode"]] = self.gpu.capture(lambda: self.enqueue(step, step["calls"]))
        return {}

    def do_forget(self, _):
        for graph in self.graphs.values():
            self.gpu.forget(graph)
        self.graphs = {}
        return {}

    def do_time(self, step):
        """µs per call, of `calls` in a row, after one that brings the ranks together."""
        graph = self.graphs.get(step["mode"])
        if graph is None:
            self.enqueue(step)
        else:
            self.gpu.launch(graph)
        self.gpu.record(self.start)
        if graph is None:
            self.enqueue(step, step["calls"])
        else:
            self.gpu.launch(graph)
        self.gpu.record(self.stop)
        self.gpu.wait()
        return {"us": self.gpu.microseconds(self.start, self.stop) / step["calls"]}

    def do_stretch(self, step):
        """Bursts of every point in turn, again and again, as training steps have them: the host waits after each turn.
        µs per call, for each point and repeat."""
        if not hasattr(self, "marks"):
            self.marks = [self.gpu.event() for _ in range(len(step["points"]) + 1)]
        found = [[] for _ in step["points"]]
        for _ in range(step["repeats"]):
            # One that brings the ranks together.
            first = step["points"][0]
            self.nccl.enqueue(first[0], self.source, self.target, first[1], self.gpu.stream)
            self.gpu.record(self.marks[0])
            for (collective, size, calls), mark in zip(step["points"], self.marks[1:]):
                self.enqueue({"collective": collective, "bytes": size}, calls)
                self.gpu.record(mark)
            self.gpu.wait()
            for number, (_, _, calls) in enumerate(step["points"]):
                found[number].append(self.gpu.microseconds(self.marks[number], self.marks[number + 1]) / calls)
        return {"us": found}

    def do_end(self, _):
        self.nccl.end()
        return {}


class Dry(Rank):
    """Without a GPU and without NCCL, for the tests of the harness: a call takes as long as the control file says
    (forced to NCCL's own: 2 µs, otherwise 1), and the last rank is slowest."""

    def __init__(self, rank, ranks, device, library):
        self.rank, self.ranks, self.graphs = rank, ranks, {}

    def do_about(self, _):
        return {"nccl": 0, "gpu": "none"}

    def do_identity(self, _):
        return {"id": base64.b64encode(bytes(128)).decode()}

    def do_nothing(self, _):
        return {}

    do_begin = do_room = do_capture = do_forget = do_end = do_nothing

    def do_check(self, step):
        data = expected(step["collective"], self.rank, self.ranks, step["bytes"])
        return {"right": data is None or len(data) % 4 == 0}

    def do_time(self, step):
        import control

        # The competing job of `live.py` has no control file.
        if "MOTET_CONTROL" not in os.environ:
            return {"us": 1.0}
        forced = control.Control(os.environ["MOTET_CONTROL"]).word(step["collective"]) & 1
        return {"us": (2.0 if forced else 1.0) + self.rank / 1000}

    def do_stretch(self, step):
        """What is asked of `live.py`'s sides: under load a plan is worse than NCCL's own, and the agent better."""
        side = "agent" if "MOTET_AGENT" in os.environ else "nccl"
        if side == "nccl" and os.environ["NCCL_TUNER_PLUGIN"] != "none":
            side = "plan"
        quiet, loaded = {"nccl": (2.0, 3.0), "plan": (1.0, 4.0), "agent": (1.0, 2.0)}[side]
        us = (quiet if step["load"] == "none" else loaded) + self.rank / 1000
        return {"us": [[us] * step["repeats"] for _ in step["points"]]}


def main():
    host, port, rank, ranks, device, library = sys.argv[1:]
    kind = Dry if library == "dry" else Rank
    with socket.create_connection((host, int(port))) as connection, connection.makefile("rw") as lines:
        print(json.dumps({"rank": int(rank)}), file=lines, flush=True)
        worker = None
        for line in lines:
            try:
                worker = worker or kind(int(rank), int(ranks), int(device), library)
                answer = worker.do(json.loads(line))
            except (cuda.CudaError, nccl.NcclError, OSError) as error:
                answer = {"error": f"rank {rank}: {error}"}
            print(json.dumps(answer), file=lines, flush=True)


if __name__ == "__main__":
    main()
