"""AllReduce and AllGather with torch's Gloo (or, with BACKEND=motet, Motet's backend of torch; with BACKEND=torchft, torchft's group over Gloo):
median, least and most of the slowest rank's times, in µs, and then the time of each call.

Usage: RANK=r WORLD_SIZE=n MASTER_ADDR=… MASTER_PORT=… gloo_bench.py COLLECTIVE BYTES CALLS
"""
import os
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
collective, size, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
backend = os.environ.get("BACKEND", "gloo")
if backend == "motet":
    import motet.torch  # noqa: F401: registers the backend
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if backend == "torchft":
    from torchft.process_group import ProcessGroupGloo

    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    # Kept in a name: it serves as long as somebody holds it.
    store = dist.TCPStore(host, port, is_master=True, wait_for_workers=False) if rank == 0 else None
    group = ProcessGroupGloo()
    group.configure(f"{host}:{port}/bench", str(rank), rank, ranks)


    def reduce(tensor, op=dist.ReduceOp.SUM):
        options = dist.distributed_c10d.AllreduceOptions()
        options.reduceOp = op
        group.allreduce([tensor], options).wait()


    def gather(whole, part):
        group.allgather([list(whole.view(ranks, -1).unbind())], [part], dist.distributed_c10d.AllgatherOptions()).wait()


    def barrier():
        group.barrier().wait()
else:
    dist.init_process_group(backend)
    reduce, gather, barrier = dist.all_reduce, dist.all_gather_into_tensor, dist.barrier
if collective == "allreduce":
    data = torch.ones(size // 4)
    call = lambda: reduce(data)
else:
    part = torch.full((size // 4 // ranks,), float(rank))
    whole = torch.empty(size // 4)
    call = lambda: gather(whole, part)
times = []
for number in range(calls + 3):
    if collective == "allreduce":
        data.fill_(1.0)
    barrier()
    start = time.perf_counter()
    call()
    took = time.perf_counter() - start
    if number >= 3:
        times.append(took)
if collective == "allreduce":
    assert bool((data == ranks).all())
else:
    assert all(bool((whole.view(ranks, -1)[it] == it).all()) for it in range(ranks))
slowest = torch.tensor(times)
reduce(slowest, op=dist.ReduceOp.MAX)
if rank == 0:
    times = [it * 1e6 for it in slowest.tolist()]
    ordered = sorted(times)
    middle, least, most = ordered[len(ordered) // 2], ordered[0], ordered[-1]
    print(collective, size, *(f"{it:.0f}" for it in [middle, least, most, *times]))
