"""The backend "motet" of torch.distributed: `init_process_group("motet")`, before torch 2.5 after `import motet.torch`.

A `ProcessGroupMotet` is a process group in Python over `motet.Communicator`. Collectives of CPU tensors read and write
the tensors' memory; those of other devices, and tensors that are not contiguous, go through a buffer in the memory of the host (pinned, for
CUDA). Calls return at once. A thread for each group sees their ends, completes their futures and keeps their tensors
alive meanwhile.
"""
import datetime
import ipaddress
import os
import queue
import secrets
import socket
import threading
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from . import _announce
from ._motet import Communicator, Store

_ELEMENTS = {
    torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16", torch.float64: "f64", torch.int8: "i8",
    torch.uint8: "u8", torch.int32: "i32", torch.int64: "i64", torch.bool: "u8",
}
_ELEMENTS.update({getattr(torch, name): short for name, short in (("uint32", "u32"), ("uint64", "u64"))
                  if hasattr(torch, name)})

_REDUCTIONS = {
    dist.ReduceOp.SUM: "sum", dist.ReduceOp.AVG: "average", dist.ReduceOp.PRODUCT: "product", dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
}
# Bools are zeros and ones: their sum says whether any is set, their product whether all are.
_OF_BOOL = {"sum": "max", "product": "min", "min": "min", "max": "max"}


def _reduction(op, dtype):
    op = getattr(op, "op", op)
    name = next((it for known, it in _REDUCTIONS.items() if op == known), None)
    if dtype is torch.bool:
        name = _OF_BOOL.get(name)
    if name is None:
        raise ValueError(f"motet has no reduction {op} of {dtype}")
    if dtype not in _ELEMENTS:
        raise ValueError(f"motet reduces no {dtype}; it does {', '.join(str(it) for it in _ELEMENTS)}")
    return name


def _place(tensor):
    """Where a contiguous tensor of the host is, and its length in bytes."""
    return (tensor.data_ptr(), tensor.numel() * tensor.element_size())


def _on_host(like, shape=None):
    """An empty tensor in the host's memory, of a tensor's type and shape, whatever torch's default device is."""
    shape = like.shape if shape is None else shape
    return torch.empty(shape, dtype=like.dtype, device="cpu", pin_memory=like.device.type == "cuda")


def _is_plain(tensor):
    return tensor.device.type == "cpu" and tensor.is_contiguous()


def _check(tensor):
    if tensor.layout is not torch.strided:
        raise ValueError(f"motet moves dense tensors, and this one is {tensor.layout}")


def _readable(tensor):
    """The tensor, or a copy of it that calls can read."""
    _check(tensor)
    tensor = tensor.detach()
    if _is_plain(tensor):
        return tensor
    return _on_host(tensor).copy_(tensor)


def _writable(tensor):
    """A tensor that calls can write, and what then copies it into the given one, if that is another."""
    _check(tensor)
    tensor = tensor.detach()
    if _is_plain(tensor):
        return tensor, None
    buffer = _on_host(tensor)
    return buffer, _bringing([tensor], lambda: tensor.copy_(buffer))


def _bringing(tensors, bring):
    """A function that calls `bring`, which copies results into tensors, in whichever thread sees the call's end. On a GPU
    the copies run after all work that the caller's stream has now, which may still read what they overwrite, and are done
    when the function returns."""
    device = tensors[0].device if tensors else None
    if device is None or device.type != "cuda":
        return bring
    called = torch.cuda.current_stream(device).record_event()

    def finish():
        stream = torch.cuda.current_stream(device)
        stream.wait_event(called)
        bring()
        stream.synchronize()
    return finish


def _flat(tensors):
    """Tensors one behind the other, in the memory of the host."""
    for it in tensors:
        _check(it)
    return _readable(torch.cat([it.detach().reshape(-1) for it in tensors]))


def _spread(flat, tensors):
    """The opposite of `_flat`."""
    start = 0
    for it in tensors:
        it.detach().copy_(flat[start:start + it.numel()].view(it.shape))
        start += it.numel()


def _devices(result):
    """The GPUs of a call's results, which are tensors or lists of them: a future must know them."""
    if isinstance(result, torch.Tensor):
        return [result.device] if result.device.type == "cuda" else []
    return list(dict.fromkeys(device for it in result for device in _devices(it)))


