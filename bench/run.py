#!/usr/bin/env python3
"""Runs the benchmarks, each side by side with its peer in one run, prints a table per benchmark and writes every row to
build/bench/results.jsonl. Needs the programs built (make bench does it) and an interpreter with torch for the peers."""

import argparse
import os
import sys
from pathlib import Path

import checkpoint
import collectives
import compile
import compile_one_rank
import dispatch
import executor
import fully_sharded
import host_step
import huggingface
import instructions
import local
import overlap
import plan
import redistribute
import shard_memory
import training
import transform
from rows import table

# Every benchmark by name: a module with a docstring that says what is measured, and run(settings), which yields rows; with
# a table(rows) of its own where they are not those of rows.py.
BENCHES = {
    "redistribute": redistribute,
    "checkpoint": checkpoint,
    "collectives": collectives,
    "plan": plan,
    "local": local,
    "dispatch": dispatch,
    "instructions": instructions,
    "host_step": host_step,
    "training": training,
    "compile": compile,
    "compile_one_rank": compile_one_rank,
    "fully_sharded": fully_sharded,
    "huggingface": huggingface,
    "executor": executor,
    "transform": transform,
    "shard_memory": shard_memory,
    "overlap": overlap,
}

ROOT = Path(__file__).resolve().parent.parent


def parse_arguments():
    listed = "\n".join(f"  {name:17}{' '.join(module.__doc__.split())}" for name, module in BENCHES.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"benchmarks:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", metavar="NAME", choices=list(BENCHES), help="run one: " + ", ".join(BENCHES))
    parser.add_argument(
        "--programs",
        type=Path,
        default=ROOT / "build/release/bench",
        help="folder of the built programs (default: %(default)s)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "build/bench/results.jsonl",
        help="file that gets one JSON line per row (default: %(default)s)",
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where the tensors of 'dispatch', 'host_step' and 'compile_one_rank' are (default: %(default)s)"
    )
    settings = parser.parse_args()
    settings.peers = ROOT / "bench/peers"
    settings.scripts = ROOT / "scripts"
    os.environ["WEFT_BENCH_DEVICE"] = settings.device
    # The package weft, for the programs in Python.
    os.environ["PYTHONPATH"] = str(settings.programs.parent / "python")
    if not settings.programs.is_dir():
        parser.error(f"no built programs in {settings.programs}: run 'make bench', or build the target 'benches'")
    return settings


def main():
    settings = parse_arguments()
    settings.results.parent.mkdir(parents=True, exist_ok=True)
    with settings.results.open("w") as results:
        for name in [settings.only] if settings.only else BENCHES:
            bench = BENCHES[name]
            rows = []
            for row in bench.run(settings):
                rows.append(row)
                print(row.to_json(), file=results, flush=True)
            text = getattr(bench, "table", table)(rows)
            print(f"\n{name}: {' '.join(bench.__doc__.split())}\n\n{text}", flush=True)
    print(f"\n{settings.results} holds every row.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError) as error:
        sys.exit(f"error: {error}")
