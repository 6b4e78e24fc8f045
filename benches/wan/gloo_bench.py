"""AllReduce and AllGather with torch's Gloo (or, with BACKEND=motet, Motet's backend of torch): median, least and most of the slowest rank's times,
in µs, and then the time of each call.

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
dist.init_process_group(backend)
rank, ranks = dist.get_rank(), dist.get_world_size()
if collective == "allreduce":
    data = torch.ones(size // 4)
    call = lambda: dist.all_reduce(data)
else:
    part = torch.full((size // 4 // ranks,), float(rank))
    whole = torch.empty(size // 4)
    call = lambda: dist.all_gather_into_tensor(whole, part)
times = []
for number in range(calls + 3):
    if collective == "allreduce":
        data.fill_(1.0)
    dist.barrier()
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
dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
if rank == 0:
    times = [it * 1e6 for it in slowest.tolist()]
    ordered = sorted(times)
    middle, least, most = ordered[len(ordered) // 2], ordered[0], ordered[-1]
    print(collective, size, *(f"{it:.0f}" for it in [middle, least, most, *times]))
