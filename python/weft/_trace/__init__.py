"""Programs that torch traces over distributed tensors: torch.compile, torch.export of a parallel module, make_fx."""
