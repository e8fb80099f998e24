"""The main job, from end to end: PyTorch exports a small decoder, the command `weft` shards it over four ranks and runs it, and
what comes out is compared with what PyTorch gives by itself. Prints the plan, the layouts and the communication.

usage: demo.py [--weft COMMAND] [--mesh MESH]"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from llama import Llama, LlamaSizes

try:
    from safetensors.torch import load_file, save_file
except ImportError:
    sys.exit(f"the demonstration needs safetensors: {sys.executable} -m pip install safetensors")

SIZES = LlamaSizes(vocabulary=1000, length=64, dim=64, layers=2, heads=8, kv_heads=4, hidden=192)
TOLERANCE = 1e-4


def export(path):
    """Batches and sequences of any size."""
    torch.manual_seed(0)
    model = Llama(SIZES).eval()
    tokens = torch.randint(SIZES.vocabulary, (2, 10))
    sizes = ({0: torch.export.Dim("batch", max=64), 1: torch.export.Dim("length", max=SIZES.length)},)
    torch.export.save(torch.export.export(model, (tokens,), dynamic_shapes=sizes), path)
    return model


class Command:
    """The command weft in a folder, each call shown as one would type it."""

    def __init__(self, weft, folder):
        self.weft, self.folder = weft, folder

    def __call__(self, *arguments, is_shown=True):
        if is_shown:
            print(f"\n$ weft {' '.join(arguments)}", flush=True)
        done = subprocess.run([self.weft, *arguments], cwd=self.folder, stdout=None if is_shown else subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(done.returncode)
        return done.stdout


def print_explained(explained):
    print("\nLayouts of the weights, of the ends and of the first layer (S(0): every rank has some of the rows):")
    for weight in explained["given"]:
        if weight["kind"] == "parameter" and not weight["name"].startswith("layers.1"):
            print(f"  {weight['name']:33}{weight['type']:15}{weight['layout']}")
    print("\nWhat a call communicates, by the sizes of the export:")
    for node in explained["nodes"]:
        if node.get("communicates"):
            print(f"  {node['module']:24}{node['target']:12}{node['change']:22}{node['bytes']:7,} bytes, {node['reason']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", default="weft", help="the command (default: %(default)s)")
    parser.add_argument("--mesh", default="tp=4", help="the ranks (default: %(default)s)")
    options = parser.parse_args()
    command = Path(options.weft).resolve() if "/" in options.weft else options.weft
    with tempfile.TemporaryDirectory(prefix="weft_demo_") as folder:
        folder = Path(folder)
        weft = Command(command, folder)
        model = export(folder / "model.pt2")
        count = sum(parameter.numel() for parameter in model.parameters())
        print(f"A decoder of {SIZES.layers} layers with {count:,} parameters, exported by PyTorch {torch.__version__}: model.pt2")
        mesh = ("--mesh", options.mesh)
        weft("plan", "model.pt2", *mesh, "-o", "plan.json")
        print(f"\nplan.json, which one would edit:\n{(folder / 'plan.json').read_text()}", end="")
        weft("shard", "model.pt2", *mesh, "--plan", "plan.json", "-o", "sharded")
        explain = weft("explain", "model.pt2", *mesh, "--plan", "plan.json", "--json", is_shown=False)
        print_explained(json.loads(explain))
        tokens = torch.randint(SIZES.vocabulary, (3, 23))
        save_file({"tokens": tokens}, folder / "tokens.safetensors")
        weft("run", "sharded", "--input", "tokens.safetensors", "--output", "logits.safetensors")
        logits = load_file(folder / "logits.safetensors")["output_0"]
    with torch.no_grad():
        difference = (logits - model(tokens)).abs().max().item()
    if not difference <= TOLERANCE:
        sys.exit(f"The logits must be PyTorch's own to {TOLERANCE}, but differ by {difference}.")
    print(f"\nThe logits are PyTorch's own to {difference:.1e}.")


if __name__ == "__main__":
    main()
