"""PyTorch's own operator samples (torch.testing's op database) under the switch: scripts/op-samples."""
