// What the readers of the formats share; for files of this folder alone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "samples/samples.h"
#include "samples/source.h"

namespace isobit::samples {

// One opener per format (source.h). Thread-safe.
[[nodiscard]] std::shared_ptr<const Samples> open_idx(const Source& source);
[[nodiscard]] std::shared_ptr<const Samples> open_images(const Source& source);
[[nodiscard]] std::shared_ptr<const Samples> open_npy(const Source& source);
[[nodiscard]] std::shared_ptr<const Samples> open_csv(const Source& source);
[[nodiscard]] std::shared_ptr<const Samples> open_text(const Source& source);

// The source's file or folder, with its own folder in front.
[[nodiscard]] std::string path_of(const Source& source, const std::string& name);
// UserError where the source sets a key that its format has no use for.
void refuse_columns(const Source& source);
void refuse_fields(const Source& source);

// Each in [0, count), else std::out_of_range: a defect of the caller.
void check_ids(std::span<const std::int64_t> ids, std::int64_t count);

// "a, b, c", at most so many of them.
[[nodiscard]] std::string listed(const std::vector<std::string>& names, std::size_t most = 40);
// " (did you mean 'x'?)" or what there is: the remedy for a name that is not among these.
[[nodiscard]] std::string name_remedy(const std::string& name, const std::vector<std::string>& names,
                                      const std::string& what);

}  // namespace isobit::samples
