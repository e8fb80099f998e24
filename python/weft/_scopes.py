"""With statements that set a switch of the thread. They are classes of Python, so that torch.compile can inline them."""

from weft import _C


class _Scope:
    _exchange = None  # sets the switch and returns its former value

    def __init__(self, enabled: bool = True):
        self._enabled = enabled
        self._outer = []

    def __enter__(self) -> None:
        self._outer.append(self._exchange(self._enabled))

    def __exit__(self, *exception) -> None:
        if not self._outer:
            raise ValueError(f"[{type(self).__name__}] __exit__ needs an __enter__ before it.")
        self._exchange(self._outer.pop())


class strict(_Scope):
    """In it an operator that would have to communicate raises instead, with the plan it would have run."""

    _exchange = _C.exchange_strict


class replicate_plain(_Scope):
    """In it plain tensors among distributed ones count as replicated: the same on every rank."""

    _exchange = _C.exchange_replicate_plain


class loss_parallel(_Scope):
    """Cross entropy of class-sharded logits never gathers them. In this scope its target and class weights may be plain
    tensors, the same on every rank, and a call that would have to gather the logits raises.

        with weft.loss_parallel():
            loss = F.cross_entropy(logits, target)
            loss.backward()
    """

    _exchange = _C.exchange_loss_parallel
