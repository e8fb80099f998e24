"""What goes in and comes out: None, constants, inputs, one value twice, containers, nothing at all."""

import collections

import torch

from odd_programs import add, hidden, matrix, mlp

COLWISE = {"up": "colwise", "down": "rowwise"}


def two():
    return torch.randn(4, 8), torch.randn(4, 8)


add("output_none", lambda self, x: (mlp(self, x), None), plan=COLWISE)
add("output_twice", lambda self, x: (lambda y: (y, y))(mlp(self, x)), plan=COLWISE)
add("output_sharded_twice", lambda self, x: (lambda y: (y, y))(hidden(self, x)), plan={"up": "colwise"})
add("output_is_input", lambda self, x: (x, mlp(self, x)), plan=COLWISE)
add("output_is_only_input", lambda self, x: x, plan={})
add("output_is_parameter", lambda self, x: (self.up.weight, mlp(self, x)), plan=COLWISE)
add("output_is_buffer", lambda self, x: (self.count, mlp(self, x)), plan=COLWISE)
add("output_is_lifted_constant", lambda self, x: (torch.tensor([1.0, 2.0]), mlp(self, x)), plan=COLWISE)
add("output_numbers", lambda self, x: (mlp(self, x), 3, 2.5, True), plan=COLWISE)
add("output_text", lambda self, x: (mlp(self, x), "text"), plan=COLWISE)
add("output_number_alone", lambda self, x: 3, plan={})
add("output_nothing", lambda self, x: None, plan={})
add("output_nested", lambda self, x: {"a": [mlp(self, x), (x, {"b": None})], "c": ()}, plan=COLWISE)
add("output_of_view", lambda self, x: (hidden(self, x).t(), hidden(self, x)[:, ::3]), plan={"up": "colwise"})
add("output_size", lambda self, x: (mlp(self, x), x.shape[0]), plan=COLWISE)
add("unused_input", lambda self, x, y: mlp(self, x), two, plan=COLWISE)
add("input_twice", lambda self, x, y: mlp(self, x) + mlp(self, y), lambda: (lambda x: (x, x))(torch.randn(4, 8)), plan=COLWISE)
add("inputs_nested", lambda self, x, y: mlp(self, x["a"]) + y[0][1], lambda: ({"a": torch.randn(4, 8)}, [(None, torch.randn(8))]), plan=COLWISE)
add("input_numbers", lambda self, x, n, f, b, s: mlp(self, x) * n * f if b else x, lambda: (torch.randn(4, 8), 2, 0.5, True, "s"), plan=COLWISE)
add("input_none", lambda self, x, y: mlp(self, x) if y is None else x, lambda: (torch.randn(4, 8), None), plan=COLWISE)
add("inputs_only_numbers", lambda self, n: self.up.weight * n, lambda: (2,), plan={})
add("no_inputs", lambda self: self.up.weight.sum(0), lambda: (), plan={})
add("ordered_dict", lambda self, x: collections.OrderedDict(b=mlp(self, x), a=x), plan=COLWISE)
add("integer_input", lambda self, x: self.up(torch.nn.functional.one_hot(x, 8).float()), lambda: (torch.tensor([[1, 2], [3, 4]]),), plan={"up": "colwise"})
add("bool_input", lambda self, x, m: mlp(self, x).masked_fill(m, 0), lambda: (torch.randn(4, 8), torch.zeros(4, 8, dtype=torch.bool)), plan=COLWISE)
add("half_input", lambda self, x: mlp(self, x.float()), lambda: (torch.randn(4, 8).half(),), plan=COLWISE)
add("strided_input", lambda self, x: mlp(self, x.t()), lambda: (torch.randn(8, 4),), plan=COLWISE)
