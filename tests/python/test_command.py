"""The command weft: what it writes, what it prints, and how it fails."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

sys.path.insert(0, os.path.dirname(__file__))
from exported_models import MODELS, bert, llama, vit
from exported_models import gpt2 as gpt2_models
from exported_models.exporting import VARIANTS, export, inputs_of, made, named_inputs, outputs_of
from exported_models.sharding import COMMAND, OPERATOR_LIBRARY, command, in_process

PLAN = {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}


def done(*arguments):
    """Of a command that must succeed: what it printed."""
    result = command(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(*arguments):
    """Of a command that must not: its exit code, and its error without the line's end."""
    result = command(*arguments)
    assert result.returncode != 0 and result.stderr.startswith("weft: ") and result.stderr.count("\n") == 1, result.stderr
    assert result.stdout == ""
    return result.returncode, result.stderr.strip()


class Files:
    """A small model, its plan, global inputs, and the model's outputs for them."""

    def __init__(self, folder):
        self.folder = folder
        self.model, self.plan, self.input = (folder / name for name in ("model.pt2", "plan.json", "x.safetensors"))
        model = MODELS["mlp"]
        inputs = inputs_of(model, batch=5)
        program = torch.export.export(made(model), inputs)
        torch.export.save(program, self.model)
        self.plan.write_text(json.dumps(PLAN))
        save_file(named_inputs(program, inputs), self.input)
        self.expected = outputs_of(program, inputs)[0]
        self.sharded = folder / "sharded"
        done("shard", self.model, "--mesh", "tp=2", "--plan", self.plan, "-o", self.sharded)
        # Its input and its output are sharded by the batch, whose five rows two ranks cannot divide evenly.
        self.sharded_by_layouts = folder / "sharded_by_layouts"
        layouts = ("--input-layout", "x={S(0)}", "--output-layout", "0={S(-2)}")
        done("shard", self.model, "--mesh", "tp=2", "--plan", self.plan, "-o", self.sharded_by_layouts, *layouts)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("command"))


def assert_expected(path, files):
    torch.testing.assert_close(load_file(path)["output_0"], files.expected, rtol=1e-4, atol=1e-4)


def test_shard_writes_a_program_per_rank_and_a_manifest(files):
    assert sorted(path.name for path in files.sharded_by_layouts.iterdir()) == ["rank_0.pt2", "rank_1.pt2", "weft.json"]
    manifest = json.loads((files.sharded_by_layouts / "weft.json").read_text())
    assert re.fullmatch("[0-9a-f]{8}", manifest.pop("checksum"))
    digests = [entry.pop("digest") for entry in manifest["ranks"]]
    assert digests[0] != digests[1]
    assert manifest == {
        "format": "weft sharded program",
        "version": 2,
        "mesh": "mesh(tp=2)",
        "ranks": [
            {"rank": rank, "file": f"rank_{rank}.pt2", "bytes": (files.sharded_by_layouts / f"rank_{rank}.pt2").stat().st_size}
            for rank in (0, 1)
        ],
        "inputs": [{"name": "x", "dtype": "f32", "sizes": [5, 16], "layout": "{S(0)}"}],
        "outputs": [{"name": "output_0", "dtype": "f32", "sizes": [5, 16], "layout": "{S(0)}"}],
    }
    rank = torch.export.load(files.sharded_by_layouts / "rank_1.pt2")
    assert rank.state_dict["blocks.0.up.weight"].shape == (24, 16)


def test_shard_says_what_the_ranks_hold_and_what_a_call_moves(files, tmp_path):
    text = done("shard", files.model, "--mesh", "tp=4", "--plan", files.plan, "-o", tmp_path / "out")
    assert text.splitlines() == [
        "parameters   3,264 global, 888 on a rank",
        "a call       2 all_reduce; a rank receives 960 bytes",
        "fallbacks    none",
        f"written to   {tmp_path / 'out'}: 4 programs with their weights, and weft.json",
    ]


