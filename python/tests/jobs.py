"""What ranks do in the tests: functions that are run by processes of their own."""
import datetime
import os
import time

import torch
import torch.distributed as dist

SECONDS = datetime.timedelta(seconds=120)


def begin(backend, rank, ranks, port):
    torch.set_num_threads(1)
    if backend == "motet":
        import motet.torch  # noqa: F401: registers the backend
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    store = dist.TCPStore("127.0.0.1", port, ranks, is_master=False, timeout=SECONDS)
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks, timeout=SECONDS)
    return store


def data(rank, *shape, dtype=torch.float32):
    """Small integers, so that sums are exact in any order."""
    draws = torch.Generator("cpu").manual_seed(100 + rank)
    return torch.randint(-8, 8, shape, generator=draws, device="cpu").to(torch.get_default_device(), dtype)


def use(device, rank):
    """Tensors are on this device from now on."""
    if device == "cuda":
        torch.cuda.set_device(rank % torch.cuda.device_count())
    torch.set_default_device(device)


def collectives(device, rank, ranks, port, seen):
    use(device, rank)
    begin("motet", rank, ranks, port)
    of = range(ranks)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int32, torch.int64):
        mine = data(rank, 5, 7, dtype=dtype)
        both = mine.clone()
        dist.all_reduce(both)
        assert torch.equal(both, sum(data(it, 5, 7, dtype=dtype) for it in of)), dtype
        assert torch.equal(mine, data(rank, 5, 7, dtype=dtype))
    all_of = torch.stack([data(it, 33) for it in of])
    for op, result in ((dist.ReduceOp.MAX, all_of.amax(0)), (dist.ReduceOp.MIN, all_of.amin(0)),
                       (dist.ReduceOp.PRODUCT, all_of.prod(0)), (dist.ReduceOp.AVG, all_of.mean(0))):
        both = data(rank, 33)
        dist.all_reduce(both, op=op)
        assert torch.allclose(both, result), op
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags)
    assert flags.tolist() == [True, True, False]
    # Not contiguous.
    whole = data(rank, 6, 4)
    dist.all_reduce(whole.t()[1:3])
    expected = data(rank, 6, 4)
    expected[:, 1:3] = sum(data(it, 6, 4)[:, 1:3] for it in of)
    assert torch.equal(whole, expected)
    integers(rank, ranks)
    copies(rank, ranks)
    coalesced(rank, ranks)
    uneven(rank, ranks)
    pairs(rank, ranks)
    asynchronous(rank, ranks)
    mistakes(rank, ranks)
    groups(rank, ranks)
    dist.barrier()
    dist.destroy_process_group()
    seen.put(rank)


def waits(rank, ranks, port, seen):
    """The last rank calls only when the others' patience has ended once."""
    store = begin("motet", rank, ranks, port)
    mine = torch.full((5,), float(rank))
    if rank == ranks - 1:
        store.wait(["patience has ended"], SECONDS)
    work = dist.all_reduce(mine, async_op=True)
    if rank == 0:
        try:
            work.wait(datetime.timedelta(seconds=0.3))
        except RuntimeError as error:
            assert "timed out" in str(error), error
        else:
            raise AssertionError("it ended without the last rank")
        assert not work.is_completed()
        store.set("patience has ended", "")
    assert work.wait(SECONDS)
    assert mine.tolist() == [sum(range(ranks))] * 5
    dist.destroy_process_group()
    seen.put(rank)


def copies(rank, ranks):
    of, mine = range(ranks), data(rank, 3, 5)
    lists = [torch.zeros(3, 5) for _ in of]
    dist.all_gather(lists, mine)
    assert all(torch.equal(lists[it], data(it, 3, 5)) for it in of)
    one = torch.zeros(ranks * 3, 5)
    dist.all_gather_into_tensor(one, mine)
    assert torch.equal(one, torch.cat(lists))
    # Any type can be moved.
    shorts = [torch.zeros(3, dtype=torch.int16) for _ in of]
    dist.all_gather(shorts, torch.full((3,), rank, dtype=torch.int16))
    assert [it[0].item() for it in shorts] == list(of)
    part = torch.zeros(4)
    dist.reduce_scatter_tensor(part, data(rank, ranks * 4))
    assert torch.equal(part, sum(data(it, ranks * 4) for it in of)[rank * 4:][:4])
    dist.reduce_scatter(part, list(data(rank, ranks, 4)))
    assert torch.equal(part, sum(data(it, ranks, 4) for it in of)[rank])
    for root in (0, ranks - 1):
        both = data(rank, 11)
        dist.broadcast(both, src=root)
        assert torch.equal(both, data(root, 11))
        both = data(rank, 11)
        dist.reduce(both, dst=root)
        assert torch.equal(both, sum(data(it, 11) for it in of) if rank == root else data(rank, 11))
        gathered = [torch.zeros(11) for _ in of] if rank == root else None
        dist.gather(data(rank, 11), gathered, dst=root)
        assert rank != root or all(torch.equal(gathered[it], data(it, 11)) for it in of)
        mine = torch.zeros(11)
        dist.scatter(mine, list(data(root, ranks, 11)) if rank == root else None, src=root)
        assert torch.equal(mine, data(root, ranks, 11)[rank])
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * rank})
    assert objects == [{"rank": it, "text": "x" * it} for it in of]


