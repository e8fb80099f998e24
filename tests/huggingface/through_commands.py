"""Exported architectures go through `weft plan`, `explain`, `shard` and `run`, with files in between, and compute what one device
computes."""

import functools
import json
import tempfile
from pathlib import Path

import torch
from exporting import WITHOUT_CACHE, exported, has_cache, strictly_exported

from exported_models.sharding import by_command, command

MESH = "tp=2"
# The all-reduces of a proposed plan: two per layer and one per sharded table; the logits are gathered.
ALL_REDUCES = {
    "T5": 12,  # three in layers of the decoder, and its table is looked up twice
    "Whisper": 11,
    "RoBERTa": 6,  # two tables are looked up by what is given
    "CLIP": 9,  # two towers, of which one has a table
    "ViT": 4,
    "OLMo 2": 9,  # four norms over all heads exchange their moments
}
WITHOUT_LOGITS = ("ViT", "CLIP")
# The most of the parameters that every rank holds under a proposed plan, where that is more than norms and biases of rowwise layers.
REPLICATED = {
    "GPT-2": 0.1,  # the table of positions
    "OPT": 0.13,
    "BERT": 0.17,
    "RoBERTa": 0.1,
    "Whisper": 0.14,  # and convolutions
    "ViT": 0.3,  # the projection of patches, and positions
    "CLIP": 0.22,
    "Mamba": 0.13,  # parameters between layers
}


@functools.cache
def _proposed_for(path):
    done = command("plan", path, "--mesh", MESH, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def proposed_for(program):
    return _proposed_for(program.path)


def collectives_of(summary):
    return {kind: calls for kind, calls in summary["collectives"].items() if calls}


def expect_outputs(outputs, program):
    assert len(outputs) == len(program.expected)
    for output, expected in zip(outputs, program.expected):
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)


def expected_collectives(name, is_decoding):
    """The logits are gathered, and so is a cache that goes out: keys and values of two layers."""
    gathered = (name not in WITHOUT_LOGITS) + 4 * is_decoding
    return {"all_reduce": ALL_REDUCES.get(name, 5)} | ({"all_gather": gathered} if gathered else {})


def _text(collectives):
    return ", ".join(f"{calls} {kind.replace('_', '-')}{'s' * (calls > 1)}" for kind, calls in collectives.items())


def _computes(name, program, is_decoding):
    """What the proposed plan communicates. Raises if outputs, collectives or the parameters on every rank are not as expected."""
    proposed = proposed_for(program)
    with tempfile.TemporaryDirectory() as folder:
        outputs, summary = by_command(program.path, MESH, proposed["plan"], program.inputs, Path(folder))
        explained = command("explain", program.path, "--mesh", MESH, "--plan", Path(folder) / "plan.json")
    expect_outputs(outputs, program)
    assert explained.returncode == 0 and "by the rule" in explained.stdout, explained.stderr
    assert "does not name" not in explained.stderr
    assert summary["fallbacks"] == []
    assert collectives_of(summary) == expected_collectives(name, is_decoding), proposed
    assert proposed["replicated"] < REPLICATED.get(name, 0.03) * proposed["parameters"]
    return _text(collectives_of(summary))


def computes_exported(name):
    return _computes(name, exported(name), is_decoding=False)


def computes_strictly_exported(name):
    """Of a model with a cache: as a step of decoding, whose cache goes in and out."""
    collectives = _computes(name, strictly_exported(name), has_cache(name))
    why = WITHOUT_CACHE[name][0] if name in WITHOUT_CACHE else ""
    return collectives + (", with its cache" if has_cache(name) else f"; transformers exports no cache: {why}" if why else "")
