"""torch.nn.parallel.DistributedDataParallel around a model with distributed parameters: tensor parallel inside, data parallel
outside, each rank of the process group with a batch and a mesh of its own.

    mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    weft.parallelize_module(model, mesh["tp"], plan)
    model = DistributedDataParallel(model, process_group=mesh["dp"].get_group())

torch's reducer knows plain tensors alone. It is given a stand-in for each distributed parameter, which shares the memory of the
parameter's local tensor and, in backward, of its gradient's. The parameters and buffers that users and optimizers see stay
distributed.
"""

import contextlib
import functools
import inspect
import weakref

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel import distributed as _of_torch
from torch.utils.weak import WeakIdKeyDictionary

from weft import _C

_is_dtensor = _C.is_dtensor
_stand_ins = WeakIdKeyDictionary()  # distributed parameter -> its stand-in


def _check_group(module, group):
    """Averaging over ranks that hold other shards of a parameter would mix them."""
    ranks = set(dist.get_process_group_ranks(group)) - {dist.get_rank()}
    for name, parameter in module.named_parameters():
        if _is_dtensor(parameter) and ranks & set(_C.device_mesh(parameter).mesh.flatten().tolist()):
            raise ValueError(
                "[DistributedDataParallel] a process group with one rank of each parameter's mesh is required, but got that of "
                f"ranks {dist.get_process_group_ranks(group)} for '{name}', {_C.spec(parameter)}. Give the group of a mesh dim "
                'that the parameters are not on: process_group=mesh["dp"].get_group(). If they are on it, leave '
                "DistributedDataParallel out: shard the batch over that mesh dim, and backward() reduces the gradients."
            )


def _local(tensor):
    return _C.to_local(tensor.detach()) if _is_dtensor(tensor) else tensor


def _stand_in_of(parameter):
    found = _stand_ins.get(parameter)
    if found is None:
        found = nn.Parameter(_local(parameter), requires_grad=parameter.requires_grad)
        _stand_ins[parameter] = found
    return found


@contextlib.contextmanager
def _stand_ins_in(module):
    """Plain tensors in the place of distributed parameters and buffers."""
    swapped = []
    for owner in module.modules():
        for table, plain in ((owner._parameters, _stand_in_of), (owner._buffers, _local)):
            for name, tensor in table.items():
                if tensor is not None and _is_dtensor(tensor):
                    swapped.append((table, name, tensor))
                    table[name] = plain(tensor)
    try:
        yield
    finally:
        for table, name, tensor in swapped:
            table[name] = tensor


class _Gradients:
    """Gives the reducer the gradients of distributed parameters, and these what the reducer has made of them."""

    def __init__(self, data_parallel, parameters, stand_ins):
        self.pairs = []
        self.backward_pass = None
        position_of = {id(stand_in): position for position, stand_in in enumerate(stand_ins)}
        for parameter in parameters:
            stand_in = _stand_ins[parameter]
            self.pairs.append((parameter, stand_in))
            position = position_of.get(id(stand_in))
            if position is not None:
                hook = functools.partial(self.reduce, weakref.ref(data_parallel), position, stand_in)
                parameter.register_post_accumulate_grad_hook(hook)

    @torch.no_grad()
    def share(self):
        """Called before forward: gradients that were accumulated without the reducer, or set to None."""
        for parameter, stand_in in self.pairs:
            stand_in.grad = None if parameter.grad is None else _local(parameter.grad)

    def reduce(self, data_parallel, position, stand_in, parameter):
        if data_parallel() is None:
            return
        # The reducer copies its result to the gradients in the last of the callbacks that are known at the end of backward.
        if self.backward_pass != torch._C._current_graph_task_id():
            self.backward_pass = torch._C._current_graph_task_id()
            queue = torch.autograd.Variable._execution_engine.queue_callback
            queue(lambda: queue(self.take))
        stand_in.grad = _local(parameter.grad)
        data_parallel().reducer._autograd_hook(position)

    @torch.no_grad()
    def take(self):
        """The reducer may have made a gradient for an unused parameter, or have moved one into its bucket."""
        for parameter, stand_in in self.pairs:
            given = stand_in.grad
            if given is None:
                continue
            if parameter.grad is None or _C.to_local(parameter.grad).data_ptr() != given.data_ptr():
                spec = _C.spec(parameter)
                parameter.grad = _C.from_local(given, spec.mesh, spec.layout, shape=spec.shape, stride=spec.stride)


def _refuse(arguments):
    for name in ("mixed_precision", "delay_all_reduce_named_params"):
        if arguments.get(name) is not None:
            hint = " Use torch.autocast." if name == "mixed_precision" else ""
            raise NotImplementedError(
                f"[DistributedDataParallel] {name} is for plain parameters, but the model has distributed ones.{hint} Leave it out."
            )


def _used_stand_ins(tensors):
    """The stand-ins of parameters that the tensors were computed from. The reducer searches the graph for those itself."""
    todo = [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]
    seen = set(todo)
    while todo:
        node = todo.pop()
        variable = getattr(node, "variable", None)
        stand_in = None if variable is None else _stand_ins.get(variable)
        if stand_in is not None and stand_in.requires_grad:
            yield stand_in.view_as(stand_in)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                todo.append(following)


def _init(init_of_torch):
    signature = inspect.signature(init_of_torch)

    @functools.wraps(init_of_torch)
    def __init__(self, module, *args, **kwargs):
        parameters = [parameter for parameter in module.parameters() if _is_dtensor(parameter)]
        if not parameters:
            init_of_torch(self, module, *args, **kwargs)
            return
        arguments = signature.bind(self, module, *args, **kwargs).arguments
        arguments.pop("self")
        _refuse(arguments)
        mesh = arguments.pop("device_mesh", None)
        if mesh is not None:
            if arguments.get("process_group") is not None:
                raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
            arguments["process_group"] = mesh.get_group()
        _check_group(module, arguments.get("process_group") or dist.group.WORLD)
        with _stand_ins_in(module):
            init_of_torch(self, **arguments)
            stand_ins, _ = self._build_params_for_reducer()
        if mesh is not None:
            self.device_mesh = mesh
        self._weft_gradients = _Gradients(self, parameters, stand_ins)

    return __init__


def _pre_forward(of_torch):
    @functools.wraps(of_torch)
    def before_forward(self, *inputs, **kwargs):
        gradients = self.__dict__.get("_weft_gradients")
        if gradients is not None and torch.is_grad_enabled():
            gradients.share()
        return of_torch(self, *inputs, **kwargs)

    return before_forward


def _assign_modules_buffers(of_torch):
    """Collects the buffers that are broadcast before forward."""

    @functools.wraps(of_torch)
    def assign(self):
        of_torch(self)
        self.modules_buffers = [_local(buffer) for buffer in self.modules_buffers]
        self.named_module_buffers = {name: _local(buffer) for name, buffer in self.named_module_buffers.items()}

    return assign


def _find_tensors(of_torch):
    @functools.wraps(of_torch)
    def find(output):
        found = list(of_torch(output))
        return [*found, *_used_stand_ins(found)] if len(_stand_ins) else found

    return find


def install():
    DistributedDataParallel.__init__ = _init(DistributedDataParallel.__init__)
    DistributedDataParallel._pre_forward = _pre_forward(DistributedDataParallel._pre_forward)
    DistributedDataParallel._assign_modules_buffers = _assign_modules_buffers(DistributedDataParallel._assign_modules_buffers)
    _of_torch._find_tensors = _find_tensors(_of_torch._find_tensors)
