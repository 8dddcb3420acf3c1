"""The switch, and what it changes in PyTorch and takes back: refusals, optimizers, TorchScript, floats of Python's, workers."""
