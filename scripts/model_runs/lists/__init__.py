"""The models, a module or two for each library: importing one adds its entries, and imports nothing of the library."""

import importlib
import importlib.metadata

# library: (modules of the list, what is imported before the models run, its name on PyPI)
LIBRARIES = {
    "torch.nn": (("plain",), (), "torch"),
    "torchvision": (("vision",), ("torchvision",), "torchvision"),
    "timm": (("timm_models",), ("timm",), "timm"),
    "transformers": (("transformers_text", "transformers_other"), ("transformers",), "transformers"),
    "segmentation_models_pytorch": (("segmentation",), ("segmentation_models_pytorch",), "segmentation-models-pytorch"),
    "monai": (("medical",), ("monai.networks.nets",), "monai"),
    "braindecode": (("brain",), ("braindecode.models",), "braindecode"),
    "diffusers": (("diffusion",), ("diffusers",), "diffusers"),
    "torchaudio": (("audio",), ("torchaudio.models",), "torchaudio"),
    "torch_geometric": (("graphs",), ("torch_geometric.nn",), "torch_geometric"),
    "peft": (("adapters",), ("peft", "transformers"), "peft"),
}


def load():
    for modules in (*(modules for modules, _, _ in LIBRARIES.values()), ("full_size",)):
        for module in modules:
            importlib.import_module(f"model_runs.lists.{module}")


def prepare(library):
    """Imports the library, in the process that executes its models."""
    for name in LIBRARIES[library][1]:
        importlib.import_module(name)


def versions(library):
    return {"torch": importlib.metadata.version("torch"), library: importlib.metadata.version(LIBRARIES[library][2])}
