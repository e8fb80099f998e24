"""fully_shard: parameters, gradients and optimizer state divided over a mesh dim, with the names and options of PyTorch's."""
