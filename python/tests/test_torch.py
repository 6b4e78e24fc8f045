"""The backend of torch.distributed, with ranks as processes of this machine. Skipped where torch or the package are not."""
import datetime
import importlib.metadata
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import pytest

torch = pytest.importorskip("torch")
motet_torch = pytest.importorskip("motet.torch")

import jobs  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402


def run(job, ranks, *before, gone=()):
    """Runs a job on all ranks; what they said, in rank order."""
    context = mp.get_context("spawn")
    seen = context.SimpleQueue()
    # Port 0: whichever is free. The store lives in this process, so no rank can take it along.
    store = dist.TCPStore("127.0.0.1", 0, ranks, is_master=True, wait_for_workers=False)
    processes = [context.Process(target=job, args=(*before, rank, ranks, store.port, seen)) for rank in range(ranks)]
    for it in processes:
        it.start()
    for it in processes:
        it.join(240)
    codes = [it.exitcode for it in processes]
    for it in processes:
        it.kill()
    assert codes == [0] * ranks, f"exit codes {codes}"
    said = []
    while not seen.empty():
        said.append(seen.get())
    assert len(said) == ranks - len(gone)
    return sorted(said)


# CUDA's runs where there is a GPU, which all ranks may share.
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
on_devices = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])


class Handle:
    """A call that ends when the test says so."""

    def __init__(self):
        self.done = threading.Event()

    def ended(self):
        return self.done.is_set()

    def wait(self, seconds=None):
        ended = self.done.wait(60 if seconds is None else seconds)
        assert ended or seconds is not None
        return ended


def test_a_work_is_complete_when_its_results_are_there():
    handle, copied = Handle(), threading.Event()
    work = motet_torch._Work([handle], [torch.zeros(1)], finish=lambda: copied.wait(60))
    assert not work.is_completed() and work.exception() is None
    thread = threading.Thread(target=work._complete)
    thread.start()
    handle.done.set()
    time.sleep(0.05)
    assert not work.is_completed(), "what came is still to be copied out"
    copied.set()
    thread.join()
    assert work.is_completed() and work.is_success()


def test_works_as_one_are_complete_when_all_are():
    inner = motet_torch._Work([Handle()], [])
    joined = motet_torch._Work([motet_torch._Part(inner)], [], (inner,))
    assert not joined.is_completed() and not joined.is_success()
    inner._handles[0].done.set()
    assert inner.is_completed() and joined.wait() and joined.is_completed()


def test_a_work_that_failed_says_so_without_waiting():
    def failing(seconds=None):
        raise RuntimeError("lost")
    work = motet_torch._Work([Handle()], [])
    work._handles[0].wait = failing
    assert not work.is_completed() and work.exception() is None
    work._handles[0].done.set()
    assert work.is_completed() and not work.is_success() and str(work.exception()) == "lost"


@pytest.mark.parametrize("watched", [False, True])
def test_a_wait_ends_when_its_time_is_up_and_the_work_goes_on(watched):
    work = motet_torch._Work([Handle()], [torch.zeros(1)])
    joined = motet_torch._Work([motet_torch._Part(work)], [])
    # The group's own thread may be waiting as well.
    thread = threading.Thread(target=work._complete)
    if watched:
        thread.start()
        time.sleep(0.05)
    for it in (work, joined):
        for timeout in (0.05, datetime.timedelta(seconds=0.05)):
            with pytest.raises(RuntimeError, match="timed out"):
                it.wait(timeout)
            assert not it.is_completed() and it.exception() is None
    threading.Timer(0.1, work._handles[0].done.set).start()
    # Zero is torch's word for no timeout.
    assert work.wait(datetime.timedelta(0)) and joined.wait(30) and joined.is_success()
    if watched:
        thread.join()


def test_a_call_that_was_waited_for_too_shortly_ends_well():
    assert run(jobs.waits, 2) == [0, 1]


def test_the_backend_is_known_without_an_import():
    numbers = [int(it) for it in torch.__version__.split(".")[:2]]
    if numbers < [2, 5] or not list(importlib.metadata.Distribution.discover(name="motet")):
        pytest.skip("torch loads backends by itself from 2.5 on, if they were installed as packages")
    script = (
        "import sys, torch.distributed as dist\n"
        "assert 'motet.torch' not in sys.modules\n"
        "dist.init_process_group('motet', store=dist.HashStore(), rank=0, world_size=1)\n"
        "assert dist.get_backend() == 'motet'\n"
        # As before, for torch's that do not do so.
        "import motet.torch\n"
        "dist.destroy_process_group()\n")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def losses(backend, ranks=2):
    """What the example prints, with processes as torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    example = pathlib.Path(__file__).parent.parent / "examples" / "diloco.py"
    words = [sys.executable, str(example), "--backend", backend, "--outer", "4", "--inner", "10"]
    own = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    all_of = [subprocess.Popen(words, env={**os.environ, **own, "RANK": str(it)}, stdout=subprocess.PIPE, text=True)
              for it in range(ranks)]
    said = [it.communicate(timeout=240)[0] for it in all_of]
    assert [it.returncode for it in all_of] == [0] * ranks, said
    return [float(it) for it in re.findall(r"loss (\S+)", said[0])]


def test_the_diloco_example_learns_what_it_does_with_gloo():
    ours, gloo = losses("motet"), losses("gloo")
    assert len(ours) == 4 and ours[-1] < ours[0], ours
    assert ours == pytest.approx(gloo, rel=1e-4)


@on_devices
def test_collectives(device):
    assert run(jobs.collectives, 3, device) == [0, 1, 2]


@needs_gpu
def test_streams():
    assert run(jobs.streams, 3) == [0, 1, 2]


def certificate(folder):
    """A certificate that is its own CA, by the variables that name its files."""
    subject = ["-subj", "/CN=motet", "-addext", "subjectAltName=DNS:motet", "-addext", "basicConstraints=critical,CA:FALSE"]
    key = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    files = [str(folder / name) for name in ("own.pem", "own.key")]
    subprocess.run(["openssl", "req", *key, *subject, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return {"CERTIFICATE": files[0], "KEY": files[1], "CA": files[0]}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")
def test_collectives_over_tls(tmp_path, monkeypatch):
    for name, file in certificate(tmp_path).items():
        monkeypatch.setenv(f"MOTET_EXEC_TLS_{name}", file)
    monkeypatch.setenv("MOTET_SHARED_MEMORY", "0")
    assert run(jobs.collectives, 3, "cpu") == [0, 1, 2]
    # Where a file is missing nobody goes on without TLS.
    monkeypatch.delenv("MOTET_EXEC_TLS_KEY")
    with pytest.raises(ValueError, match="TLS also needs its key"):
        motet_torch.Store("127.0.0.1:0", "", **motet_torch._tls())


@on_devices
def test_ddp_as_gloo_does(device):
    ours, gloo = run(jobs.train, 3, "motet", device), run(jobs.train, 3, "gloo", device)
    for (rank, losses, total), (other, expected, total_of_gloo) in zip(ours, gloo):
        assert rank == other
        # Sums in another order differ in the last bits.
        assert losses == pytest.approx(expected, rel=1e-5)
        assert total == pytest.approx(total_of_gloo, rel=1e-4, abs=1e-4)
    assert len({it[2] for it in ours}) == 1, "all ranks have the same model"


def test_a_rank_that_is_gone_is_named():
    said = run(jobs.lost, 3, gone=(2,))
    assert [it[0] for it in said] == [0, 1]
    assert all("rank 2" in text for _, text in said), said
