"""A PyTorch without CUDA made to believe in one device, cuda:0, whose memory is the host's and whose kernels are
the emulated ones (tests/aten/fake_cuda.h). For dry runs: figures mean nothing, the bits do."""

import ctypes

import torch


def install(path):
    library = ctypes.CDLL(str(path))
    library.isobit_install_fake_cuda.restype = ctypes.c_char_p
    message = library.isobit_install_fake_cuda()
    if message is not None:
        raise RuntimeError(message.decode())
    torch.cuda._lazy_init = lambda: None  # what tensors on "cuda" ask first; there is nothing to initialise
