"""nn.Module.__call__ as it is once a module was parallelised."""

import sys

import pytest
from torch import nn
from weft._modules import forward


class Depth(nn.Module):
    """Its forward returns the number of Python frames below it."""

    def forward(self):
        frame, depth = sys._getframe(), 0
        while frame:
            frame, depth = frame.f_back, depth + 1
        return depth


@pytest.fixture
def install(monkeypatch):
    monkeypatch.setattr(nn.Module, "_weft_replicates_plain", False, raising=False)

    def replacing(call):
        monkeypatch.setattr(nn.Module, "__call__", call)
        forward._install()

    return replacing


def test_modules_have_no_frame_more_than_in_torch(install, monkeypatch):
    monkeypatch.setattr(nn.Module, "__call__", nn.Module._wrapped_call_impl)
    plain = Depth()()
    install(nn.Module._wrapped_call_impl)
    assert nn.Module.__call__ is not nn.Module._wrapped_call_impl and Depth()() == plain


def test_a_compiled_module_calls_what_was_compiled(install):
    install(nn.Module._wrapped_call_impl)
    module = Depth()
    module._compiled_call_impl = lambda: "compiled"
    assert module() == "compiled"


@pytest.mark.parametrize("replicates_plain", [False, True])
def test_what_another_package_put_in_its_place_is_still_called(install, replicates_plain):
    called = []

    def call(self, *args, **kwargs):
        called.append(self)
        return self._call_impl(*args, **kwargs)

    install(call)
    module = Depth()
    forward.set_replicates_plain(module, replicates_plain)
    module()
    assert called == [module]
