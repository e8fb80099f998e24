"""The tensor-parallel transform of exported stacks of MLP blocks, analysis and rewrite, in milliseconds of CPU time: against
PyTorch's tensor_parallel_transformation for eight ranks; as graphs grow, against the cost of a node in a graph of 290; and
as ranks become more, against eight of them. The pass that overlaps collectives with matmuls is measured alone, on a decoder
where it fuses every one of them. Where the peer is Weft itself, the ratio should be one."""

import json
import statistics
import subprocess
import sys

from ranks import progress, python_peer
from rows import Row

PEER_BLOCKS = (8, 32, 128, 512)
GROWN_BLOCKS = (32, 512, 2048, 5552)  # up to 50,000 nodes
COPIED_BLOCKS = 8
OVERLAPPED_LAYERS = (23, 480, 3840)  # 300 to 50,000 nodes
RANKS = (8, 64, 512, 4096)
ROUNDS = 5


def lines_of(command):
    """The JSON lines that a program prints."""
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with status {done.returncode}: {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def repeated_program(settings, folder, blocks):
    """A stack of so many blocks that are all alike; made the first time."""
    path = folder / f"repeated_{blocks}.pt2"
    if not path.exists():
        unfinished = path.with_name("unfinished.pt2")
        script = settings.peers.parent / "repeat_program.py"
        program = folder / f"mlp_{COPIED_BLOCKS}.pt2"
        lines_of([sys.executable, script, program, blocks // COPIED_BLOCKS, unfinished])
        unfinished.rename(path)
    return path


def median_of(command, parts):
    """(nodes, milliseconds) of these phases of a program: the median of some runs."""
    runs = [line for _ in range(ROUNDS) for line in lines_of(command)]
    return runs[0]["nodes"], statistics.median(sum(run[part] for part in parts) for run in runs) * 1e3


def transformed(settings, path, ranks):
    plan = settings.peers.parent / "plans" / "mlp_stack.json"
    command = [settings.programs / "transform_main", path, "--plan", plan, "--ranks", ranks]
    return median_of(command, ("analysis", "overlap", "rewrite"))


def run(settings):
    folder = settings.results.parent / "transform"
    progress("transform: PyTorch, for which the programs are exported the first time (a minute)")
    peer = lines_of(python_peer(settings.peers / "tp_transform.py", folder, *PEER_BLOCKS))
    for line in peer:
        _, weft = transformed(settings, folder / f"mlp_{line['blocks']}.pt2", RANKS[0])
        case = f"{line['blocks']:,} blocks, {line['nodes']:,} nodes"
        yield Row("transform", case, weft, line["seconds"] * 1e3, "pytorch", "ms")

    progress("transform: larger graphs")
    per_node = None
    for blocks in GROWN_BLOCKS:
        nodes, weft = transformed(settings, repeated_program(settings, folder, blocks), RANKS[0])
        per_node = per_node or weft / nodes
        yield Row("transform", f"{blocks:,} alike, {nodes:,} nodes", weft, per_node * nodes, "at 290 nodes", "ms")

    progress("transform: collectives overlapped with matmuls")
    per_node = None
    for layers in OVERLAPPED_LAYERS:
        nodes, weft = median_of([settings.programs / "micro_pipeline_main", layers], ("overlap",))
        per_node = per_node or weft / nodes
        yield Row("transform", f"overlap, {nodes:,} nodes", weft, per_node * nodes, "at 300 nodes", "ms")

    progress("transform: more ranks")
    on_few = None
    for ranks in RANKS:
        _, weft = transformed(settings, folder / f"mlp_{PEER_BLOCKS[-1]}.pt2", ranks)
        on_few = on_few or weft
        yield Row("transform", f"{PEER_BLOCKS[-1]} blocks, {ranks:,} ranks", weft, on_few, "on 8 ranks", "ms")
