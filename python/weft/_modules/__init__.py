"""Modules with distributed parameters: distribute_module, their forward, deferred initialisation, their batch."""
