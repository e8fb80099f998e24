"""Checkpoints of distributed tensors: Weft's own, those of torch.distributed.checkpoint, torch.save, and folders of Hugging Face."""