class _Work(Work):
    """Calls under way. Any thread may wait; the first one also does what is left to do at the end (`finish`)."""

    def __init__(self, handles, result, keep=(), finish=None):
        super().__init__()
        self._handles = handles
        self._result = result
        self._keep = keep
        self._finish = finish
        self._lock = threading.Lock()
        self._ended = False
        self._error = None
        self._future = torch.futures.Future(devices=_devices(result))

    def _end(self, seconds=None):
        """Waits for the end, no longer than some seconds if they are given. Whether it has come; `_error` then says how."""
        until = None if seconds is None else time.monotonic() + seconds

        def left():
            return None if until is None else max(0.0, until - time.monotonic())

        # Another thread that waits has the lock meanwhile.
        if not self._lock.acquire(timeout=-1 if until is None else left()):
            return False
        try:
            if self._ended:
                return True
            try:
                if not all(handle.wait(left()) for handle in self._handles):
                    return False
                if self._finish is not None:
                    self._finish()
            except Exception as error:  # noqa: BLE001: it is the caller's, wherever that waits
                self._error = error
            self._ended = True
            self._keep = self._finish = None
            return True
        finally:
            self._lock.release()

    def _complete(self):
        """Waits for the end and completes the future. Called by the group's own thread."""
        self._end()
        if self._error is None:
            self._future.set_result(self._result)
        else:
            self._future.set_exception(self._error)

    def wait(self, timeout=None):
        """Waits for the end. If it has not come within the timeout (a `timedelta`, or seconds), that is an error, and the work is still
        under way. Without one, or with zero, which is torch's word for none, it is waited for as long as the group's timeout allows."""
        seconds = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        if not self._end(seconds or None):
            # The type and the first words are those of torch's own backends.
            raise RuntimeError(f"Operation timed out! It did not end within {seconds} s and is still under way")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        """Whether the results are there. Never waits. Where something is left to do at the end (copies out, other works), it is
        true only once some thread has done that."""
        if self._ended or self._finish is not None:
            return self._ended
        return all(it.ended() for it in self._handles)

    def is_success(self):
        return self.is_completed() and self._end() and self._error is None

    def exception(self):
        if self.is_completed():
            self._end()
        return self._error

    def result(self):
        self.wait()
        return self._result

    def get_future(self):
        return self._future


class _Part:
    """A work as another work waits for it, which is as for a call."""

    def __init__(self, work):
        self._work = work

    def wait(self, seconds=None):
        if not self._work._end(seconds):
            return False
        return self._work.wait()

    def ended(self):
        return self._work.is_completed()


