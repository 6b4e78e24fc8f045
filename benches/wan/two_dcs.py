#!/usr/bin/env python3
"""Two datacenters of four ranks each out of network namespaces, joined by a link of so many Mbit/s and milliseconds,
and Motet, Gloo, Open MPI, torchft and PCCL over it by turns. Needs root, iproute2, a C compiler and /dev/net/tun, for
the peers a Python with torch and torchft, mpicc and mpirun, and PCCL built from its source; a peer that cannot run is
said to have failed. Everything is taken down at the end, and what an earlier run left over at the beginning.

    two_dcs.py --mbit 1000 --ms 5 --bytes 67108864 --calls 20 --rounds 1 [--congestion bbr|cubic]
        [--peers motet,gloo,ompi,torchft,pccl] [--pccl DIR] [--second 500] [--drop 100]

`--pccl DIR`: where PCCL is, DIR/include/pccl.h (with ccoip_inet.h) and DIR/lib/libpccl.so. It has AllReduce only. Its
ring is random; ranks join anew until it crosses each way once, or, with `--pccl-ring any`, take the first.

`--drop MBIT` changes the first link to so many Mbit/s after half of the calls, while they run, and prints how long each
call after that took.

The link (`wanlink.c`) passes packets between two TUN devices. Kernels with netem could do the same; this one needs
nothing. Link and ranks run with real-time priority (`chrt`), so that whatever else the machine does is not measured;
where that is not allowed, the lines say so.
"""
import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

# Names of namespaces; two runs on one machine need two, because each takes down what it finds under its own.
PREFIX = os.environ.get("MOTET_WAN_PREFIX", "motet-wan-")
# How often the data crosses from one datacenter to the other with the peers' rings, in rank order: n - 1 parts of n for every part.
RING_CROSSES = {"allgather": 7 / 4, "allreduce": 7 / 4}
# What Open MPI calls to start something on another host: namespaces are hosts, by their addresses. Without real-time
# priority, because its ranks look for messages all the time: with it nobody else, the system's own threads included,
# would have a turn.
REMOTE = """#!/bin/sh
net=${1%.*} rank=${1##*.}
dc=a; [ "$net" = 10.71.2 ] && dc=b
host=PREFIX$dc$((rank - 1)); shift
exec ip netns exec "$host" unshare -u sh -c "hostname $host; exec sh -c '$*'"
"""
TURNS = "/proc/sys/kernel/sched_rr_timeslice_ms"
HERE = os.path.dirname(os.path.abspath(__file__))


def sh(command, check=True):
    return subprocess.run(command, shell=True, check=check, capture_output=True, text=True)


def down():
    for name in sh("ip netns list", check=False).stdout.split("\n"):
        name = name.split(" ")[0]
        if name.startswith(PREFIX):
            sh(f"ip netns pids {name} | xargs -r kill -9", check=False)
            sh(f"ip netns del {name}", check=False)


def up(congestion):
    for dc, net in (("a", "10.71.1"), ("b", "10.71.2")):
        router = f"{PREFIX}r{dc}"
        sh(f"ip netns add {router}")
        sh(f"ip -n {router} link set lo up")
        sh(f"ip -n {router} link add br0 type bridge && ip -n {router} addr add {net}.254/24 dev br0")
        sh(f"ip -n {router} link set br0 up && ip netns exec {router} sysctl -qw net.ipv4.ip_forward=1")
        # A switch filters nothing; a kernel that has not these values does not either.
        off = " ".join(f"net.bridge.bridge-nf-call-{it}=0" for it in ("iptables", "ip6tables", "arptables"))
        sh(f"ip netns exec {router} sysctl -qw {off}", check=False)
        for rank in range(4):
            host = f"{PREFIX}{dc}{rank}"
            sh(f"ip netns add {host} && ip -n {host} link set lo up")
            sh(f"ip -n {host} link add eth0 type veth peer name p{rank} netns {router}")
            sh(f"ip -n {host} addr add {net}.{rank + 1}/24 dev eth0 && ip -n {host} link set eth0 up")
            sh(f"ip -n {router} link set p{rank} master br0 up")
            sh(f"ip -n {host} route add default via {net}.254 congctl {congestion}")


