"""Parts of torch that are written in Python and need to be told of distributed tensors: each file names the part and why."""