class ProcessGroupMotet(ProcessGroup):
    """Ranks of a `motet.Communicator` as a process group."""

    # Abilities that torch asks backends about, and that this one lacks.
    supports_splitting = False
    supports_coalescing = False
    _supports_time_estimate = False

    def __init__(self, rank, size, communicator, store=None):
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._communicator = communicator
        self._store = store
        self._works = queue.SimpleQueue()
        threading.Thread(target=_watch, args=(self._works,), name="motet-works", daemon=True).start()

    def _get_backend(self, device):
        """For torch, which asks what a device's backend can do: it is this group, for all devices."""
        return self

    def getBackendName(self):  # noqa: N802: torch's name
        return "motet"

    def name(self):
        return "motet"

    def getRank(self):  # noqa: N802
        return self._rank

    def getSize(self):  # noqa: N802
        return self._size

    def rank(self):
        return self._rank

    def size(self):
        return self._size

    def __repr__(self):
        return f"ProcessGroupMotet(rank {self._rank} of {self._size})"

    # How calls are started.

    def _started(self, handles, result, keep, finish=None):
        work = _Work(handles, result, keep, finish)
        self._works.put(work)
        return work

    def _call(self, name, source, target, part, result, *, reduction=None, root=0, finish=None):
        """Starts a collective from one buffer to another, either of which may be None. `part` is the elements of a part."""
        some = target if source is None else source
        nothing = (0, 0)
        moved = reduction is None
        element = "u8" if moved else _ELEMENTS[some.dtype]
        count = part * some.element_size() if moved else part
        handle = self._communicator.start(
            name, element, count, nothing if source is None else _place(source),
            nothing if target is None else _place(target), reduction, root)
        return self._started([handle], result, (source, target, result), finish)

    def _joined(self, works, result):
        """Several works as one."""
        return self._started([_Part(it) for it in works], result, works)

    # Reductions.

    def allreduce(self, tensors, opts=None):
        if len(tensors) != 1:
            return self.allreduce_coalesced(tensors, opts)
        tensor = tensors[0]
        reduction = _reduction(_op(opts), tensor.dtype)
        source = _readable(tensor)
        if source.data_ptr() == tensor.data_ptr():
            return self._call("allreduce", source, source, source.numel(), tensors, reduction=reduction)
        # The copy is input and output at once, like the tensor itself above.
        return self._call("allreduce", source, source, source.numel(), tensors, reduction=reduction,
                          finish=_bringing(tensors, lambda: tensor.detach().copy_(source)))

    def allreduce_coalesced(self, tensors, opts=None):
        return self._joined([self.allreduce([it], opts) for it in tensors], tensors)

    def reduce(self, tensors, opts):
        tensor, = tensors
        reduction = _reduction(opts.reduceOp, tensor.dtype)
        source = _readable(tensor)
        target, finish = _writable(tensor) if opts.rootRank == self._rank else (None, None)
        return self._call("reduce", source, target, source.numel(), tensors, reduction=reduction, root=opts.rootRank,
                          finish=finish)

    def reduce_scatter_single(self, output, input, opts=None):  # noqa: A002: torch's name
        reduction = _reduction(_op(opts), input.dtype)
        self._same(input, output.numel() * self._size)
        source, (target, finish) = _readable(input), _writable(output)
        return self._call("reducescatter", source, target, output.numel(), [output], reduction=reduction, finish=finish)

    def _reduce_scatter_base(self, output, input, opts=None):  # noqa: A002
        return self.reduce_scatter_single(output, input, opts)

    def reduce_scatter(self, outputs, inputs, opts=None):
        output, = outputs
        return self.reduce_scatter_single(output, _flat(inputs[0]), opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        works = [self.reduce_scatter_single(*it, opts) for it in zip(outputs, inputs)]
        return self._joined(works, outputs)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=None):
        return self.reduce_scatter_single_coalesced(outputs, inputs, opts)

    # Copies.

    def all_gather_single(self, output, input, opts=None):  # noqa: A002
        self._same(output, input.numel() * self._size)
        source, (target, finish) = _readable(input), _writable(output)
        return self._call("allgather", source, target, source.numel(), [output], finish=finish)

    def _allgather_base(self, output, input, opts=None):  # noqa: A002
        return self.all_gather_single(output, input, opts)

    def allgather(self, outputs, inputs, opts=None):
        tensor, = inputs
        for it in outputs[0]:
            self._same(it, tensor.numel())
        source = _readable(tensor)
        flat = _on_host(tensor, (self._size * source.numel(),))
        finish = _bringing(outputs[0], lambda: _spread(flat, outputs[0]))
        return self._call("allgather", source, flat, source.numel(), outputs, finish=finish)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return self._joined([self.all_gather_single(*it, opts) for it in zip(outputs, inputs)], outputs)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=None):
        return self.all_gather_single_coalesced(outputs, inputs, opts)

    def allgather_coalesced(self, output_lists, inputs, opts=None):
        works = [self.allgather([[lists[place] for lists in output_lists]], [it], opts)
                 for place, it in enumerate(inputs)]
        return self._joined(works, output_lists)

    def broadcast(self, tensors, opts):
        tensor, = tensors
        if opts.rootRank == self._rank:
            source = _readable(tensor)
            return self._call("broadcast", source, None, source.numel(), tensors, root=opts.rootRank)
        target, finish = _writable(tensor)
        return self._call("broadcast", None, target, target.numel(), tensors, root=opts.rootRank, finish=finish)

    def gather(self, outputs, inputs, opts):
        tensor, = inputs
        source, flat, finish = _readable(tensor), None, None
        if opts.rootRank == self._rank:
            flat = _on_host(tensor, (self._size * source.numel(),))
            finish = _bringing(outputs[0], lambda: _spread(flat, outputs[0]))
        return self._call("gather", source, flat, source.numel(), outputs, root=opts.rootRank, finish=finish)

    def scatter(self, outputs, inputs, opts):
        output, = outputs
        source = _flat(inputs[0]) if opts.rootRank == self._rank else None
        if source is not None:
            self._same(source, output.numel() * self._size)
        target, finish = _writable(output)
        return self._call("scatter", source, target, target.numel(), outputs, root=opts.rootRank, finish=finish)

    def all_to_all_single(self, output, input, output_splits, input_splits, opts=None):  # noqa: A002
        if not output_splits and not input_splits:
            self._same(output, input.numel())
            source, (target, finish) = _readable(input), _writable(output)
            return self._call("alltoall", source, target, input.numel() // self._size, [output], finish=finish)
        def parts(tensor, splits):
            splits = list(splits) or [tensor.shape[0] // self._size] * self._size
            return list(tensor.detach().split(splits))
        return self._uneven(parts(output, output_splits), parts(input, input_splits), [output])

    def alltoall_base(self, output, input, output_splits, input_splits, opts=None):  # noqa: A002
        return self.all_to_all_single(output, input, output_splits, input_splits, opts)

    def alltoall(self, outputs, inputs, opts=None):
        return self._uneven(outputs, inputs, outputs)

    def _uneven(self, outputs, inputs, result):
        """An AllToAll of parts of different lengths. All are padded to the longest, which the ranks first find together."""
        lengths = [it.numel() for it in [*outputs, *inputs]]
        longest = torch.tensor([max(lengths, default=0)], device="cpu")
        self.allreduce([longest], _Max).wait()
        part = _rounded(int(longest))
        source = _on_host(inputs[0], (self._size, part))
        target = _on_host(outputs[0], (self._size, part))
        for row, it in zip(source, inputs):
            row[:it.numel()].copy_(it.detach().reshape(-1))

        def bring():
            for row, it in zip(target, outputs):
                it.detach().copy_(row[:it.numel()].view(it.shape))
        return self._call("alltoall", source, target, part, result, finish=_bringing(outputs, bring))

    def barrier(self, opts=None):
        source, target = (torch.zeros(it, dtype=torch.uint8, device="cpu") for it in (1, self._size))
        return self._call("allgather", source, target, 1, [])

    # Between two ranks.

    def send(self, tensors, to, tag=0):
        tensor, = tensors
        source = _readable(tensor)
        return self._started([self._communicator.send(_place(source), to, tag)], tensors, (source, tensors))

    def recv(self, tensors, source, tag=0):
        tensor, = tensors
        target, finish = _writable(tensor)
        handle = self._communicator.receive(_place(target), source, tag)
        return self._started([handle], tensors, (target, tensors), finish)

    def recv_anysource(self, tensors, tag=0):
        raise NotImplementedError("motet receives from a rank that is named")

    def _same(self, tensor, elements):
        if tensor.numel() != elements:
            raise ValueError(f"a tensor must have {elements} elements and has {tensor.numel()}")

    # The end.

    def shutdown(self):
        self._communicator.leave()
        self._works.put(None)

    def abort(self):
        self.shutdown()


class _Max:
    reduceOp = dist.ReduceOp.MAX


def _op(opts):
    return dist.ReduceOp.SUM if opts is None else opts.reduceOp


def _rounded(elements):
    """A length rounded up a little, so that calls of nearly the same length share an operation."""
    step = max(1, 1 << max(0, elements.bit_length() - 4))
    return max(1, -(-elements // step) * step)


def _watch(works):
    """Completes works in their order."""
    while (work := works.get()) is not None:
        work._complete()
        # Otherwise its tensors would be kept until the next one comes.
        del work


def _address():
    """The address of this host at which others reach it: the one that it has towards the job's master."""
    given = os.environ.get("MOTET_ADDRESS")
    if given:
        return given
    master = os.environ.get("MASTER_ADDR", "127.0.0.1")
    family, _, _, _, address = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        # Connecting a datagram socket sends nothing: it only chooses the route, and so the local address.
        probe.connect(address)
        return probe.getsockname()[0]


def _tls():
    """The files for TLS that the environment names, as arguments."""
    found = {it: os.environ.get(f"MOTET_EXEC_TLS_{it.upper()}") for it in ("certificate", "key", "ca", "name")}
    return {f"tls_{it}": value for it, value in found.items() if value}


def _create(opts, backend_options=None):
    """Makes a process group: `init_process_group` and `new_group` call this."""
    rank, size = opts.group_rank, opts.group_size
    served = None
    if rank == 0:
        address, token = ipaddress.ip_address(_address().split("%")[0]), secrets.token_hex(16)
        host = f"[{address}]" if address.version == 6 else str(address)
        served = Store(f"{host}:0", token, **_tls())
        opts.store.set("motet", f"{served.address} {token}")
    address, token = opts.store.get("motet").decode().split(" ")
    seconds = max(1, int(opts.timeout.total_seconds()))
    environment = os.environ.get
    cluster = environment("MOTET_CLUSTER") or None
    members = list(opts.global_ranks_in_group) or None
    communicator = Communicator(
        address, rank, size, token=token, store_apart=True, cluster=cluster, members=members if cluster else None,
        method=environment("MOTET_METHOD", "auto"), streams=int(environment("MOTET_STREAMS", "0")),
        bind=environment("MOTET_ADDRESS") or None, shared_memory=environment("MOTET_SHARED_MEMORY", "1") != "0",
        checksums=environment("MOTET_CHECKSUMS", "0") == "1", silence=int(environment("MOTET_SILENCE", "30")),
        wait=seconds, deadline=seconds, **_tls())
    return ProcessGroupMotet(rank, size, communicator, served)


# torch 2.5 and later have called this themselves.
_announce()