def start_links(args):
    """The links: `wanlink.c`, built where it is used."""
    work = tempfile.mkdtemp()
    sh(f"cc -O2 -o {work}/wanlink {HERE}/wanlink.c")
    children = []
    for number, mbit in enumerate([args.mbit] + ([args.second] if args.second else [])):
        ends = [f"10.71.{9 + number}.{end}" for end in (1, 2)]
        words = [f"{work}/wanlink", f"{PREFIX}ra", f"{ends[0]}/30", f"{PREFIX}rb", f"{ends[1]}/30", f"wan{number}",
                 str(mbit), str(args.ms)]
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        children.append(child)
    shutil.rmtree(work)
    for router, net, end in (("ra", "10.71.2.0/24", 2), ("rb", "10.71.1.0/24", 1)):
        ways = f"via 10.71.9.{end}"
        if args.second:
            weights = args.weights.split(":")
            ways = " ".join(f"nexthop via 10.71.{9 + it}.{end} weight {weights[it]}" for it in (0, 1))
            # By ports too, so that connections between two ranks take both ways.
            sh(f"ip netns exec {PREFIX}{router} sysctl -qw net.ipv4.fib_multipath_hash_policy=1")
        sh(f"ip -n {PREFIX}{router} route add {net} {ways}")
    return children


def with_priority():
    """What gives a command real-time priority, where the machine allows that."""
    words = ["chrt", "-r", "1"]
    return words if subprocess.run(words + ["true"], capture_output=True, check=False).returncode == 0 else []


def on_all(command, environment=None, first=None):
    """Runs a command on all eight ranks at once; what each printed."""
    first = with_priority() if first is None else first
    children = []
    for rank in range(8):
        host = f"{PREFIX}{'ab'[rank // 4]}{rank % 4}"
        words = ["ip", "netns", "exec", host, *first] + command(rank)
        own = dict(os.environ, **(environment(rank) if environment else {}))
        children.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=own))
    said = []
    for child in children:
        try:
            out, err = child.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
        if child.returncode != 0:
            print(err[-2000:], file=sys.stderr)
        said.append(out)
    return said


def crossed(links):
    """Bytes that have come over each link: from a to b over all of them, then from b to a."""
    files = " ".join(f"/sys/class/net/wan{it}/statistics/rx_bytes" for it in range(links))
    said = [sh(f"ip netns exec {PREFIX}{router} cat {files}") for router in ("rb", "ra")]
    return [int(it) for one in said for it in one.stdout.split()]


def shares(before, after):
    """How much of each direction's bytes each of several links had, in words."""
    ways = [b - a for a, b in zip(before, after)]
    half = len(ways) // 2
    each = ["+".join(f"{100 * it / max(1, sum(way)):.0f}%" for it in way) for way in (ways[:half], ways[half:])]
    return f", links there {each[0]}, back {each[1]}" if half > 1 else ""


class Drop(threading.Thread):
    """Slows the first link down once so many bytes have crossed since the start, and sets it back when stopped."""

    def __init__(self, args, link, after):
        super().__init__(daemon=True)
        self.args, self.link, self.after, self.done = args, link, after, threading.Event()

    def tell(self, mbit):
        self.link.stdin.write(f"{mbit} {self.args.ms}\n")
        self.link.stdin.flush()

    def run(self):
        links = 2 if self.args.second else 1
        start = sum(crossed(links)[:links])
        while not self.done.is_set():
            if sum(crossed(links)[:links]) - start >= self.after:
                self.tell(self.args.drop)
                self.done.wait()
            time.sleep(0.005)

    def stop(self):
        self.done.set()
        self.join()
        self.tell(self.args.mbit)


def motet(args, collective, port):
    streams = ["--streams", str(args.streams)] if args.streams else []
    what = [args.program] if args.program else ["-c", collective, "--cluster", f"{HERE}/{args.cluster}"]

    def command(rank):
        return [args.motet, "--json", "exec", "run", *what,
                "--size", f"{args.bytes} B", "-i", str(args.calls), "--rank", str(rank), "--ranks", "8",
                "--store", f"10.71.1.1:{port}", "--token", "bench", *streams] + args.more.split()
    ranks = [json.loads(it)["rows"][0] for it in on_all(command)]
    assert all(it["wrong"] == 0 for it in ranks)
    return [max(it["times_us"][call] for it in ranks) for call in range(args.calls)]