def integers(rank, ranks):
    """Unsigned types, and what wraps around."""
    of = range(ranks)
    for name, bits in (("uint8", 8), ("uint32", 32), ("uint64", 64), ("int8", 8)):
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        # torch adds up few of these types itself, so values are Python's.
        top = (1 << (bits - 1)) - 1
        mine = torch.tensor([rank + 1, top - rank], device="cpu").to(torch.get_default_device(), dtype)
        dist.all_reduce(mine)
        total = ranks * top - sum(of)
        total %= 1 << bits
        if name.startswith("int") and total > top:
            total -= 1 << bits
        assert mine.cpu().tolist() == [sum(of) + ranks, total], name
        largest = torch.tensor([rank, top - rank], device="cpu").to(torch.get_default_device(), dtype)
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        assert largest.cpu().tolist() == [ranks - 1, top], name
    # The sum, divided, towards zero.
    mine = torch.tensor([-7 - rank, 7 + rank], dtype=torch.int32)
    dist.all_reduce(mine, op=dist.ReduceOp.AVG)
    average = (7 * ranks + sum(of)) // ranks
    assert mine.tolist() == [-average, average]


def coalesced(rank, ranks):
    """Several calls as one: complete when all of them are, with all results in their places."""
    of = range(ranks)
    several = [data(rank, 500) + it for it in range(4)]
    done = polled(dist.group.WORLD.allreduce_coalesced(several))
    assert all(torch.equal(it, sum(data(rank, 500) for rank in of) + number * ranks) for number, it in enumerate(several))
    assert done.is_success()
    with dist._coalescing_manager(async_ops=True) as manager:
        outputs = [torch.zeros(ranks * 7) for _ in range(3)]
        for number, it in enumerate(outputs):
            dist.all_gather_into_tensor(it, data(rank, 7) + number)
    manager.wait()
    assert all(torch.equal(it, torch.cat([data(rank, 7) for rank in of]) + number) for number, it in enumerate(outputs))
    with dist._coalescing_manager(async_ops=True) as manager:
        outputs = [torch.zeros(5) for _ in range(3)]
        for number, it in enumerate(outputs):
            dist.reduce_scatter_tensor(it, data(rank, ranks * 5) + number)
    manager.wait()
    expected = sum(data(it, ranks * 5) for it in of)[rank * 5:][:5]
    assert all(torch.equal(it, expected + number * ranks) for number, it in enumerate(outputs))
    # Results that are copied out: complete means that they are there.
    whole = torch.zeros(6, 2, ranks)
    lists = [whole[:, :, it].t() for it in of]
    polled(dist.all_gather(lists, data(rank, 2, 6), async_op=True))
    assert all(torch.equal(lists[it], data(it, 2, 6)) for it in of)
    # Sends and receives as one.
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    got = torch.zeros(4, 3)
    ops = [dist.P2POp(dist.isend, data(rank, 12), to), dist.P2POp(dist.irecv, got.t(), source)]
    for it in dist.batch_isend_irecv(ops):
        it.wait()
    assert torch.equal(got.t(), data(source, 12).view(3, 4))


def polled(work):
    """Waits without waiting: asks until it is complete."""
    for _ in range(60_000):
        if work.is_completed():
            return work
        time.sleep(0.001)
    raise AssertionError("it is never complete")


def uneven(rank, ranks):
    of = range(ranks)
    even = torch.zeros(ranks * 2, 3)
    dist.all_to_all_single(even, data(rank, ranks * 2, 3))
    assert torch.equal(even, torch.cat([data(it, ranks * 2, 3)[rank * 2:][:2] for it in of]))
    # Rank r gives s + 1 rows to rank s where r is even, and none where it is odd.
    gives = lambda it: [to + 1 if it % 2 == 0 else 0 for to in of]  # noqa: E731
    mine = data(rank, sum(gives(rank)), 3)
    got = torch.zeros(sum(gives(it)[rank] for it in of), 3)
    dist.all_to_all_single(got, mine, [gives(it)[rank] for it in of], gives(rank))
    expected = [data(it, sum(gives(it)), 3).split(gives(it))[rank] for it in of]
    assert torch.equal(got, torch.cat(expected))
    outputs = [torch.zeros(rank + 1) for _ in of]
    dist.all_to_all(outputs, [torch.full((to + 1,), float(rank)) for to in of])
    assert all(torch.equal(outputs[it], torch.full((rank + 1,), float(it))) for it in of)


