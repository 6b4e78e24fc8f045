#!/usr/bin/env python3
"""A small transformer under FSDP2, recorded by PyTorch's profiler: one Kineto trace per rank.

The traces are what `motet workload show FOLDER` and windows are tried on. Ranks are processes; with fewer GPUs than
ranks they share them, and NCCL then talks over sockets. Run by torchrun:

    torchrun --nproc-per-node 4 fsdp_kineto.py --out traces

or without it, which starts the ranks itself:

    python fsdp_kineto.py --ranks 4 --out traces

With `--stages 2` half of the layers is on half of the ranks, by PyTorch's pipelining and 1F1B, and the step ends as TorchTitan's does:
norm of the gradients summed over replicas and then over stages, clipping, optimizer, loss. Such traces have two parallelisms, and so
windows (`motet rails windows traces --domain 1`).

With `--times` nothing is recorded but how long steps take; benches/shim/run.py uses that.

Needs PyTorch 2.4 or later, and 2.6 for stages. `--backend gloo` runs on CPUs, to try the script: such a trace has no kernels, and Motet
refuses it with that reason.
"""

import argparse
import ctypes
import functools
import os
import socket
import subprocess
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder of the traces, made if it is not there")
    parser.add_argument("--ranks", type=int, default=2, help="ranks to start, without torchrun")
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--batch", type=int, default=2, help="sequences of a rank")
    parser.add_argument("--steps", type=int, default=4, help="steps that are recorded")
    parser.add_argument("--stages", type=int, default=1, help="stages of a pipeline")
    parser.add_argument("--micro-batches", type=int, default=2, help="into which a pipeline cuts the batch")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--times", action="store_true", help="write how long steps take (steps-RANK.csv) instead of traces")
    return parser.parse_args()