def gloo(args, collective, port, backend=os.environ.get("BACKEND", "gloo")):
    def environment(rank):
        return {"RANK": str(rank), "WORLD_SIZE": "8", "MASTER_ADDR": "10.71.1.1", "MASTER_PORT": str(port),
                "GLOO_SOCKET_IFNAME": "eth0", "BACKEND": backend}
    said = on_all(lambda rank: [args.python, f"{HERE}/gloo_bench.py", collective, str(args.bytes), str(args.calls)],
                  environment)
    return [float(it) for it in said[0].split()[5:]]


def torchft(args, collective, port):
    return gloo(args, collective, port, "torchft")


def pccl(args, collective, port):
    if collective != "allreduce":
        return None
    with tempfile.TemporaryDirectory() as work:
        sh(f"cc -O2 -o {work}/pccl_bench {HERE}/pccl_bench.c -I {args.pccl}/include -L {args.pccl}/lib "
           f"-Wl,-rpath,{args.pccl}/lib -lpccl")
        most = "1" if args.pccl_ring == "best" else "0"
        for draw in range(1, 61):
            # Without real-time priority, with which 4 MiB took 260 ms instead of 155, as if its ranks too looked for
            # messages all the time. Its log goes to the output, between our lines.
            said = on_all(lambda rank: [f"{work}/pccl_bench", str(rank), "8", "10.71.1.1", str(port), str(args.bytes),
                                        str(args.calls), str(args.pccl_parts), most], first=())[0].split("\n")
            words = {it.split(" ")[0]: it.split(" ")[1:] for it in said if it}
            if "again" not in words:
                break
    print(f"pccl: ring {draw} crosses {words['crossings'][0]} times each way, {args.pccl_parts} at once")
    return [float(it) for it in words["allreduce"][4:]]


def ompi(args, collective, _port):
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        sh(f"mpicc -O2 -o {work}/mpi_bench {HERE}/mpi_bench.c")
        with open(f"{work}/remote", "w") as remote:
            remote.write(REMOTE.replace("PREFIX", PREFIX))
        os.chmod(f"{work}/remote", 0o755)
        hosts = ",".join(f"10.71.{1 + it // 4}.{1 + it % 4}" for it in range(8))
        host = f"{PREFIX}a0"
        words = ["ip", "netns", "exec", host, "unshare", "-u", "sh", "-c", f'hostname {host}; exec "$@"', "sh",
                 "timeout", "300", "mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", hosts,
                 "--mca", "plm_rsh_agent", f"{work}/remote", "--mca", "plm_rsh_no_tree_spawn", "1",
                 "--mca", "mpi_yield_when_idle", "1", "--mca", "pml", "ob1", "--mca", "btl", "self,tcp",
                 "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0",
                 "--mca", "btl_tcp_links", str(args.mpi_links), *args.mpi_more.split(), "-n", "8",
                 f"{work}/mpi_bench", collective, str(args.bytes), str(args.calls)]
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            print(run.stderr[-2000:], file=sys.stderr)
        return [float(it) for it in run.stdout.split()[5:]]


PEERS = {"motet": motet, "gloo": gloo, "ompi": ompi, "torchft": torchft, "pccl": pccl}


def report(args, peer, collective, times, load):
    crosses = args.bytes if collective == "allreduce" else args.bytes / 2
    limit = crosses * 8 / (args.mbit + args.second) + args.ms * 1e3
    middle = statistics.median(times)
    if middle < limit:
        print(f"{peer} {collective}: not counted: a call takes {middle / 1e3:.1f} ms, less than the links' {limit / 1e3:.1f}: "
              "its ranks are not in the two datacenters", flush=True)
        return
    print(f"{peer:6} {collective:10} {args.bytes} B: median {middle / 1e3:.1f} ms, "
          f"{min(times) / 1e3:.1f} to {max(times) / 1e3:.1f}, {100 * limit / middle:.1f}% of the raw limit "
          f"{limit / 1e3:.1f} ms ({load}, {args.congestion})", flush=True)


