"""Sizes that are symbols, as arguments, in lists, as outputs, and numbers that vary."""

import torch

from odd_programs import BATCH, add, hidden, mlp

COLWISE = {"up": "colwise", "down": "rowwise"}
OPEN = {"up": "colwise"}
OPEN_BATCH = {"dynamic_shapes": {"arguments": ({0: BATCH},)}}


def rows():
    return (torch.randn(6, 8),)


add("open_batch", lambda self, x: mlp(self, x), rows, plan=COLWISE, **OPEN_BATCH)
add("open_size_out", lambda self, x: (mlp(self, x), x.shape[0], x.shape[0] * 2 + 1), rows, plan=COLWISE, **OPEN_BATCH)
add("open_new_ones", lambda self, x: x.new_ones(x.shape[0], 3) * hidden(self, x).new_ones(()), rows, plan=OPEN, **OPEN_BATCH)
add("open_new_of_hidden", lambda self, x: hidden(self, x).new_zeros(x.shape[0], 16) + hidden(self, x), rows, plan=OPEN, **OPEN_BATCH)
add("open_view", lambda self, x: hidden(self, x).view(x.shape[0] * 2, 8), rows, plan=OPEN, **OPEN_BATCH)
add("open_inferred", lambda self, x: hidden(self, x).view(-1), rows, plan=OPEN, **OPEN_BATCH)
add("open_expand", lambda self, x: hidden(self, x)[None].expand(x.shape[0], -1, -1), rows, plan=OPEN, **OPEN_BATCH)
add("open_arange", lambda self, x: torch.arange(x.shape[0])[:, None] + hidden(self, x), rows, plan=OPEN, **OPEN_BATCH)
add("open_number_as_scalar", lambda self, x: hidden(self, x) * x.shape[0] / (x.shape[0] + 1), rows, plan=OPEN, **OPEN_BATCH)
add("open_float", lambda self, x: hidden(self, x) * x.shape[0] ** 0.5, rows, plan=OPEN, **OPEN_BATCH)
add("open_mask", lambda self, x: (lambda s: s.masked_fill(torch.ones(x.shape[0], x.shape[0]).triu(1).bool(), float("-inf")).softmax(-1))(hidden(self, x) @ hidden(self, x).t()), rows, plan=OPEN, **OPEN_BATCH)
add("open_repeat", lambda self, x: hidden(self, x).sum(0).repeat(x.shape[0], 1), rows, plan=OPEN, **OPEN_BATCH)
add("open_pad", lambda self, x: torch.nn.functional.pad(hidden(self, x), (0, 0, 0, 8)), rows, plan=OPEN, **OPEN_BATCH)
add("open_item", lambda self, x, n: hidden(self, x).narrow(0, 0, n.item()), lambda: (torch.randn(6, 8), torch.tensor(3)), plan=OPEN)
add("open_nonzero", lambda self, x: hidden(self, x)[hidden(self, x).sum(1) > 0], plan=OPEN)
add("open_int_input", lambda self, x, n: hidden(self, x).new_ones(n, 16), lambda: (torch.randn(4, 8), 5), plan=OPEN, dynamic_shapes={"arguments": (None, torch.export.Dim.DYNAMIC)})
