#!/usr/bin/env python3
"""Writes an exported program that does COPIES times in a row what another does, for graphs that torch.export takes long to make.

Usage: repeat_program.py program.pt2 COPIES result.pt2

The program has one user input and one output of the same shape, and its modules are the list `blocks`: those of the k-th copy
are numbered on. Copies have parameters of their own names, and the bytes of the first: the file stays small.
"""

import copy
import json
import re
import sys
import zipfile

import torch

WEIGHTS = "data/weights/model_weights_config.json"
MODEL = "models/model.json"
WRITTEN_BY_TORCH = {".data/version", "byteorder", ".data/serialization_id"}


def records(path):
    """The records of an archive by name, without the folder that all of them are in."""
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def numbered_on(text, by):
    """`blocks.3` and `blocks_3` with another number."""
    return re.sub(r"(?<=blocks[._])\d+", lambda found: str(int(found[0]) + by), text)


class Copy:
    """The k-th copy's names: what comes in is what the copy before it gives out."""

    def __init__(self, graph, number, size, user_input):
        self.shift, self.suffix = number * size, f"_of_{number}" if number else ""
        self.previous = f"_of_{number - 1}" if number > 1 else ""
        self.user_input, self.is_first = user_input, number == 0
        self.output = graph["outputs"][0]["as_tensor"]["name"]
        self.made = {output["as_tensor"]["name"] for node in graph["nodes"] for output in node["outputs"]}

    def name(self, name):
        if name == self.user_input:
            return name if self.is_first else self.output + self.previous
        return name + self.suffix if name in self.made else numbered_on(name, self.shift)

    def value(self, argument):
        """An argument of a node, or an input or output of the graph."""
        if "as_tensor" in argument:
            return {"as_tensor": {"name": self.name(argument["as_tensor"]["name"])}}
        return argument

    def node(self, node):
        stack = node["metadata"].get("nn_module_stack", "")
        return {
            **node,
            "name": self.name(node["name"]),
            "inputs": [{**given, "arg": self.value(given["arg"])} for given in node["inputs"]],
            "outputs": [self.value(output) for output in node["outputs"]],
            "metadata": {"nn_module_stack": numbered_on(stack, self.shift)},
        }


def repeated_model(model, copies):
    graph, signature = model["graph_module"]["graph"], model["graph_module"]["signature"]
    parameters = [spec for spec in signature["input_specs"] if "parameter" in spec]
    (user,) = [spec for spec in signature["input_specs"] if "user_input" in spec]
    if len(parameters) + 1 != len(signature["input_specs"]) or len(graph["outputs"]) != 1:
        sys.exit("error: a program of parameters, one input and one output is required")
    user_input = user["user_input"]["arg"]["as_tensor"]["name"]
    size = 1 + max(int(re.match(r"blocks\.(\d+)\.", spec["parameter"]["parameter_name"])[1]) for spec in parameters)

    result = copy.deepcopy(model)
    inputs, specs, nodes, values = [], [], [], {}
    for number in range(copies):
        names = Copy(graph, number, size, user_input)
        for spec in parameters:
            of_copy = numbered_on(json.dumps(spec), names.shift)
            specs.append(json.loads(of_copy))
            inputs.append({"as_tensor": specs[-1]["parameter"]["arg"]})
        nodes += [names.node(node) for node in graph["nodes"]]
        values.update({names.name(name): meta for name, meta in graph["tensor_values"].items()})
        output = names.value(graph["outputs"][0])
    new_graph, new_signature = result["graph_module"]["graph"], result["graph_module"]["signature"]
    new_graph.update(inputs=[*inputs, {"as_tensor": {"name": user_input}}], outputs=[output], nodes=nodes, tensor_values=values)
    new_signature["input_specs"] = [*specs, user]
    new_signature["output_specs"][0]["user_output"]["arg"] = output
    return result, size


def repeated(contents, copies):
    model, size = repeated_model(json.loads(contents[MODEL]), copies)
    weights = json.loads(contents[WEIGHTS])["config"]
    config = {
        numbered_on(name, number * size): entry for number in range(copies) for name, entry in weights.items()
    }
    return {**contents, MODEL: json.dumps(model).encode(), WEIGHTS: json.dumps({"config": config}).encode()}


def main():
    if len(sys.argv) != 4 or not sys.argv[2].isdigit():
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    source, copies, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    # torch's writer aligns what readers map into memory.
    writer = torch._C.PyTorchFileWriter(target)
    for name, data in repeated(records(source), copies).items():
        if name not in WRITTEN_BY_TORCH:
            writer.write_record(name, data, len(data))
    writer.write_end_of_file()
    return 0


if __name__ == "__main__":
    sys.exit(main())
