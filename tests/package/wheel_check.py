"""Makes the wheel of a build, installs it into a fresh virtual environment that has torch, and uses it there.

Usage: wheel_check.py <build> <folder to work in>
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import torch, weft
def rank_program(rank):
    mesh = weft.init_device_mesh("cpu", (2,))
    return weft.distribute_tensor(torch.arange(6.0), mesh, [weft.Shard(0)]).sum().full_tensor().item()
print(weft.__file__, weft.run_on_ranks(2, rank_program))
"""


def run(*command):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}")
    return result.stdout


def check_refuses_another_torch(python, package):
    """The wheel of one version of torch says so where another one is installed."""
    (package / "_built_with.py").write_text('TORCH_VERSION = "2.0.0"\n')
    result = subprocess.run([python, "-I", "-W", "ignore", "-c", "import weft"], capture_output=True, text=True)
    if "ImportError: [weft] built for torch 2.0.0, but torch is 2." not in result.stderr:
        sys.exit(f"expected an ImportError that names both versions, but got {result.returncode}: {result.stderr}")


def main():
    build, work = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    shutil.rmtree(work, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = ["wheel", ROOT, "--no-deps", "--no-build-isolation", "-w", work, "-C", f"cmake.define.WEFT_PREBUILT={build}"]
    run(*pip, *wheel)
    (file,) = work.glob("weft-*.whl")

    environment = work / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    # Torch takes minutes to copy: the environment sees the one that this interpreter has.
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "torch.pth").write_text(sysconfig.get_path("purelib") + "\n")
    run(*pip, "--python", python, "install", "--no-deps", "--no-index", file)

    output = run(python, "-I", "-W", "ignore", "-c", PROGRAM)
    expected = f"{site}/weft/__init__.py [15.0, 15.0]"
    if expected not in output:
        sys.exit(f"expected {expected}, but got {output}")
    if "shard" not in run(environment / "bin" / "weft", "--help"):
        sys.exit("the command in the wheel has no help")
    check_refuses_another_torch(python, Path(site, "weft"))
    print(f"wheel says: {output.strip()}")


if __name__ == "__main__":
    main()
