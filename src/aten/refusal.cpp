#include "aten/refusal.h"

#include <atomic>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "aten/module_path.h"
#include "aten/operator_switch.h"
#include "aten/pytorch_error.h"
#include "aten/remedies.h"
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

constexpr std::string_view kElsewhere = "run this part outside isobit (with isobit.disabled():)";

// What to do where the caller does not know better.
std::string usual_remedy(std::string_view op, const Family* family) {
  if (family != nullptr) return std::string(family->remedy);
  const std::string_view word = search_word(op);
  if (word.empty()) {
    return "no certified operator has a name like it (" + ops_command() +
           " --class certified lists all): " + std::string(kElsewhere);
  }
  return "use a certified operator (" + ops_command() + " --search " + std::string(word) + "), or " +
         std::string(kElsewhere);
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
  message.append(op).append(" ").append(reason).append(" under ").append(
      contract::contract_name(OperatorSwitch::products()));
  if (!place.empty()) message.append("\n  in     ").append(place);
  const Family* family = remedy.empty() ? family_of(op) : nullptr;
  if (family != nullptr && !family->purpose.empty()) message.append("\n  for    ").append(family->purpose);
  message.append("\n  do     ").append(remedy.empty() ? usual_remedy(op, family) : std::string(remedy));
  if (PyObject* type = python_class) throw PythonRefusal(std::move(message), type);
  throw Refusal(std::move(message));
}

}  // namespace isobit::aten
