"""Programs that write: to buffers, to inputs, through views, to what others read."""

import torch

from odd_programs import add, hidden, mlp

COLWISE = {"up": "colwise", "down": "rowwise"}
OPEN = {"up": "colwise"}


def count_up(self, x):
    self.count.add_(1)
    return mlp(self, x) * self.count.sum()


def write_row(self, x):
    y = hidden(self, x)
    y[0] = 0
    y[:, 1:3].mul_(2)
    return y


def write_input(self, x):
    x.mul_(2)
    return mlp(self, x)


def write_input_part(self, x):
    x[:, 0].zero_()
    return mlp(self, x), x


def copy_buffer(self, x):
    self.count.copy_(hidden(self, x)[0, :3])
    return self.count + 1


def fill_no_dims(self, x):
    y = hidden(self, x).sum()
    y.fill_(3.0)
    return y


def out_of_place(self, x):
    return torch.add(hidden(self, x).detach(), 1, out=torch.empty(4, 16))


def detach_and_write(self, x):
    y = hidden(self, x)
    z = y.detach().clone()
    z.zero_()
    return y + z


def resize_nothing(self, x):
    y = torch.empty(())
    y.copy_(hidden(self, x).sum())
    return y


add("buffer_counter", count_up, plan=COLWISE)
add("write_rows", write_row, plan=OPEN)
add("write_input", write_input, plan=COLWISE)
add("write_input_part", write_input_part, plan=COLWISE)
add("copy_to_buffer", copy_buffer, plan=OPEN)
add("fill_no_dims", fill_no_dims, plan=OPEN)
add("out_argument", out_of_place, plan=OPEN)
add("detach_and_write", detach_and_write, plan=OPEN)
add("copy_to_empty", resize_nothing, plan=OPEN)
add("write_parameter_view", lambda self, x: self.up.weight.detach().clone().t().mul_(2) + 0, plan={})
