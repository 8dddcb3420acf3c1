#include "aten/refusal.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "aten/certified.h"
#include "aten/module_path.h"
#include "aten/pytorch_error.h"
#include "contract/platform.h"

namespace isobit::aten {
namespace {

constexpr std::string_view kMark = "isobit: ";

std::atomic<PyObject*> python_class = nullptr;

// No backtrace in either: the message is for users.
class Refusal final : public c10::Error {
 public:
  explicit Refusal(std::string message) : c10::Error(std::move(message)) {}
};

class PythonRefusal final : public torch::PyTorchError {
 public:
  PythonRefusal(std::string message, PyObject* type) : torch::PyTorchError(std::move(message)), type_(type) {}
  PyObject* python_type() override { return type_; }

 private:
  PyObject* type_;
};

// Never destroyed: a thread may be refused while the process ends.
std::string& ops_command() {
  static auto& command = *new std::string("isobit ops");
  return command;
}

// "aten::special_bessel_j0" -> "special_bessel_j0", "aten::_foo.out" -> "foo".
std::string_view base_name(std::string_view name) {
  if (const auto colon = name.rfind("::"); colon != name.npos) name.remove_prefix(colon + 2);
  name = name.substr(0, name.find('.'));
  while (!name.empty() && name.front() == '_') name.remove_prefix(1);
  return name;
}

// What to search for: as much of the name as some certified operator begins with, else all of it.
std::string_view search_word(std::string_view op) {
  constexpr std::size_t kShortest = 3;
  const std::string_view base = base_name(op);
  std::size_t best = 0;
  for (const CertifiedOperator& candidate : certified_operators()) {
    const std::string_view other = base_name(candidate.name);
    const auto differ = std::mismatch(base.begin(), base.end(), other.begin(), other.end());
    best = std::max<std::size_t>(best, differ.first - base.begin());
  }
  return best < kShortest ? base : base.substr(0, best);
}

}  // namespace

bool is_refusal(const std::exception& error) {
  return dynamic_cast<const Refusal*>(&error) != nullptr || dynamic_cast<const PythonRefusal*>(&error) != nullptr;
}

void set_refusal_type(PyObject* type) { python_class = type; }

void set_ops_command(std::string command) { ops_command() = std::move(command); }

void refuse(std::string_view op, std::string_view reason, std::string_view remedy) {
  refuse_at(current_place(), op, reason, remedy);
}

void refuse_at(std::string_view place, std::string_view op, std::string_view reason, std::string_view remedy) {
  std::string message(kMark);
  message.append(op).append(" ").append(reason).append(" under ").append(contract::kContractVersion);
  message.append("\n  in     ").append(place);
  message.append("\n  do     ");
  if (remedy.empty()) {
    message.append("use a certified operator (").append(ops_command()).append(" --search ").append(search_word(op));
    message.append("), or run this part outside isobit (with isobit.disabled():)");
  } else {
    message.append(remedy);
  }
  if (PyObject* type = python_class) throw PythonRefusal(std::move(message), type);
  throw Refusal(std::move(message));
}

}  // namespace isobit::aten
