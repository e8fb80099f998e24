"""torch.compile over distributed tensors: the code that touches one is not compiled but runs as it is.

The tracer copies the storage of what it traces, which a distributed tensor does not have. It is told so when it first sees
one, and breaks the graph there. It is imported only when something is compiled, so it is reached by watching imports.
"""

import importlib.util
import sys

from weft import _C

_TRACER = "torch._dynamo.variables.builder"


def _teach(builder):
    from torch._dynamo.exc import unimplemented

    wrap_plain_tensor = builder.VariableBuilder.wrap_tensor

    def wrap_tensor(self, value):
        if _C.is_dtensor(value):
            unimplemented(
                gb_type="Distributed tensor of Weft",
                context=str(_C.spec(value)),
                explanation="torch.compile does not trace distributed tensors of Weft; the code that uses them runs eagerly.",
                hints=["Compile functions of local tensors: call them with weft.to_local(t)."],
            )
        return wrap_plain_tensor(self, value)

    builder.VariableBuilder.wrap_tensor = wrap_tensor


class _TracerImported:
    """A finder that finds only the tracer, once, and teaches it after it is loaded."""

    def find_spec(self, name, path=None, target=None):
        if name != _TRACER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _teach(module)

            spec.loader.exec_module = exec_module
        return spec


def install():
    if _TRACER in sys.modules:
        _teach(sys.modules[_TRACER])
    else:
        sys.meta_path.insert(0, _TracerImported())