def test_shard_replaces_what_it_wrote_and_nothing_else(files, tmp_path):
    def shard(folder, mesh="tp=2"):
        return ("shard", files.model, "--mesh", mesh, "--plan", files.plan, "-o", folder)

    out = tmp_path / "out"
    out.mkdir()
    done(*shard(out, "tp=4"))
    done(*shard(f"{out}/"))
    assert len(list(out.iterdir())) == 3
    (out / "notes.txt").write_text("mine")
    assert "also holds notes.txt" in refused(*shard(out))[1]
    other = tmp_path / "other"
    other.mkdir()
    (other / "weights.bin").write_text("mine")
    assert "has no weft.json" in refused(*shard(other))[1]
    assert "it is a file" in refused(*shard(files.plan))[1]
    assert "Make it first." in refused(*shard(tmp_path / "a/b"))[1]
    plan = tmp_path / "plan.json"
    plan.write_text('{"blocks.*.up": {"style": "colwise", "heads": 5}}')
    refused("shard", files.model, "--mesh", "tp=2", "--plan", plan, "-o", tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "out", "plan.json"]
    assert (out / "notes.txt").exists() and len(list(out.iterdir())) == 4


def test_shard_keeps_the_text_after_each_pass(files, tmp_path):
    def shard(*more, mesh="tp=2", plan=files.plan):
        return ("shard", files.model, "--mesh", mesh, "--plan", plan, "-o", tmp_path / "out", *more)

    texts = tmp_path / "new" / "texts"
    done(*shard("--dump-after", texts, "--verify"))
    whole = ["01_tensor_parallel.txt", "02_common_redistributions.txt", "03_dead_code.txt", "04_micro_pipeline.txt"]
    of_rank = ["01_localize.txt", "02_bucket_collectives.txt", "03_hoist_collectives.txt", "04_dead_code.txt"]
    assert sorted(path.name for path in texts.iterdir()) == [*whole, "rank_0", "rank_1"]
    for rank in ("rank_0", "rank_1"):
        assert sorted(path.name for path in (texts / rank).iterdir()) == of_rank
        assert "_c10d_functional::all_reduce" in (texts / rank / "04_dead_code.txt").read_text()
    assert (texts / "01_tensor_parallel.txt").read_text().startswith("program @ mesh(tp=2)\n")
    # What is there stays, and nothing is written where the texts cannot be.
    shutil.rmtree(tmp_path / "out")
    assert "it is not empty. Remove it, or name another." in refused(*shard("--dump-after", texts))[1]
    assert "cannot be created: Not a directory" in refused(*shard("--dump-after", files.plan / "texts"))[1]
    for inside in (tmp_path / "out", tmp_path / "out" / "texts"):
        assert "--dump-after must name a folder outside of the output's" in refused(*shard("--dump-after", inside))[1]
    assert not (tmp_path / "out").exists() and len(list(texts.iterdir())) == 6


def test_shard_takes_the_weights_of_a_folder(files, tmp_path):
    program = torch.export.load(files.model)
    weights = {name: torch.randn_like(value) for name, value in program.state_dict.items()}
    folder = tmp_path / "weights"
    folder.mkdir()
    stored = {f"m.{name}": value for name, value in weights.items()}
    stored["m.blocks.0.up.weight_t"] = stored.pop("m.blocks.0.up.weight").t().contiguous()
    save_file(stored, folder / "model.safetensors")
    key_map = tmp_path / "map.json"
    key_map.write_text(json.dumps({"blocks.0.up.weight": {"from": "m.blocks.0.up.weight_t", "transpose": True}, "*": "m.*"}))
    out, result = tmp_path / "out", tmp_path / "y.safetensors"
    given = ("shard", files.model, "--mesh", "tp=2", "--plan", files.plan, "-o", out, "--weights", folder)
    done(*given, "--key-map", key_map)
    done("run", out, "--input", files.input, "--output", result)
    module = program.module()
    module.load_state_dict(weights)
    torch.testing.assert_close(load_file(result)["output_0"], module(*load_file(files.input).values()), rtol=1e-4, atol=1e-4)
    code, text = refused(*given)
    assert code == 1 and "[use_weights]" in text and "it lacks 'blocks.0" in text and text.endswith("if they have other names there.")


def test_run_gives_what_the_model_gives(files, tmp_path):
    output = tmp_path / "y.safetensors"
    for program in (files.sharded, files.sharded_by_layouts, files.model):
        text = done("run", program, "--input", files.input, "--output", output)
        assert_expected(output, files)
        assert text.splitlines()[-1] == "output_0: f32[5,16]"
        output.unlink()


