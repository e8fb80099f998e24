"""`pip install .` compiles sources in the same batches as the presets, a tenth of the steps that it would take without."""

import json
import tomllib
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class PipBuild(unittest.TestCase):
    def test_sources_are_compiled_in_the_batches_of_the_presets(self):
        base = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"][0]["cacheVariables"]
        own = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]["cmake"]["define"]
        self.assertEqual(base["CMAKE_UNITY_BUILD"], "ON")
        self.assertIs(own["CMAKE_UNITY_BUILD"], True)
        self.assertEqual(own["CMAKE_UNITY_BUILD_BATCH_SIZE"], base["CMAKE_UNITY_BUILD_BATCH_SIZE"])


if __name__ == "__main__":
    unittest.main()
