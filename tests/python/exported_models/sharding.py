"""A program, sharded and run: inside this process, or by the command as a user would."""

import json
import subprocess
from pathlib import Path

import weft

BUILD = Path(weft._C.__file__).parents[2]
COMMAND = BUILD / "bin/weft"
OPERATOR_LIBRARY = BUILD / "lib/operator_library.so"  # of tests/python/operator_library.cpp


def in_process(path, mesh, plan, inputs):
    """The global outputs and the summary; the ranks are threads, and raise where their outputs differ."""
    program = weft._C.ShardedProgram(str(path), mesh, weft._C.ParallelPlan.parse(json.dumps(plan)))
    return program.run(inputs), json.loads(program.summary())


def command(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120)


def by_command(path, mesh, plan, inputs, folder):
    """The same by `weft shard` and `weft run`, with files between them in a folder."""
    # Imported here, so that what runs in this process needs torch alone.
    from safetensors.torch import load_file, save_file

    plan_file, sharded, given, result = (folder / name for name in ("plan.json", "sharded", "x.safetensors", "y.safetensors"))
    plan_file.write_text(json.dumps(plan))
    save_file(inputs, given)
    shard = command("shard", path, "--mesh", mesh, "--plan", plan_file, "-o", sharded, "--json")
    assert shard.returncode == 0, shard.stderr
    run = command("run", sharded, "--input", given, "--output", result)
    assert run.returncode == 0, run.stderr
    outputs = load_file(result)
    return [outputs[f"output_{i}"] for i in range(len(outputs))], json.loads(shard.stdout)
