"""Matmuls overlapped with a collective, on two emulated hosts with a link of 1 Gbit/s (scripts/two_hosts; needs root): the
fused operators against the larger of communication and compute alone, against one after the other, and against PyTorch, one
after the other and as a loop over four chunks; the gate's choice against the better of fused and unfused, from 1 to 8,192
rows; and the layers of a decoder with overlap and without."""

from contextlib import ExitStack
from statistics import median

from ranks import Side, interleaved_medians, interleaved_rounds, medians_of, progress, python_peer, started, two_hosts
from rows import Row, aligned, number

RATE = "1gbit"
KINDS = ("gather", "scatter")
# (size, rounds, calls per round)
SQUARES = [(512, 12, 5), (1024, 10, 2), (2048, 5, 1)]
SWEEP = [(2**i, *((80, 10) if i < 5 else (40, 5) if i < 9 else (24, 1) if i < 12 else (14, 1))) for i in range(14)]
DECODER = [(2048, 8, 1)]

LIMIT = "larger of both"
SWEEP_PEER = "better of both"
OFF = "without overlap"
# The largest ratio to a peer.
LIMITS = {LIMIT: 1.2, SWEEP_PEER: 1.02, OFF: 1 / 1.25}


def squares(weft, torch):
    for size, rounds, calls in SQUARES:
        for kind in KINDS:
            progress(f"overlap: {kind}, {size} x {size}")
            sides = {way: Side(weft, f"square {kind} {way}") for way in ("compute", "communication", "unfused", "fused", "auto")}
            sides |= {f"torch {way}": Side(torch, f"square {kind} {way}") for way in ("unfused", "chunks")}
            medians = interleaved_medians(sides, size, rounds, calls)
            for way in ("fused", "auto"):
                case = f"{way} {kind} {size}"
                larger = max(medians["compute"], medians["communication"])
                yield Row("overlap", case, medians[way], larger, LIMIT)
                for peer in ("compute", "communication", "unfused", "torch unfused", "torch chunks"):
                    yield Row("overlap", case, medians[way], medians[peer], peer)


def sweep(weft):
    for rows, rounds, calls in SWEEP:
        for kind in KINDS:
            progress(f"overlap: {kind}, {rows} rows")
            sides = {way: Side(weft, f"rows {kind} {way}") for way in ("unfused", "fused", "auto")}
            times = interleaved_rounds(sides, rows, rounds, calls)
            medians = medians_of(times)
            better = min(("unfused", "fused"), key=medians.get)
            # In the same round both find the same machine; and what is chosen is the same code as one of the two.
            ratio = median(median(auto) / median(other) for auto, other in zip(times["auto"], times[better]))
            case = f"auto {kind}, {rows} rows"
            yield Row("overlap", case, ratio * medians[better], medians[better], SWEEP_PEER)
            yield Row("overlap", case, medians["auto"], medians["unfused"], "unfused")
            yield Row("overlap", case, medians["auto"], medians["fused"], "fused")


def decoder(weft):
    for size, rounds, calls in DECODER:
        progress(f"overlap: the decoder, {size} tokens")
        sides = {way: Side(weft, f"decoder {way}") for way in ("unfused", "auto")}
        medians = interleaved_medians(sides, size, rounds, calls)
        yield Row("overlap", f"decoder, {size} tokens", medians["auto"], medians["unfused"], OFF)


def run(settings):
    with ExitStack() as stack:
        hosts = stack.enter_context(two_hosts(settings.scripts / "two_hosts", RATE))
        weft = started(stack, [settings.programs / "overlap_main"], 2, hosts)
        torch = started(stack, python_peer(settings.peers / "overlap_rank.py"), 2, hosts)
        yield from squares(weft, torch)
        yield from sweep(weft)
        yield from decoder(weft)


def times(all_rows, peers):
    """A line per case that has these peers, in milliseconds."""
    lines = [["case", "weft (ms)", *peers]]
    for case in dict.fromkeys(row.case for row in all_rows):
        of_case = {row.peer_name: row for row in all_rows if row.case == case}
        if all(peer in of_case for peer in peers):
            cells = [of_case[peer] for peer in peers]
            lines.append([case, number(cells[0].weft / 1000), *(number(row.peer / 1000) for row in cells)])
    return aligned(lines)


def table(all_rows):
    lines = [
        times(all_rows, ("compute", "communication", "unfused", "torch unfused", "torch chunks")),
        "",
        times([row for row in all_rows if " rows" in row.case], ("unfused", "fused")),
        "",
        times(all_rows, (OFF,)),
        "",
    ]
    for row in all_rows:
        limit = LIMITS.get(row.peer_name)
        if limit is not None:
            missed = "" if row.ratio <= limit else " is MISSED"
            lines.append(f"{row.case} over {row.peer_name}: {row.ratio:.3f}, at most {limit}{missed}")
    return "\n".join(lines)
