"""Higher-order operators: regions without gradients, autocast, conditions, loops, checkpoints, vmap."""

import torch
from torch.utils.checkpoint import checkpoint

from odd_programs import add, hidden, mlp

COLWISE = {"up": "colwise", "down": "rowwise"}
OPEN = {"up": "colwise"}


def without_gradients(self, x):
    with torch.no_grad():
        y = hidden(self, x)
    return self.down(y)


def nested_modes(self, x):
    with torch.no_grad():
        y = hidden(self, x)
        with torch.enable_grad():
            z = y * 2
        n = x.shape[0]
    return self.down(z) * n


def autocast(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = mlp(self, x)
    return y.float()


def empty_autocast(self, x):
    with torch.autocast("cpu", enabled=False):
        return mlp(self, x)


add("no_grad", without_gradients, plan=COLWISE)
add("nested_grad_modes", nested_modes, plan=COLWISE)
add("autocast", autocast, plan=COLWISE)
add("autocast_off", empty_autocast, plan=COLWISE)
add("inference_mode", torch.inference_mode()(lambda self, x: mlp(self, x)), plan=COLWISE)
add("cond", lambda self, x: torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (hidden(self, x),)), plan=OPEN)
add("while_loop", lambda self, x: torch._higher_order_ops.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), mlp(self, x)))[1], plan=COLWISE)
add("checkpoint", lambda self, x: checkpoint(lambda y: mlp(self, y), x, use_reentrant=False), plan=COLWISE)
add("vmap", lambda self, x: torch.vmap(lambda row: mlp(self, row))(x), plan=COLWISE)
add("map", lambda self, x: torch._higher_order_ops.map(lambda row, y: row * y, x, hidden(self, x)[0, :8]), plan=OPEN)
add("assert", lambda self, x: (torch._assert(x.shape[0] > 1, "rows"), mlp(self, x))[1], plan=COLWISE)
add("async_assert", lambda self, x: (torch._assert_async(x.isfinite().all()), mlp(self, x))[1], plan=COLWISE)
add("dropout_off", lambda self, x: torch.nn.functional.dropout(hidden(self, x), 0.5, training=False), plan=OPEN)
add("associative_scan", lambda self, x: torch._higher_order_ops.associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic"), plan=COLWISE)
