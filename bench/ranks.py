"""Programs of several ranks, started once and asked in turn to time a case, so that a disturbance of the machine falls
on all sides alike. bench/serve.h describes what is said over their pipes."""

import itertools
import os
import socket
import statistics
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Host:
    """Where a rank runs: this machine, or an emulated host of scripts/two_hosts."""

    interface: str = "lo"
    address: str = "127.0.0.1"
    prefix: list = field(default_factory=list)


@contextmanager
def two_hosts(script, rate):
    """Two emulated hosts while it lasts."""
    process = subprocess.Popen(
        [script, "--rate", rate, "--hold"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        lines = [process.stdout.readline().split() for _ in range(2)]
        if not all(lines):
            raise RuntimeError(f"{script} made no hosts; it needs root")
        yield [
            Host(interface, address, ["ip", "netns", "exec", namespace]) for namespace, interface, address in lines
        ]
    finally:
        process.stdin.close()
        process.wait()


def with_own_cores(hosts):
    """The same hosts, each with a core of its own: otherwise the ranks wake each other on one core, as hosts never do."""
    return [replace(host, prefix=[*host.prefix, "taskset", "-c", str(core)]) for core, host in enumerate(hosts)]


class Ranks:
    """The processes of one side; a context manager, which ends them."""

    def __init__(self, command, size, hosts=None):
        """On this machine, or with `hosts` each rank on its own."""
        places = hosts or [Host() for _ in range(size)]
        environment = dict(
            os.environ,
            WORLD_SIZE=str(size),
            LOCAL_WORLD_SIZE=str(1 if hosts else size),
            MASTER_ADDR=places[0].address,
            MASTER_PORT=str(free_port()),
            OMP_NUM_THREADS="1",
        )
        self.command = [str(word) for word in command]
        self.processes = [
            subprocess.Popen(
                place.prefix + self.command,
                env=dict(
                    environment,
                    RANK=str(rank),
                    LOCAL_RANK=str(0 if hosts else rank),
                    GLOO_SOCKET_IFNAME=place.interface,
                ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                bufsize=1,
            )
            for rank, place in enumerate(places)
        ]

    def __enter__(self):
        for rank in range(len(self.processes)):
            if (line := self._line(rank)) != "ready":
                raise RuntimeError(f"rank {rank} of {' '.join(self.command)} said '{line}' instead of 'ready'")
        return self

    def __exit__(self, *error):
        for process in self.processes:
            with suppress(BrokenPipeError):
                process.stdin.close()
        for process in self.processes:
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()

    def _line(self, rank):
        line = self.processes[rank].stdout.readline()
        if not line:
            status = self.processes[rank].wait()
            raise RuntimeError(f"rank {rank} of {' '.join(self.command)} ended with status {status}")
        return line.strip()

    def time(self, case, size, calls):
        """Microseconds of each call: a call ends when the last rank has its result."""
        for process in self.processes:
            process.stdin.write(f"{calls} {size} {case}\n")
        times = [[float(word) for word in self._line(rank).split()] for rank in range(len(self.processes))]
        return [max(of_call) for of_call in zip(*times)]


@dataclass(frozen=True)
class Side:
    """A program and the name under which it knows a case."""

    ranks: Ranks
    case: str


def started(stack: ExitStack, command, size, hosts=None):
    return stack.enter_context(Ranks(command, size, hosts))


def python_peer(script, *arguments):
    """The command of a peer in Python, without the warnings that torch gives about its own functions."""
    return [sys.executable, "-W", "ignore", script, *arguments]


def interleaved_rounds(sides, size, rounds, calls):
    """The microseconds of each side's calls, a list per round, all sides taking turns; every second round goes backwards."""
    times = {name: [] for name in sides}
    for side in sides.values():
        side.ranks.time(side.case, size, 2)
    order = list(sides)
    for _ in range(rounds):
        for name in order:
            times[name].append(sides[name].ranks.time(sides[name].case, size, calls))
        order.reverse()
    return times


def medians_of(times):
    """Of each side, whatever the round."""
    return {name: statistics.median(itertools.chain(*lists)) for name, lists in times.items()}


def interleaved_medians(sides, size, rounds, calls):
    """The median microseconds of each side."""
    return medians_of(interleaved_rounds(sides, size, rounds, calls))


def progress(text):
    print(text, file=sys.stderr, flush=True)
