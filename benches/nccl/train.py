#!/usr/bin/env python3
"""A small transformer trained by PyTorch (DDP and FSDP) with and without a plan, in turns: the time of a step, and that
the losses agree. Needs PyTorch; ranks share the GPUs of this machine, over sockets where there are more ranks than GPUs.

    train.py --plugin /path/libmotet_nccl.so --plan plan --ranks 4 --out results [--preload /path/libnccl.so.2]
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time

LAYERS, WIDTH, HEADS, TOKENS, BATCH, WORDS = 4, 512, 8, 128, 4, 4096


def worker(kind, steps):
    import torch
    import torch.distributed as dist
    from torch import nn

    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.TransformerEncoder(layer, LAYERS), nn.Linear(WIDTH, WORDS))
    model = model.to(device)
    if kind == "ddp":
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index], bucket_cap_mb=4)
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel

        model = FullyShardedDataParallel(model, device_id=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(100 + rank)
    times, losses = [], []
    for _ in range(steps):
        words = torch.randint(WORDS, (BATCH, TOKENS + 1), generator=generator).to(device)
        torch.cuda.synchronize()
        dist.barrier()
        start = time.perf_counter()
        scores = model(words[:, :-1])
        loss = nn.functional.cross_entropy(scores.reshape(-1, WORDS), words[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
        total = loss.detach().clone()
        dist.all_reduce(total)
        losses.append(total.item() / ranks)
    dist.destroy_process_group()
    if rank == 0:
        print("RESULT " + json.dumps({"ms": times[len(times) // 4 :], "losses": losses}))


def session(args, kind, plan, port):
    processes = []
    for rank in range(args.ranks):
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(args.ranks)}
        environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        if args.gpus < args.ranks:
            environment.update(NCCL_HOSTID=f"motet-{rank}", NCCL_NET="Socket", NCCL_SOCKET_IFNAME="lo")
            environment.update(NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
        environment["NCCL_TUNER_PLUGIN"] = os.path.abspath(args.plugin) if plan else "none"
        if plan:
            environment["MOTET_PLAN"] = os.path.abspath(args.plan)
        if args.preload:
            environment["LD_PRELOAD"] = args.preload
        command = [sys.executable, os.path.abspath(__file__), "--worker", kind, str(args.steps)]
        processes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [it.communicate(timeout=args.limit)[0] for it in processes]
    if any(it.returncode != 0 for it in processes):
        raise SystemExit(f"train.py: a rank failed ({kind}, {'plan' if plan else 'NCCL'})")
    line = next(it for it in outputs[0].splitlines() if it.startswith("RESULT "))
    return json.loads(line[7:])


def main():
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plugin", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--preload", help="another libnccl.so.2 than PyTorch's")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--limit", type=int, default=300)
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "train.csv"), "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["kind", "side", "session", "step", "ms", "loss"])
        for kind in ["ddp", "fsdp"]:
            medians, losses = {False: [], True: []}, {}
            for number in range(args.sessions):
                for plan in [False, True]:
                    result = session(args, kind, plan, 29500 + 2 * number + plan)
                    medians[plan].append(statistics.median(result["ms"]))
                    losses[plan] = result["losses"]
                    for step, ms in enumerate(result["ms"]):
                        side = "plan" if plan else "nccl"
                        loss = result["losses"][step - len(result["ms"])]
                        writer.writerow([kind, side, number, step, f"{ms:.3f}", f"{loss:.6f}"])
            apart = max(abs(left - right) for left, right in zip(losses[False], losses[True]))
            nccl, plan = (statistics.median(medians[it]) for it in (False, True))
            print(f"{kind}: NCCL {nccl:.2f} ms a step, plan {plan:.2f} ms ({nccl / plan:.3f}); losses apart by {apart:.2e}")
            if apart > 1e-2:
                raise SystemExit("train.py: the losses differ")


if __name__ == "__main__":
    main()
