"""A fully sharded training step of a small Llama-style decoder on two processes of a host, from Python and C++, against PyTorch's
fully_shard, Weft's own data parallelism with replicated parameters, DistributedDataParallel and a step without communication;
the most memory of a rank, against the same; and the step on two emulated hosts with a link of 1 Gbit/s (scripts/two_hosts;
needs root), with as much compute as communication, against the larger of both alone. The losses of all sides in Python must agree."""

import os
from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started, two_hosts
from rows import Row, number

DIMS = (128, 512)
# (peer, limit of the ratio): what a step is compared with.
PEERS = [("torch", 0.6), ("weft dp", 1.1), ("ddp", None), ("single", None)]
MODES = ("weft", "weft global")
CPP_PEERS = [("torch", 0.6), ("cpp dp", 1.1), ("ddp", None), ("single", None)]
MEMORY_PEERS = ("torch", "weft dp", "ddp")

# With three sequences of 256 tokens per rank compute takes about as long as communication.
RATE, HOSTS_DIM, HOSTS_BATCH = "1gbit", 256, " x3"
HOSTS_LIMIT = ("larger of both", 1.15)


def steps(settings):
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "fully_sharded_rank.py"), 2)
        sides = {mode: Side(ranks, mode) for mode in (*MODES, *(peer for peer, _ in PEERS))}
        cpp = started(stack, [settings.programs / "decoder_main"], 2)
        sides |= {"cpp": Side(cpp, "fully_sharded"), "cpp dp": Side(cpp, "dp")}
        for dim in DIMS:
            progress(f"fully_sharded: the losses at dim {dim}, then the steps")
            medians = interleaved_medians(sides, dim, rounds=8, calls=3)
            for mode in MODES:
                for peer, _ in PEERS:
                    yield Row("fully_sharded", f"{mode}, dim {dim}", medians[mode], medians[peer], peer)
            for peer, _ in CPP_PEERS:
                yield Row("fully_sharded", f"cpp, dim {dim}", medians["cpp"], medians[peer], peer)


def most_memory(settings, mode, dim):
    """Of a rank, in processes that run nothing else."""
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "fully_sharded_memory.py"), 2)
        return ranks.time(mode, dim, 1)[0]


def memory(settings):
    for dim in DIMS:
        progress(f"fully_sharded: memory at dim {dim}")
        most = {mode: most_memory(settings, mode, dim) for mode in ("weft", *MEMORY_PEERS)}
        for peer in MEMORY_PEERS:
            yield Row("fully_sharded", f"memory, dim {dim}", most["weft"], most[peer], peer, unit="MB")


def on_two_hosts(settings):
    if os.geteuid() != 0:
        progress("fully_sharded: two hosts are LEFT OUT, which need root")
        return
    with ExitStack() as stack:
        hosts = stack.enter_context(two_hosts(settings.scripts / "two_hosts", RATE))
        ranks = started(stack, python_peer(settings.peers / "fully_sharded_rank.py"), 2, hosts)
        sides = {mode: Side(ranks, mode + HOSTS_BATCH) for mode in ("weft", "torch", "single")}
        sides["communication"] = Side(ranks, "communication")
        progress(f"fully_sharded: two hosts, dim {HOSTS_DIM}")
        medians = interleaved_medians(sides, HOSTS_DIM, rounds=6, calls=2)
        medians[HOSTS_LIMIT[0]] = max(medians["single"], medians["communication"])
        for peer in (HOSTS_LIMIT[0], "torch", "single", "communication"):
            yield Row("fully_sharded", f"two hosts, dim {HOSTS_DIM}", medians["weft"], medians[peer], peer)


def run(settings):
    for part in (steps, memory, on_two_hosts):
        yield from part(settings)


def table(all_rows):
    tables = [
        rows.table(of_kind)
        for of_kind in (
            [row for row in all_rows if row.unit == "us" and not row.case.startswith("two hosts")],
            [row for row in all_rows if row.unit == "MB"],
            [row for row in all_rows if row.case.startswith("two hosts")],
        )
        if of_kind
    ]
    limits = dict([*PEERS, *CPP_PEERS, HOSTS_LIMIT])
    verdicts = []
    for row in all_rows:
        limit = limits.get(row.peer_name)
        is_limited = row.unit == "us" and row.case.startswith("two hosts") == (row.peer_name == HOSTS_LIMIT[0])
        if limit is not None and is_limited:
            missed = "" if row.ratio <= limit else " is MISSED"
            verdicts.append(f"{row.case} over {row.peer_name}: {number(row.ratio)}, at most {limit}{missed}")
    return "\n\n".join([*tables, *(["\n".join(verdicts)] if verdicts else [])])
