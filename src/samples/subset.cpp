#include "samples/subset.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "samples/reader.h"

namespace isobit::samples {
namespace {

// `ids_` empty: the first `count_` of the other source.
class Subset : public Samples {
 public:
  Subset(std::shared_ptr<const Samples> of, std::vector<std::int64_t> ids, std::int64_t count)
      : of_(std::move(of)), ids_(std::move(ids)), count_(count) {}

  std::int64_t count() const override { return count_; }
  const std::vector<Field>& fields() const override { return of_->fields(); }
  void read(std::size_t field, std::span<const std::int64_t> ids, std::byte* out) const override {
    check_ids(ids, count_);
    if (ids_.empty()) return of_->read(field, ids, out);
    std::vector<std::int64_t> theirs(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) theirs[i] = there(ids[i]);
    of_->read(field, theirs, out);
  }
  std::string name(std::int64_t id) const override { return of_->name(there(id)); }
  float weight(std::int64_t id) const override { return of_->weight(there(id)); }
  std::int64_t targets(std::int64_t id) const override { return of_->targets(there(id)); }
  std::string group(std::int64_t id) const override { return of_->group(there(id)); }
  const std::vector<std::string>& classes() const override { return of_->classes(); }

 private:
  std::int64_t there(std::int64_t id) const {
    if (id < 0 || id >= count_) throw std::out_of_range("no such sample in the subset");
    return ids_.empty() ? id : ids_[static_cast<std::size_t>(id)];
  }

  std::shared_ptr<const Samples> of_;
  std::vector<std::int64_t> ids_;
  std::int64_t count_;
};

}  // namespace

std::shared_ptr<const Samples> subset(std::shared_ptr<const Samples> of, std::vector<std::int64_t> ids) {
  std::vector<bool> taken(static_cast<std::size_t>(of->count()));
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= of->count()) throw std::invalid_argument("a subset names a sample that is not there");
    if (taken[static_cast<std::size_t>(id)]) throw std::invalid_argument("a subset names a sample twice");
    taken[static_cast<std::size_t>(id)] = true;
  }
  const auto count = static_cast<std::int64_t>(ids.size());
  return std::make_shared<Subset>(std::move(of), std::move(ids), count);
}

std::shared_ptr<const Samples> first_of(std::shared_ptr<const Samples> of, std::int64_t count) {
  if (count < 0) throw std::invalid_argument("a subset of fewer than no samples");
  if (count >= of->count()) return of;
  return std::make_shared<Subset>(std::move(of), std::vector<std::int64_t>(), count);
}

}  // namespace isobit::samples
