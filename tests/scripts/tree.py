"""What the tests of scripts/ share: a small tree of files in a temporary folder, and running a script on it."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent.parent / "scripts"


class TreeTest(unittest.TestCase):
    script = None  # the name of the script under test

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def write(self, files):
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def run_script(self):
        return subprocess.run(
            [sys.executable, SCRIPTS / self.script, self.root], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def assert_passes(self):
        result = self.run_script()
        self.assertEqual(result.returncode, 0, result.stdout)

    def assert_fails_with(self, *texts):
        result = self.run_script()
        self.assertEqual(result.returncode, 1, result.stdout)
        for text in texts:
            self.assertIn(text, result.stdout)
