// A value of the calling thread's that follows the work: into the threads of a backward and into TorchScript's forks,
// where torch's thread-local state goes (c10::ThreadLocalDebugInfo), and nowhere else.
//
// One type of value per use: it is found by its type. Scopes of a thread nest and end in the reverse order. Private to
// this folder's scopes. Thread-safe.
#pragma once

#include <c10/util/ThreadLocalDebugInfo.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

namespace isobit::aten {

// `Value` has `static constexpr std::string_view kName` and `static constexpr std::uint8_t kNumber`, both its own.
template <class Value>
class Propagated {
 public:
  explicit Propagated(std::shared_ptr<Value> value)
      : held_(std::make_shared<Holder>(std::move(value))), guard_(kind(), held_) {}

  // Of the innermost scope; nullptr outside of any.
  [[nodiscard]] static Value* current() {
    const auto* holder = static_cast<Holder*>(c10::ThreadLocalDebugInfo::get(kind()));
    return holder == nullptr ? nullptr : holder->value.get();
  }

 private:
  struct Holder : c10::DebugInfoBase {
    explicit Holder(std::shared_ptr<Value> given) : value(std::move(given)) {}
    std::shared_ptr<Value> value;
  };

  // Some releases of torch number the kinds, others name them.
  template <class Kind = c10::DebugInfoKind>
  static Kind kind() {
    if constexpr (std::is_enum_v<Kind>) {
      return static_cast<Kind>(Value::kNumber);
    } else {
      return Kind(&Value::kName);
    }
  }

  std::shared_ptr<Holder> held_;
  c10::DebugInfoGuard guard_;
};

}  // namespace isobit::aten