@pytest.mark.parametrize(
    "launcher",
    [
        [sys.executable, "-m", "torch.distributed.run", "--no-python", "--standalone", "--nproc-per-node", "2"],
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"],
    ],
    ids=["torchrun", "mpirun"],
)
def test_run_on_processes_gives_what_the_model_gives(files, launcher, tmp_path):
    if launcher[0] == "mpirun" and shutil.which("mpirun") is None:
        pytest.fail("mpirun is missing: install openmpi-bin")
    output = tmp_path / "y.safetensors"
    run = [COMMAND, "run", files.sharded_by_layouts, "--input", files.input, "--output", output, "--json"]
    result = subprocess.run([*launcher, *run], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    assert printed["ranks"] == 2 and printed["kind"] == "processes"
    assert_expected(output, files)


class Inputs(nn.Module):
    """Numbers, None and random numbers."""

    def forward(self, x, count, flag):
        return x.repeat(count), None, torch.rand(3) if flag else x


def test_run_takes_numbers_and_seeds_and_leaves_out_what_is_none(tmp_path):
    inputs = (torch.arange(6.0), 3, True)
    program = torch.export.export(Inputs(), inputs, dynamic_shapes={"x": None, "count": torch.export.Dim.DYNAMIC, "flag": None})
    model, given, output = (tmp_path / name for name in ("model.pt2", "x.safetensors", "y.safetensors"))
    torch.export.save(program, model)
    save_file(named_inputs(program, (inputs[0], 7, True)), given)
    outputs = []
    for seed in (1, 1, 2):
        done("run", model, "--input", given, "--output", output, "--seed", seed)
        outputs.append(load_file(output))
    assert sorted(outputs[0]) == ["output_0", "output_2"]
    assert torch.equal(outputs[0]["output_0"], inputs[0].repeat(7))
    assert torch.equal(outputs[0]["output_2"], outputs[1]["output_2"])
    assert not torch.equal(outputs[0]["output_2"], outputs[2]["output_2"])
    printed = json.loads(done("run", model, "--input", given, "--output", output, "--repeat", 3, "--json"))
    assert len(printed["seconds"]) == 3 and printed["outputs"][0] == {"name": "output_0", "dtype": "f32", "sizes": [42]}


class Copies(nn.Module):
    def forward(self, tensors):
        return {name: tensor.clone() for name, tensor in tensors.items()}


def test_tensors_of_all_dtypes_go_in_and_come_out(tmp_path):
    names = (
        "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz "
        "int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool complex64"
    ).split()
    tensors = {name: torch.randint(0, 2, (3, 1 + i % 3)).to(getattr(torch, name)) for i, name in enumerate(names)}
    tensors["empty"] = torch.empty(0, 4)
    tensors["none"] = torch.tensor(1.5)
    program = torch.export.export(Copies(), (tensors,))
    model, given, output = (tmp_path / name for name in ("model.pt2", "x.safetensors", "y.safetensors"))
    torch.export.save(program, model)
    save_file(named_inputs(program, (tensors,)), given, metadata={"about": "a test"})
    done("run", model, "--input", given, "--output", output)
    outputs = load_file(output)
    expected = outputs_of(program, (tensors,))
    assert len(outputs) == len(expected) == len(tensors)
    for i, tensor in enumerate(expected):
        assert outputs[f"output_{i}"].dtype == tensor.dtype and outputs[f"output_{i}"].shape == tensor.shape
        assert torch.equal(outputs[f"output_{i}"].to(torch.complex64), tensor.to(torch.complex64))


def test_wrong_arguments_and_files_are_one_line_with_a_hint(files, tmp_path):
    (tmp_path / "text.pt2").write_text("no program")
    (tmp_path / "plan.json").write_text('{"block.*.up": "colwise"}')
    save_file({"y": torch.ones(2, 16)}, tmp_path / "named.safetensors")
    save_file({"x": torch.ones(2, 9)}, tmp_path / "wide.safetensors")
    shard = ("shard", files.model, "--plan", files.plan, "-o", tmp_path / "out")
    run = ("run", files.sharded, "--output", tmp_path / "y")
    cases = [
        (2, "weft --help", ()),
        (2, "weft shard --help", ("shard", files.model)),
        (2, "a mesh as in tp=4 or dp=2,tp=2 is required, but got '4'", (*shard, "--mesh", "4")),
        (2, "an input and its layout as in 'x={S(0)}' is required", (*shard, "--mesh", "tp=2", "--input-layout", "x")),
        (2, "--sharp", ("show", "f32[4] @ mesh(tp=2) {R}", "--sharp")),
        (1, "cannot be opened: No such file or directory", ("plan", tmp_path / "none.pt2", "--mesh", "tp=2")),
        (1, "text.pt2", ("plan", tmp_path / "text.pt2", "--mesh", "tp=2")),
        (1, "a plan file is required", ("explain", files.model, "--mesh", "tp=2", "--plan", tmp_path / "none.json")),
        (
            1,
            "The nearest are: blocks.*.up",
            ("explain", files.model, "--mesh", "tp=2", "--plan", tmp_path / "plan.json"),
        ),
        (1, "the program's inputs are x", (*shard, "--mesh", "tp=2", "--input-layout", "y={R}")),
        (1, "but the program has 1 outputs", (*shard, "--mesh", "tp=2", "--output-layout", "1={R}")),
        (1, "a placement for every dim of mesh(tp=2)", (*shard, "--mesh", "tp=2", "--input-layout", "x={R,R}")),
        (1, "weft.json cannot be read", ("run", tmp_path, "--input", files.input, "--output", tmp_path / "y")),
        (1, "does not exist", ("run", tmp_path / "none", "--input", files.input, "--output", tmp_path / "y")),
        (1, 'there is no input "y". The inputs are x', (*run, "--input", tmp_path / "named.safetensors")),
        (1, "but got f32[2,9]", (*run, "--input", tmp_path / "wide.safetensors")),
        (1, "a safetensors file is required", (*run, "--input", files.plan)),
        (1, "The nearest are: ", ("explain", files.model, "--mesh", "tp=2", "--plan", files.plan, "--node", "blocks.7")),
    ]
    for code, text, arguments in cases:
        exit_code, error = refused(*arguments)
        assert exit_code == code and text in error, (arguments, error)
    assert not (tmp_path / "out").exists() and not (tmp_path / "y").exists()


def test_a_library_that_cannot_be_loaded_is_an_error():
    code, text = refused("--library", "none.so", "show", "f32[4] @ mesh(tp=2) {R}")
    assert code == 1 and "[weft] --library must name a shared library that can be loaded, but got none.so" in text


class OfAnotherLibrary(nn.Module):
    def __init__(self, operator):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
        self.by = nn.Parameter(torch.randn(16))
        self.operator = operator

    def forward(self, x):
        hidden = self.up(x)
        if self.operator == "scaled":
            return self.down(torch.ops.weft_test_library.scaled(hidden, self.by))
        return self.down(torch.ops.weft_test_library.reversed(hidden))


@pytest.mark.parametrize("operator, fallbacks", [("scaled", "none"), ("reversed", "weft_test_library::reversed")])
def test_operators_of_a_library_are_sharded_and_run(operator, fallbacks, tmp_path):
    """One with a rule of that library's, one without."""
    torch.ops.load_library(OPERATOR_LIBRARY)
    torch.manual_seed(0)
    model, x = OfAnotherLibrary(operator), torch.randn(4, 8)
    path, plan, given, result = (tmp_path / name for name in ("m.pt2", "plan.json", "x.safetensors", "y.safetensors"))
    torch.export.save(torch.export.export(model, (x,)), path)
    plan.write_text(json.dumps({"up": "colwise", "down": "rowwise"}))
    save_file({"x": x}, given)

    shard = ("shard", path, "--mesh", "tp=2", "--plan", plan, "-o", tmp_path / "sharded")
    code, text = refused(*shard)
    assert code == 1 and f"torch.ops.weft_test_library.{operator}.default" in text and "--library" in text
    text = done("--library", OPERATOR_LIBRARY, *shard)
    assert re.search(f"fallbacks +.*{fallbacks}", text)
    done("--library", OPERATOR_LIBRARY, "run", tmp_path / "sharded", "--input", given, "--output", result)
    torch.testing.assert_close(load_file(result)["output_0"], model(x))


def test_every_command_has_help_with_an_example():
    for name in ("plan", "explain", "shard", "run", "check-plan", "redistribute", "show", "overlap", "checkpoint"):
        assert re.search(rf"Examples?:\n  .*weft {name} ", done(name, "--help")), name


def test_layouts_and_plans_are_json_on_demand(files):
    spec = "f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}"
    shown = json.loads(done("show", spec, "--json"))
    assert shown["ranks"][3] == {"rank": 3, "coordinate": [1, 1], "offset": [4, 0], "shape": [4, 16]}
    steps = json.loads(done("redistribute", spec, "{R, R}", "--json"))
    assert [step["kind"] for step in steps["steps"]] == ["all_gather"] and steps["bytes"] == 256
    modules = files.folder / "modules.txt"
    modules.write_text("blocks.0.up\nblocks.0.down\nhead\n")
    checked = json.loads(done("check-plan", files.plan, "--modules", modules, "--json"))
    assert {path: style and style["style"] for path, style in checked.items()} == {
        "blocks.0.up": "colwise",
        "blocks.0.down": "rowwise",
        "head": None,
    }


def test_explain_says_of_each_node_how_it_lies_and_what_is_moved_for_it(files):
    arguments = ("explain", files.model, "--mesh", "tp=2", "--plan", files.plan)
    whole = json.loads(done(*arguments, "--json"))
    assert whole["mesh"] == "mesh(tp=2)" and whole["summary"]["collectives"]["all_reduce"] == 2
    moved = [node for node in whole["nodes"] if node.get("communicates")]
    assert [node["change"] for node in moved] == ["tp: {P(sum)} -> {R}"] * 2
    assert all(node["bytes"] > 0 and "for aten::add.Tensor" in node["reason"] for node in moved)
    assert sum(node["bytes"] for node in moved) == whole["summary"]["bytes"] == whole["modules"][0]["bytes"]
    up = next(node for node in whole["nodes"] if node["module"] == "blocks.1.up" and node["target"] == "aten::linear")
    assert [each["layout"] for each in up["operands"]] == ["{R}", "{S(0)}", "{S(0)}"]
    assert up["outputs"][0]["layout"] == "{S(1)}" and up["reason"]
    of_module = json.loads(done(*arguments, "--json", "--node", "blocks.1"))
    assert {node["module"].split(".")[1] for node in of_module["nodes"]} == {"1"}
    text = done(*arguments)
    assert "blocks.1.up.weight: f32[48,16] {S(0)}" in text
    assert "=> all_reduce tp: {P(sum)} -> {R}" in text
    assert done(*arguments, "--node", up["name"]).count("aten::") == 1


# The collectives of the plans that are written by hand: of layers a pair each, and of the ends.
PROPOSED = {
    "mlp": {"all_reduce": 2},
    "llama": {"all_reduce": 1 + 2 * llama.LAYERS, "all_gather": 1},
    "gpt2": {"all_reduce": 1 + 2 * gpt2_models.LAYERS, "all_gather": 1},
    # Words, layers, and the pair of pooler and classifier.
    "bert": {"all_reduce": 1 + 2 * bert.LAYERS + 1},
    "vit": {"all_reduce": 2 * vit.LAYERS},
}


@pytest.mark.parametrize("variant", ["exported", "decomposed", "dynamic"])
@pytest.mark.parametrize("name", PROPOSED)
def test_a_proposed_plan_communicates_as_one_that_is_written_by_hand(name, variant, tmp_path):
    model = MODELS[name]
    program = export(model, VARIANTS[variant])
    torch.export.save(program, tmp_path / "model.pt2")
    proposed = json.loads(done("plan", tmp_path / "model.pt2", "--mesh", "tp=4", "--json"))
    inputs = inputs_of(model)
    outputs, summary = in_process(tmp_path / "model.pt2", "tp=4", proposed["plan"], named_inputs(program, inputs))
    assert {kind: count for kind, count in summary["collectives"].items() if count} == PROPOSED[name], proposed
    for actual, expected in zip(outputs, outputs_of(program, inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def test_a_proposed_plan_is_the_one_that_is_written_by_hand(tmp_path):
    program = export(MODELS["llama"], VARIANTS["exported"])
    torch.export.save(program, tmp_path / "model.pt2")
    result = command("plan", tmp_path / "model.pt2", "--mesh", "dp=2,tp=2", "-o", tmp_path / "plan.json")
    assert result.returncode == 0 and result.stdout == ""
    assert json.loads((tmp_path / "plan.json").read_text()) == {
        "tok_embeddings": "rowwise",
        "layers.*.attention.wq": {"style": "colwise", "heads": 12},
        "layers.*.attention.wk": {"style": "colwise", "heads": 4},
        "layers.*.attention.wv": {"style": "colwise", "heads": 4},
        "layers.*.attention.wo": {"style": "rowwise", "heads": 12},
        "layers.*.feed_forward.w1": "colwise",
        "layers.*.feed_forward.w3": "colwise",
        "layers.*.feed_forward.w2": "rowwise",
        "output": "colwise",
    }
    reasons = dict(line.split(None, 1) for line in result.stderr.splitlines())
    assert reasons["layers.*.attention.wk"] == "colwise; attention: 4 heads stay apart until layers.*.attention.wo sums them up"
    assert reasons["layers.*.feed_forward.w2"] == (
        "rowwise; sums up, by one all_reduce, what comes of layers.*.feed_forward.w1, layers.*.feed_forward.w3"
    )
    sizes = {name: parameter.numel() for name, parameter in program.named_parameters()}
    replicated = sum(size for name, size in sizes.items() if "norm" in name)
    assert result.stderr.splitlines()[-1] == (
        f"Of {sum(sizes.values()):,} parameters every rank holds {replicated:,}, and a shard of the others."
    )


def test_a_proposed_plan_may_shard_blocks_fully(tmp_path):
    program = export(MODELS["llama"], VARIANTS["exported"])
    torch.export.save(program, tmp_path / "model.pt2")
    both = ("--mesh", "dp=2,tp=2", "--fully-shard", "dp")
    result = command("plan", tmp_path / "model.pt2", *both, "-o", tmp_path / "plan.json")
    assert result.returncode == 0, result.stderr
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["layers.*"] == {"shard": "dp"} and plan[""] == {"shard": "dp"} and plan["output"] == "colwise"
    assert re.search(r"^layers\.\* +fully sharded over dp: each of \d blocks", result.stderr, re.MULTILINE), result.stderr
    alone = json.loads(done("plan", tmp_path / "model.pt2", "--mesh", "dp=2", "--fully-shard", "dp", "--json"))
    assert alone["plan"] == {"layers.*": {"shard": "dp"}, "": {"shard": "dp"}}
    assert "tp" in refused("plan", tmp_path / "model.pt2", "--mesh", "dp=2", "--fully-shard", "tp")[1]
    # A program keeps those parameters, and the command says so.
    explained = command("explain", tmp_path / "model.pt2", "--mesh", "dp=2,tp=2", "--plan", tmp_path / "plan.json")
    assert explained.returncode == 0
    assert 'plan entry "layers.*" is fully sharded over dp by parallelize_module; a program holds' in explained.stderr
    small = {"layers.*": {"shard": "dp"}, "head": {"style": "colwise", "shard": "dp"}}
    (tmp_path / "small.json").write_text(json.dumps(small))
    (tmp_path / "modules.txt").write_text("layers.0\nhead\nnorm\n")
    lines = done("check-plan", tmp_path / "small.json", "--modules", tmp_path / "modules.txt").splitlines()
    assert lines[0] == 'layers.0: {"shard":"dp"}' and lines[1].endswith('{"shard":"dp"}') and lines[2] == "norm: not named"


def test_heads_that_do_not_divide_are_left_replicated_with_a_note(tmp_path):
    program = export(MODELS["gpt2_odd"], VARIANTS["exported"])
    torch.export.save(program, tmp_path / "model.pt2")
    proposed = json.loads(done("plan", tmp_path / "model.pt2", "--mesh", "tp=2", "--json"))
    assert "h.*.attn.c_attn" not in proposed["plan"] and "h.*.mlp.c_fc" in proposed["plan"]
    notes = {left["pattern"]: left["reason"] for left in proposed["left_out"]}
    assert notes["h.*.attn.c_attn"] == "left replicated: 5 heads cannot be divided among 2 ranks"
    assert notes["wpe"] == "left replicated: the program looks it up at places of its own"
    sizes = {name: parameter.numel() for name, parameter in made(MODELS["gpt2_odd"]).named_parameters()}
    sharded = sum(size for name, size in sizes.items() if re.search(r"wte\.weight|c_fc\.|mlp\.c_proj\.weight", name))
    assert (proposed["parameters"], proposed["replicated"]) == (sum(sizes.values()), sum(sizes.values()) - sharded)


def test_the_demonstration_is_the_main_job_from_end_to_end():
    demo = Path(__file__).parents[2] / "examples/python/demo.py"
    result = subprocess.run([sys.executable, demo, "--weft", COMMAND], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "5 all_reduce" in result.stdout and "1 all_gather" in result.stdout
    assert '"layers.*.attention.wq": {"style":"colwise","heads":8}' in result.stdout
    assert result.stdout.splitlines()[-1].startswith("The logits are PyTorch's own to ")