def launch(args):
    """Starts the ranks as torchrun would, and returns the worst of their exit codes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(args.ranks):
        names = {
            "RANK": rank,
            "LOCAL_RANK": rank,
            "WORLD_SIZE": args.ranks,
            "LOCAL_WORLD_SIZE": args.ranks,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
        }
        env = {**os.environ, **{name: str(value) for name, value in names.items()}}
        ranks.append(subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:]], env=env))
    # A rank that fails would leave the others waiting for it.
    while any(it.poll() is None for it in ranks):
        if any(it.poll() not in (None, 0) for it in ranks):
            for it in ranks:
                it.terminate()
        time.sleep(0.1)
    return max((it.returncode for it in ranks), key=abs)


def share_gpus(world, gpus):
    """NCCL refuses two ranks of one GPU unless they look like ranks of two hosts, joined by sockets."""
    if world > gpus:
        os.environ.setdefault("NCCL_HOSTID", f"rank-{os.environ['RANK']}")
        os.environ.setdefault("NCCL_NET", "Socket")
        os.environ.setdefault("NCCL_P2P_DISABLE", "1")
        os.environ.setdefault("NCCL_SHM_DISABLE", "1")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")


def model(args, torch, stage=0):
    """The whole model, or a stage's layers, with the embedding on the first and the head on the last."""
    nn = torch.nn
    first, last = stage == 0, stage == args.stages - 1

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(args.hidden) for _ in range(2)])
            self.qkv = nn.Linear(args.hidden, 3 * args.hidden, bias=False)
            self.out = nn.Linear(args.hidden, args.hidden, bias=False)
            self.up = nn.Linear(args.hidden, 4 * args.hidden, bias=False)
            self.down = nn.Linear(4 * args.hidden, args.hidden, bias=False)

        def forward(self, x):
            batch, length, width = x.shape
            split = (batch, length, 3, args.heads, width // args.heads)
            q, k, v = self.qkv(self.norms[0](x)).view(split).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(args.vocab, args.hidden) if first else nn.Identity()
            self.blocks = nn.ModuleList([Block() for _ in range(args.layers // args.stages)])
            self.head = nn.Linear(args.hidden, args.vocab, bias=False) if last else nn.Identity()

        def forward(self, x):
            x = self.embedding(x)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Model()


def sharded(args, net, mesh, torch, mixed):
    """FSDP2: every block is a unit of its own, and the rest is the last one."""
    try:
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    except ImportError:  # before 2.6
        from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard
    options = {"mesh": mesh}
    if args.stages > 1:
        # Gathered once for all micro-batches, as in TorchTitan.
        options["reshard_after_forward"] = False
    if mixed:
        options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in net.blocks:
        fully_shard(block, **options)
    fully_shard(net, **options)
    return net


def loss_of(logits, targets):
    import torch

    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def plain_step(net, optimizer, tokens, targets):
    """One step without a pipeline."""
    loss = loss_of(net(tokens), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def pipeline(args, net, mesh, stage, device):
    """A function that takes one step of a stage."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    across, replicas = mesh["pp"].get_group(), mesh["dp_shard"].get_group()
    part = PipelineStage(net, stage, args.stages, torch.device(device), group=across)
    schedule = Schedule1F1B(part, n_microbatches=args.micro_batches, loss_fn=loss_of)
    last = stage == args.stages - 1

    def step(optimizer, tokens, targets):
        losses = []
        if stage == 0:
            schedule.step(tokens)
        elif last:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        # As in TorchTitan: a number that comes from the host makes the first stage's host wait for the GPU here.
        loss = torch.stack(losses).mean() if last else torch.tensor([-1.0], device=device)
        grads = [it.grad for it in net.parameters() if it.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        norm = norm**2
        dist.all_reduce(norm, group=across)
        torch.nn.utils.clip_grads_with_norm_(net.parameters(), 1.0, norm.sqrt())
        optimizer.step()
        optimizer.zero_grad()
        if last:
            loss = loss.detach().clone()
            dist.all_reduce(loss, group=replicas)
            loss.item()
        return loss

    return step


def time_steps(args, step, on_gpu, rank):
    """Takes the steps without a profiler and writes how long each took. A preloaded shim is told where steps end."""
    import torch

    mark = getattr(ctypes.CDLL(None), "motet_shim_iteration", lambda: None)
    taken = []
    for _ in range(args.warmup + args.steps):
        start = time.perf_counter()
        loss = step()
        if on_gpu:
            torch.cuda.synchronize()
        mark()
        taken.append((time.perf_counter() - start, float(loss)))
    with open(os.path.join(args.out, f"steps-{rank}.csv"), "w") as file:
        file.write("step,seconds,loss\n")
        file.writelines(f"{number},{seconds:.6f},{loss:.6f}\n" for number, (seconds, loss) in enumerate(taken))


def train(args):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local = int(os.environ.get("LOCAL_RANK", rank))
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.profiler import ProfilerActivity, profile, schedule

    on_gpu = args.backend == "nccl"
    if on_gpu:
        gpus = torch.cuda.device_count()
        if gpus == 0:
            sys.exit("there is no GPU; `--backend gloo` runs on the CPU")
        share_gpus(int(os.environ.get("LOCAL_WORLD_SIZE", world)), gpus)
        torch.cuda.set_device(local % gpus)
    device = "cuda" if on_gpu else "cpu"
    dist.init_process_group(args.backend)
    if args.stages > 1:
        shape = (args.stages, world // args.stages)
        mesh = init_device_mesh(device, shape, mesh_dim_names=("pp", "dp_shard"))
        stage, replicas = mesh.get_local_rank("pp"), mesh["dp_shard"]
    else:
        stage, replicas = 0, init_device_mesh(device, (world,), mesh_dim_names=("dp_shard",))
    torch.manual_seed(stage)
    net = sharded(args, model(args, torch, stage).to(device), replicas, torch, mixed=on_gpu)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    if args.stages > 1:
        step = pipeline(args, net, mesh, stage, device)
    else:
        step = functools.partial(plain_step, net)
    torch.manual_seed(rank)
    shape = (args.batch, args.sequence)
    tokens = torch.randint(args.vocab, shape, device=device)
    targets = torch.randint(args.vocab, shape, device=device)

    os.makedirs(args.out, exist_ok=True)
    if args.times:
        time_steps(args, lambda: step(optimizer, tokens, targets), on_gpu, rank)
        dist.barrier()
        dist.destroy_process_group()
        return
    file = os.path.join(args.out, f"rank-{rank}.json")
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if on_gpu else [])
    plan = schedule(wait=args.warmup - 1, warmup=1, active=args.steps, repeat=1)
    # Shapes, stacks and memory would make the file large and tell nothing of communication.
    with profile(
        activities=activities, schedule=plan, on_trace_ready=lambda it: it.export_chrome_trace(file)
    ) as profiler:
        for _ in range(args.warmup + args.steps):
            loss = step(optimizer, tokens, targets)
            if on_gpu:
                # So that a step's kernels lie within the step.
                torch.cuda.synchronize()
            profiler.step()
    dist.barrier()
    if rank == world - 1:
        count = sum(it.numel() for it in net.parameters())
        whose = "" if args.stages == 1 else " on the last stage"
        print(f"{world} ranks, {count / 1e6:.1f} million parameters{whose}, loss {loss.item():.3f}, traces in {args.out}")
    dist.destroy_process_group()


def main():
    args = arguments()
    if args.warmup < 1:
        sys.exit("--warmup is at least 1: the profiler needs a step to start")
    ranks = int(os.environ.get("WORLD_SIZE", args.ranks))
    if ranks % args.stages or args.layers % args.stages or args.batch % args.micro_batches:
        sys.exit("stages must divide ranks and layers, and micro-batches the batch")
    if "RANK" in os.environ:
        train(args)
    else:
        sys.exit(launch(args))


if __name__ == "__main__":
    main()
