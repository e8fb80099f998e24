"""PyTorch's side of the benchmark 'executor': the module that torch.export makes of the decoder, in inference mode."""

import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from python_decoder import Decoder
from serve import serve

VOCABULARY, BLOCKS, HEADS, BATCH, LENGTH = 1024, 4, 8, 2, 64


def make_call(_, dim):
    torch.manual_seed(0)
    model = Decoder(VOCABULARY, dim, BLOCKS, HEADS).eval()
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
    module = torch.export.export(model, (tokens,)).module()

    def call():
        with torch.inference_mode():
            return module(tokens)

    return call


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    serve(make_call, barrier=lambda: None, clock=time.thread_time)
    return 0


if __name__ == "__main__":
    sys.exit(main())