def pairs(rank, ranks):
    to, source = (rank + 1) % ranks, (rank - 1) % ranks
    got = torch.zeros(17)
    works = [dist.isend(data(rank, 17), to), dist.irecv(got, source)]
    for it in works:
        it.wait()
    assert torch.equal(got, data(source, 17))
    if rank < 2:
        dist.send(data(rank, 9), 1 - rank, tag=4) if rank == 0 else dist.recv(got[:9], 0, tag=4)
        assert rank == 0 or torch.equal(got[:9], data(0, 9))


def asynchronous(rank, ranks):
    tensors = [data(rank, 1000) + it for it in range(8)]
    works = [dist.all_reduce(it, async_op=True) for it in tensors]
    futures = [it.get_future() for it in works]
    doubled = futures[0].then(lambda it: it.value()[0] * 2)
    for work in reversed(works):
        assert work.wait()
    expected = sum(data(it, 1000) for it in range(ranks))
    for number, tensor in enumerate(tensors):
        assert torch.equal(tensor, expected + number * ranks)
    assert torch.equal(doubled.wait(), 2 * expected)
    assert all(it.is_completed() and it.is_success() for it in works)


def mistakes(rank, ranks):
    for wrong in (lambda: dist.all_reduce(torch.zeros(3, dtype=torch.int16)),
                  lambda: dist.all_reduce(torch.zeros(3, dtype=torch.int32), op=dist.ReduceOp.BAND),
                  lambda: dist.all_gather_into_tensor(torch.zeros(2), torch.zeros(5))):
        try:
            wrong()
        except (ValueError, RuntimeError):
            pass
        else:
            raise AssertionError("it should be refused")


def groups(rank, ranks):
    members = list(range(1, ranks))
    group = dist.new_group(members, timeout=SECONDS)
    if rank in members:
        value = torch.tensor([float(rank)])
        dist.all_reduce(value, group=group)
        assert value.item() == sum(members)


def streams(rank, ranks, port, seen):
    """Calls on a stream of the caller's behind work that takes long, which must be done before data is read or overwritten."""
    use("cuda", rank)
    begin("motet", rank, ranks, port)
    side = torch.cuda.Stream()
    for turn in range(20):
        value, got, before = torch.zeros(1 << 16), torch.full((1 << 16,), -1.0), torch.zeros(1 << 16)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            value += rank + turn
            before.copy_(got)
            works = [dist.isend(value, (rank + 1) % ranks), dist.irecv(got, (rank - 1) % ranks)]
            for it in works:
                it.wait()
            total = dist.all_reduce(value.view(2, -1).t(), async_op=True)
            total.wait()
            seen_there = (got.clone(), value.clone())
        side.synchronize()
        assert torch.equal(before, torch.full((1 << 16,), -1.0)), turn
        assert torch.equal(seen_there[0], torch.full((1 << 16,), float((rank - 1) % ranks + turn))), turn
        assert torch.equal(seen_there[1], torch.full((1 << 16,), float(sum(range(ranks)) + ranks * turn))), turn
    dist.barrier()
    dist.destroy_process_group()
    seen.put(rank)


def train(backend, device, rank, ranks, port, seen):
    """A small job with DDP; its losses, and a digest of its parameters."""
    use(device, rank)
    begin(backend, rank, ranks, port)
    torch.manual_seed(3)
    with torch.device("cpu"):
        model = torch.nn.Sequential(torch.nn.Linear(32, 300), torch.nn.Tanh(), torch.nn.Linear(300, 10))
    model = model.to(device)
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(6):
        draws = torch.Generator("cpu").manual_seed(1000 * step + rank)
        inputs = torch.randn(8, 32, generator=draws, device="cpu").to(device)
        wanted = torch.randint(0, 10, (8,), generator=draws, device="cpu").to(device)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    total = torch.cat([it.detach().reshape(-1) for it in model.parameters()]).double().sum().item()
    dist.barrier()
    dist.destroy_process_group()
    seen.put((rank, losses, total))


def lost(rank, ranks, port, seen):
    """The last rank goes without a word; the others hear of it and do not wait for ever."""
    store = begin("motet", rank, ranks, port)
    dist.all_reduce(torch.ones(4))
    # It goes when the others have come out of their call, in which they would miss it.
    if rank == ranks - 1:
        store.wait([f"past {other}" for other in range(rank)])
        os._exit(0)
    store.set(f"past {rank}", "")
    import motet
    try:
        dist.all_reduce(torch.ones(100_000))
    except motet.LostError as error:
        said = str(error)
    # Nor for the first message between the two, which opens connections of its own, or to leave a call that nobody else makes.
    began = time.monotonic()
    for _ in range(2):
        try:
            dist.recv(torch.ones(4), ranks - 1)
            raise AssertionError("it came")
        except motet.LostError as error:
            assert f"rank {ranks - 1}" in str(error), error
    dist.destroy_process_group()
    assert time.monotonic() - began < SECONDS.total_seconds() / 2
    seen.put((rank, said))
