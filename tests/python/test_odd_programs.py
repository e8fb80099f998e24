"""Programs that are odd but legal give what PyTorch gives, sharded or not, or a plain error; see odd_programs."""

import copy
import json
import os
import re
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils._pytree import tree_leaves, tree_map

import weft

sys.path.insert(0, os.path.dirname(__file__))
from exported_models.exporting import named_inputs
from exported_models.sharding import command, in_process
from odd_programs import PROGRAMS

# What is not supported says so, by the name of what it is.
REFUSED = {
    "autocast": "higher-order operator higher_order.wrap_with_autocast is not supported",
    "autocast_off": "higher-order operator higher_order.wrap_with_autocast is not supported",
    "cond": "higher-order operator higher_order.cond is not supported",
    "while_loop": "higher-order operator higher_order.while_loop is not supported",
    "map": "higher-order operator higher_order.map_impl is not supported",
    "vmap": r"the function torch\._functorch\.predispatch\S* is not supported",
    "associative_scan": r"the function torch\._functorch\.predispatch\S* is not supported",
}
# torch.export.save writes these, and torch.export.load does not take them.
NOT_LOADED_BY_TORCH = {"output_text"}
# Each command, in a process of its own, for some of each kind.
BY_COMMAND = ["new_ones_without_dims", "output_numbers", "output_text", "output_nothing", "open_size_out", "no_grad", "buffer_counter", "cond"]


def expected_outputs(program, inputs):
    module = copy.deepcopy(program.module())
    copies = tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, inputs)
    with torch.no_grad():
        return tree_leaves(module(*copies))


def assert_same(actual, expected):
    """Numbers are tensors of no dims; None and texts are not written."""
    assert len(actual) == len(expected)
    for value, wanted in zip(actual, expected):
        if wanted is None or isinstance(wanted, str):
            assert value is None
        elif isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(value, wanted.detach(), rtol=1e-4, atol=1e-4)
        else:
            assert value.shape == () and value.item() == wanted and value.dtype == torch.tensor(wanted).to(value.dtype).dtype


def exported(name, folder):
    program, inputs = PROGRAMS[name].export()
    path = folder / "model.pt2"
    torch.export.save(program, path)
    return path, program, inputs


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_odd_program_gives_what_pytorch_gives_or_a_plain_error(name, tmp_path):
    path, program, inputs = exported(name, tmp_path)
    given = named_inputs(program, inputs)
    if name in REFUSED:
        with pytest.raises((ValueError, NotImplementedError), match=REFUSED[name]) as refused:
            in_process(path, "tp=2", PROGRAMS[name].plan, given)
        assert "[" in str(refused.value) and "INTERNAL ASSERT" not in str(refused.value)
        return
    outputs, _ = in_process(path, "tp=2", PROGRAMS[name].plan, given)
    assert_same(outputs, expected_outputs(program, inputs))
    sharded = weft._C.ShardedProgram(str(path), "tp=2", weft._C.ParallelPlan.parse(json.dumps(PROGRAMS[name].plan)))
    sharded.write(1, str(tmp_path / "rank_1.pt2"))
    if name not in NOT_LOADED_BY_TORCH:
        torch.export.load(tmp_path / "rank_1.pt2")


@pytest.mark.parametrize("name", BY_COMMAND)
def test_every_command_takes_an_odd_program_or_refuses_it(name, tmp_path):
    path, program, inputs = exported(name, tmp_path)
    plan, sharded, given, result = (tmp_path / file for file in ("plan.json", "out", "x.safetensors", "y.safetensors"))
    plan.write_text(json.dumps(PROGRAMS[name].plan))
    save_file({key: value.clone() for key, value in named_inputs(program, inputs).items()}, given)
    for arguments in (
        ("plan", path, "--mesh", "tp=2", "-o", tmp_path / "proposed.json"),
        ("explain", path, "--mesh", "tp=2", "--plan", plan),
        ("shard", path, "--mesh", "tp=2", "--plan", plan, "-o", sharded),
        ("run", sharded, "--input", given, "--output", result),
        ("run", path, "--input", given, "--output", result),
    ):
        done = command(*arguments)
        if name in REFUSED:
            assert done.returncode == 1 and (re.search(REFUSED[name], done.stderr) or "does not exist" in done.stderr), done
            continue
        assert done.returncode == 0, done.stderr
        if arguments[0] == "run":
            outputs = load_file(result)
            expected = expected_outputs(program, inputs)
            assert_same([outputs.get(f"output_{i}") for i in range(len(expected))], expected)