def report_drop(args, peer, collective, times, load):
    """The calls after the drop, in percent of the limit after it; the first of them is the one in which it came."""
    crosses = args.bytes if collective == "allreduce" else args.bytes / 2
    limit = crosses * 8 / (args.drop + args.second) + args.ms * 1e3
    before = statistics.median(times[:args.calls // 2 - 2])
    after = times[args.calls // 2:]
    percent = [100 * limit / it for it in after]
    late = statistics.median(percent[10:]) if percent[10:] else float("nan")
    print(f"{peer:6} {collective:10} {args.bytes} B: {before / 1e3:.1f} ms before the drop to {args.drop} Mbit/s; then % of the new "
          f"limit {limit / 1e3:.1f} ms, call by call: {' '.join(f'{it:.0f}' for it in percent)}; "
          f"median from the 11th on {late:.1f}% ({load}, {args.congestion})", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mbit", type=float, default=1000)
    parser.add_argument("--ms", type=float, default=5)
    parser.add_argument("--second", type=float, default=0, help="Mbit/s of a second link beside the first")
    parser.add_argument("--weights", default="2:1", help="how routers share connections out over the two")
    parser.add_argument("--bytes", type=int, default=64 << 20)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--streams", type=int, default=0, help="as many as it likes without this")
    parser.add_argument("--cluster", default="two-dcs.toml")
    parser.add_argument("--drop", type=float, default=0, help="Mbit/s of the first link after half of the calls")
    parser.add_argument("--program", default="", help="a program's file instead of one made for the cluster")
    parser.add_argument("--more", default="")
    parser.add_argument("--congestion", default="bbr")
    parser.add_argument("--peers", default="motet,gloo,ompi")
    parser.add_argument("--mpi-links", type=int, default=1, help="Open MPI's connections between two ranks")
    parser.add_argument("--mpi-more", default="", help="more words for mpirun")
    parser.add_argument("--pccl", default="", help="the folder with PCCL's include and lib")
    parser.add_argument("--pccl-ring", choices=["best", "any"], default="best")
    parser.add_argument("--pccl-parts", type=int, default=1, help="PCCL's reductions at once, and connections for them")
    parser.add_argument("--collectives", default="allgather,allreduce")
    parser.add_argument("--motet", default=os.environ.get("MOTET") or shutil.which("motet"))
    parser.add_argument("--python", default=os.environ.get("PYTHON") or sys.executable)
    args = parser.parse_args()
    peers = args.peers.split(",")
    if "pccl" in peers and not args.pccl:
        print("pccl: left out: --pccl does not say where it is")
        peers.remove("pccl")
    # A run that is ended from outside takes down what it has set up as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    down()
    children = []
    # Eight hosts on few cores: they take turns every millisecond, not every tenth of a second.
    turns = open(TURNS).read()
    try:
        open(TURNS, "w").write("1")
        up(args.congestion)
        children = start_links(args)
        port, links = 29500, len(children)
        for _ in range(args.rounds):
            for collective in args.collectives.split(","):
                for peer in peers:
                    port += 1
                    load = "load " + open("/proc/loadavg").read().split()[0]
                    before = crossed(links)
                    drop = None
                    if args.drop:
                        crosses = args.bytes if collective == "allreduce" else args.bytes / 2
                        # Three calls are not timed. Headers are 4%; the peers' own way of doing it crosses more often.
                        times = {"motet": 1}.get(peer, RING_CROSSES[collective])
                        after = (args.calls // 2 + 3.2) * crosses * 1.04 * times
                        drop = Drop(args, children[0], after)
                        drop.start()
                    try:
                        times = PEERS[peer](args, collective, port)
                        if times is None:
                            print(f"{peer:6} {collective:10} -")
                            continue
                        assert len(times) == args.calls, f"{len(times)} of {args.calls} calls ended"
                    except (ValueError, LookupError, AssertionError, subprocess.CalledProcessError) as error:
                        print(f"{peer} {collective}: failed: {error!r}")
                        continue
                    finally:
                        if drop:
                            drop.stop()
                    load += shares(before, crossed(links)) + ("" if with_priority() else ", no real-time priority")
                    (report_drop if args.drop else report)(args, peer, collective, times, load)
    finally:
        open(TURNS, "w").write(turns)
        for child in children:
            child.kill()
            child.wait()
        down()


if __name__ == "__main__":
    main()
