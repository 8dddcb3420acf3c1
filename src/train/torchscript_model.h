// A network from a TorchScript file (torch.jit.script or trace, then save), as its author wrote it: graph optimisations
// are off, so every operator is dispatched as in eager mode. Initial weights are the file's.
#pragma once

#include <memory>

#include "train/model.h"

namespace isobit::train {

// UserError naming the file: missing, not TorchScript, of another SHA-256 than settings.sha256 (if given), without
// parameters, with parameters that are not float32, or with a forward that does not take `inputs`: one input whatever
// the argument's name is, several by the names of the arguments.
[[nodiscard]] std::unique_ptr<Model> make_torchscript_model(const ModelSettings& settings,
                                                            const std::vector<samples::Field>& inputs,
                                                            c10::Device device);

}  // namespace isobit::train
