"""torch.compile over distributed tensors: the code that touches one is not compiled but runs as it is.

The tracer copies the storage of what it traces, which a distributed tensor does not have. It is told so when it first sees
one, and breaks the graph there. It is imported only when something is compiled, so it is reached by watching imports.
"""

from weft import _C
from weft._imports import when_imported


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


def install():
    when_imported("torch._dynamo.variables.builder", _teach)
