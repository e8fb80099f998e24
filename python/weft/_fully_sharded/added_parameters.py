"""Parameters that the modules of a unit were given after fully_shard: they belong to no unit, and nothing reduces their gradients."""

from __future__ import annotations

from weft import is_dtensor


class AddedParameters:
    """Refuses those that are plain and trained. `own_modules()` are the modules of the unit as they are now."""

    def __init__(self, own_modules):
        self._own_modules = own_modules
        self._modules = own_modules()  # kept, so that no other module gets the id of one of them or of its table
        self._known = {(id(table), name) for table in self._tables() for name, given in table.items() if given is not None}
        self._names = [(table, len(table)) for table in self._tables()]
        self._without_value = [(table, name) for table in self._tables() for name, given in table.items() if given is None]
        self._children = [(each._modules, tuple(each._modules.values())) for each in self._modules]

    def _tables(self):
        return [each._parameters for each in self._modules]

    def _may_be_there(self):
        return (
            any(len(table) != count for table, count in self._names)
            or any(tuple(table.values()) != children for table, children in self._children)
            or any(table.get(name) is not None for table, name in self._without_value)
        )

    def refuse(self):
        """For plain data, with which each rank would train a parameter of its own."""
        if not self._may_be_there():
            return
        for owner in self._own_modules():
            for name, given in owner._parameters.items():
                is_known = given is None or (id(owner._parameters), name) in self._known
                if not is_known and given.requires_grad and not is_dtensor(given):
                    raise ValueError(
                        f"[fully_shard] parameters that the module had before fully_shard are required, but '{name}' of a "
                        f"{type(owner).__name__} was added since, so that its gradient would be that of one rank. Add it before, freeze "
                        "it, or call fully_shard for the module that was added."
                    )
