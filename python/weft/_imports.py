"""Changes modules of torch that are imported late, when something needs them, or never."""

import importlib.util
import sys


class _Finder:
    """Finds one module, once, and changes it after it is loaded."""

    def __init__(self, name, change):
        self.name = name
        self.change = change

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                self.change(module)

            spec.loader.exec_module = exec_module
        return spec


def when_imported(name, change):
    """Calls change(module) when the module is imported, now where it has been already."""
    if name in sys.modules:
        change(sys.modules[name])
    else:
        sys.meta_path.insert(0, _Finder(name, change))


def replace(module, name, replacement):
    """Puts a function in the place of the one that a module defines, also in the modules of the same library that have imported
    that one by `from ... import`. Those that do so later get the replacement, so that the order of imports does not matter."""
    library = module.__name__.partition(".")[0]
    replaced = getattr(module, name)
    for other_name, other in list(sys.modules.items()):
        if other_name.partition(".")[0] == library and getattr(other, "__dict__", {}).get(name) is replaced:
            setattr(other, name, replacement)
    setattr(module, name, replacement)
