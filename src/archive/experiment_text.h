// What a record's experiment.toml says of how the record is to be read, and the names of arithmetics.
//
// Where a contract's name stands in a record (state.json, fingerprints), "stock-<version>" says that PyTorch of that
// version computed, and nothing was promised. A record says so twice: there, and in its experiment. Read is the text as
// isobit writes it, a key and its value per line. Thread-safe; no state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isobit::archive {

// "stock-2.13.0"
[[nodiscard]] std::string stock_name(std::string_view torch_version);
// Whether a contract's name is one of stock PyTorch's.
[[nodiscard]] bool is_stock(std::string_view contract);

// Whether an experiment.toml is a Python program's: it has a table [script].
[[nodiscard]] bool is_script(const std::string& experiment);
// Whether it asks for stock PyTorch: `kind` of [arithmetic], or `arithmetic` of [script].
[[nodiscard]] bool asks_for_stock(std::string_view experiment);
// The tier of products that it asks for (contract/product_tier.h): `products` of [arithmetic] or of [script].
[[nodiscard]] std::string asked_products(std::string_view experiment);
// Whether it keeps each evaluation's predictions: `predictions` of [evaluate] or of [script].
[[nodiscard]] bool keeps_predictions(std::string_view experiment);

// When checkpoints are due: [checkpoint]'s `every` (0: at the end of each epoch) and `segments` (1 in records of
// earlier versions). Nothing where the text does not say so in whole numbers.
struct CheckpointsDue {
  std::int64_t every = 0, segments = 1;
};
[[nodiscard]] std::optional<CheckpointsDue> checkpoints_due(std::string_view experiment);

}  // namespace isobit::archive
