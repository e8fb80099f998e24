"""Styles and plans: parameters distributed over a mesh, and the hooks that redistribute what enters and leaves a module."""
