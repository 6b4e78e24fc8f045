#!/usr/bin/env python3
"""Makes MSCCL++'s own plans with its own language, from a checkout of MSCCL++.

    own_plans.py --mscclpp CHECKOUT --out FOLDER [--ranks 2,4,8] [--kinds memory,port,switch]
                 [--ranks-per-gpu all|1] [--resident 120]

Every example of python/mscclpp/language/tests that fits one server, and the programs of
python/mscclpp/default_algos, for each number of ranks, in several settings, so that MSCCL++ can show its best:
as the script writes it, and with the instances, thread blocks and threads per block that still fit the GPU.
Writes the plans and FOLDER/manifest.jsonl for run.py. By default only plans of memory channels; `port` adds those
for two servers of half the ranks, `switch` those that need several GPUs with a switch (NVLS). MSCCL++'s C++
bindings are not needed.

Where a script fixes a number (ranks, instances, thread blocks), it is replaced in memory; the checkout is not
changed. A script that calls a name which the language has renamed gets the new one. What was changed stands in
the manifest's "changed".
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import types

SIZES = [1 << k for k in range(10, 27, 2)]  # 1 KiB to 64 MiB


def run_one(checkout, spec):
    """In a process of its own: runs one script and returns the plan it prints."""
    root = os.path.join(checkout, "python", "mscclpp")
    stub = types.ModuleType("mscclpp")  # stands in for the package, whose __init__ loads the bindings
    stub.__path__ = [root]
    sys.modules["mscclpp"] = stub
    import mscclpp.language.program as program
    import mscclpp.language.channel as channel
    import mscclpp.language.rank as rank

    program.MSCCLPPProgram = program.CollectiveProgram  # the old name, still in some scripts
    for cls in (channel.MemoryChannel, channel.PortChannel):
        if hasattr(cls, "put_packets") and not hasattr(cls, "put_packet"):
            cls.put_packet = cls.put_packets
    if not hasattr(rank.Rank, "unpack_packet"):
        rank.Rank.unpack_packet = rank.Rank.unpack_packets
    if spec.get("instances"):
        original = program.CollectiveProgram.__init__

        def patched(self, *args, **kwargs):
            args = list(args)
            if len(args) > 3:
                args[3] = spec["instances"]
            else:
                kwargs["instances"] = spec["instances"]
            original(self, *args, **kwargs)

        program.CollectiveProgram.__init__ = patched
    if "call" in spec:
        out = call_default_algo(spec)
    else:
        path = os.path.join(root, spec["script"])
        source = open(path).read()
        for old, new in spec.get("replace", []):
            if old not in source:
                raise RuntimeError(f"'{old}' is not in {spec['script']}")
            source = source.replace(old, new)
        sys.argv = [path, "--name", spec["name"]] + [str(a) for a in spec["args"]]
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout):
            exec(compile(source, path, "exec"), {"__name__": "__main__", "__file__": path})
        out = stdout.getvalue()
    return json.loads(out)


def call_default_algo(spec):
    """The programs of default_algos on one server."""
    import importlib

    from mscclpp.language import collectives
    from mscclpp.language.utils import AlgoSpec

    call = spec["call"]
    module = importlib.import_module("mscclpp.default_algos." + call["module"])
    algo = AlgoSpec(
        name=spec["name"],
        collective=getattr(collectives, call["collective"])(call["ranks"], 1, call["in_place"]),
        nranks_per_node=call["per_node"],
        world_size=call["ranks"],
        in_place=call["in_place"],
        instances=1,
        protocol="LL",
        auto_sync=False,
        num_threads_per_block=call["threads"],
        reuse_resources=True,
        use_double_scratch_buffer=True,
        min_message_size=0,
        max_message_size=2**64 - 1,
    )
    return getattr(module, call["module"])(algo, *call.get("extra", [])).to_json()


def powers_up_to(limit):
    k = 1
    while k <= limit:
        yield k
        k *= 2


def specs_for(ranks, budget, per_node, every):
    """Settings to try. `budget` is the thread blocks of 1024 threads a rank may have."""
    single = "language/tests/single_node/"
    multi = "language/tests/multi_node/"
    n = ranks

    def with_instances(family, script, blocks, written, args=None, replace=None, changed="", most=32):
        """`blocks` per instance; `written` instances in the script."""
        args = args if args is not None else ["--num_gpus", n]
        fit = [k for k in powers_up_to(most) if k * blocks <= budget]
        fit512 = [k for k in powers_up_to(most) if k * blocks <= 2 * budget]
        wanted = {(written, 1024)} if written * blocks <= budget else set()
        if fit:
            wanted.add((fit[-1], 1024))
            if every:
                wanted |= {(fit[len(fit) // 2], 1024), (fit[0], 1024)}
        if fit512:
            wanted.add((fit512[-1], 512))
        for k, threads in sorted(wanted):
            note = changed
            if k != written:
                note = (note + ", " if note else "") + f"instances {written} -> {k}"
            yield {
                "family": family,
                "script": single + script,
                "args": args + ["--num_threads_per_block", threads],
                "instances": k,
                "replace": replace or [],
                "changed": note,
                "setting": f"i{k}t{threads}",
            }

    two = [("gpu_size = 2", f"gpu_size = {n}")] if n != 2 else []
    change = f"ranks 2 -> {n}" if n != 2 else ""
    if n == 2 or every:  # with more ranks, allgather_ring is the same in a better order
        yield from with_instances("allgather", "allgather.py", 1, 1, [], two, change)
    yield from with_instances("allgather_ring", "allgather_ring.py", 1, 32)
    yield from with_instances("allgather_pkt", "allgather_pkt.py", 2 * (n - 1), 1, most=8)
    yield from with_instances("allgather_pkt_rppkt", "allgather_pkt_rppkt.py", 1, 1, most=16)
    for blocks in (4, 16):
        if n == 2 and blocks <= budget:
            replace = [("range(4)", f"range({blocks})")] if blocks != 4 else []
            yield {
                "family": "allgather_tbg",
                "script": single + "allgather_tbg.py",
                "args": [],
                "replace": replace,
                "changed": f"blocks 4 -> {blocks}" if replace else "",
                "setting": f"b{blocks}",
            }
    for threads, room in ((1024, budget), (512, 2 * budget)):
        sizes = [b for b in powers_up_to(32) if b <= room]
        wanted = {sizes[-1], min(8, sizes[-1])} | ({sizes[len(sizes) // 2]} if every else set())
        for blocks in sorted(wanted):
            yield {
                "family": "allreduce",
                "script": single + "allreduce.py",
                "args": ["--num_gpus", n, "--num_threads_per_block", threads],
                "replace": [("num_tb = 8", f"num_tb = {blocks}")],
                "changed": f"blocks 8 -> {blocks}" if blocks != 8 else "",
                "setting": f"b{blocks}t{threads}",
            }
    yield from with_instances("allreduce_naivy", "allreduce_naivy.py", 1, 1, most=16)
    yield from with_instances("allreduce_pkt", "allreduce_pkt.py", n, 1, most=8)
    for name, blocks, written in (
        ("alltoall", n - 1, 2),
        ("alltoall_pipeline", 2 * (n - 1), 2),
        ("alltoall_pkt", n - 1, 2),
        ("alltoall_ring", 2, 16),
        ("alltoall_ring_oop", 2, 16),
        ("alltoall_ring_peers", 2, 16),
    ):
        yield from with_instances(name, f"alltoall/{name}.py", blocks, written)
    for module, collective, blocks in (
        ("allreduce_multi_nodes", "AllReduce", lambda g: 1 + (n - 1) * g),
        ("reducescatter_multi_nodes", "ReduceScatter", lambda g: n * g),
        ("allgather_multi_nodes", "AllGather", None),
    ):
        groups = [1, 4] if blocks else [None]
        for group in groups:
            for threads in (1024, 512):
                if blocks and blocks(group) > budget * (1024 // threads):
                    continue
                if not blocks and 2 * n > budget * (1024 // threads):
                    continue
                yield {
                    "family": module.replace("_multi_nodes", "_default"),
                    "call": {
                        "module": module,
                        "collective": collective,
                        "ranks": n,
                        "per_node": n,
                        "in_place": module != "allgather_multi_nodes",
                        "threads": threads,
                        "extra": [group] if blocks else [],
                    },
                    "changed": "",
                    "setting": (f"g{group}" if blocks else "") + f"t{threads}",
                }
    # Between two servers by port channels: only where one server of `per_node` ranks is half of all.
    if per_node * 2 == n:
        for name in ("allgather", "allgather_pkt", "reducescatter", "reducescatter_pkt"):
            yield {
                "family": f"{name}_2x{per_node}",
                "script": f"{multi}{name}.py",
                "args": ["--gpus_per_node", per_node],
                "changed": "",
                "setting": "port",
                "port": True,
            }
        for group in (1, 2, 3) if per_node > 1 else ():
            yield {
                "family": f"allgather_tbg_2x{per_node}",
                "script": multi + "allgather_tbg.py",
                "args": ["--num_gpus", n, "--gpus_per_node", per_node, "--tbg_size", group],
                # The script hands its two arguments over in the wrong order.
                "replace": [("args.gpus_per_node,\n    args.tbg_size", "args.tbg_size,\n    args.gpus_per_node")],
                "changed": "order of two arguments",
                "setting": f"port-g{group}",
                "port": True,
            }
    for name in ("allreduce_nvls_zero_copy", "allgather_nvls_zero_copy"):
        yield {
            "family": name,
            "script": f"{single}{name}.py",
            "args": ["--num_gpus", n],
            "changed": "",
            "setting": "",
            "switch": True,
        }


def channel_types(plan):
    return {c["channel_type"] for gpu in plan["gpus"] for c in gpu.get("channels", [])}


def sizes_of(plan, sizes, packets_up_to, simple_from):
    """The sizes this plan can take: buffers that divide into its chunks of 16 bytes."""
    ranks = len(plan["gpus"])
    gpu = plan["gpus"][0]
    alignment = plan.get("buffer_alignment", 16)
    for size in sizes:
        share = size // ranks
        sent = share if plan["collective"] == "allgather" else size
        received = share if plan["collective"] == "reducescatter" else size
        if size % (ranks * alignment) or sent % (alignment * gpu["input_chunks"]):
            continue
        if received % (alignment * gpu["output_chunks"]):
            continue
        if plan["protocol"] == "LL" and size > packets_up_to or plan["protocol"] != "LL" and size < simple_from:
            continue
        if not plan.get("min_message_size", 0) <= size <= plan.get("max_message_size", 2**64 - 1):
            continue
        yield size


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mscclpp", required=True, help="a checkout of MSCCL++")
    parser.add_argument("--out", help="folder for the plans and manifest.jsonl")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--ranks-per-gpu", default="all", help="'all' (one GPU) or a number")
    parser.add_argument("--resident", type=int, default=120, help="blocks of 1024 threads a GPU keeps resident")
    parser.add_argument("--packets-up-to", type=int, default=4 << 20, help="largest size for packet plans")
    parser.add_argument("--sizes", help="sizes in bytes, by commas (default 1 KiB to 64 MiB by fours)")
    parser.add_argument("--simple-from", type=int, default=16 << 10, help="smallest size for the other plans")
    parser.add_argument("--every", action="store_true", help="more settings of each program")
    parser.add_argument("--kinds", default="memory", help="memory, port (two servers), switch (NVLS), by commas")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(run_one(args.mscclpp, json.loads(args.one)), separators=(",", ":")))
        return 0
    if not args.out:
        parser.error("--out is missing")
    os.makedirs(args.out, exist_ok=True)
    sizes = [int(s) for s in args.sizes.split(",")] if args.sizes else SIZES
    failed, written = [], 0
    with open(os.path.join(args.out, "manifest.jsonl"), "w") as manifest:
        for ranks in [int(r) for r in args.ranks.split(",")]:
            per_gpu = ranks if args.ranks_per_gpu == "all" else int(args.ranks_per_gpu)
            budget = args.resident // per_gpu
            seen = set()
            for spec in specs_for(ranks, budget, ranks // 2, args.every):
                kind = "switch" if spec.get("switch") else "port" if spec.get("port") else "memory"
                if kind not in args.kinds.split(","):
                    continue
                spec["name"] = f"{spec['family']}-{ranks}" + (f"-{spec['setting']}" if spec["setting"] else "")
                if spec["name"] in seen:
                    continue
                seen.add(spec["name"])
                done = subprocess.run(
                    [sys.executable, __file__, "--mscclpp", args.mscclpp, "--one", json.dumps(spec)],
                    capture_output=True,
                    text=True,
                )
                if done.returncode:
                    failed.append((spec["name"], done.stderr.strip().split("\n")[-1]))
                    continue
                plan = json.loads(done.stdout)
                blocks = max(len(gpu["threadblocks"]) for gpu in plan["gpus"])
                threads = plan.get("num_threads_per_block", 1024)
                types_used = channel_types(plan)
                if blocks * threads > budget * 1024:
                    failed.append((spec["name"], f"{blocks} blocks of {threads} threads do not fit"))
                    continue
                takes = list(sizes_of(plan, sizes, args.packets_up_to, args.simple_from))
                if not takes:
                    failed.append((spec["name"], "takes none of the sizes"))
                    continue
                name = spec["name"] + ".json"
                with open(os.path.join(args.out, name), "w") as out:
                    json.dump(plan, out, separators=(",", ":"))
                line = {
                    "id": spec["name"],
                    "source": "mscclpp",
                    "file": name,
                    "family": spec["family"],
                    "collective": plan["collective"],
                    "ranks": ranks,
                    "bytes": takes,
                    "forms": ["in" if plan["inplace"] else "out"],
                    "protocol": plan["protocol"],
                    "channels": sorted(types_used),
                }
                if spec["changed"]:
                    line["changed"] = spec["changed"]
                manifest.write(json.dumps(line) + "\n")
                written += 1
    print(f"{written} plans in {args.out}")
    for name, why in failed:
        print(f"not made: {name}: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
