#include "aten/check_mode.h"

#include <atomic>
#include <stdexcept>

#include <c10/util/Exception.h>

#include "aten/operator_switch.h"

namespace isobit::aten::check_mode {
namespace {

std::atomic<Note> noted = nullptr;
thread_local int standing_in = 0;

}  // namespace

void begin(Note note) {
  if (OperatorSwitch::was_on()) throw std::logic_error("a check begins before isobit is switched on");
  noted = note;
}

bool on() { return noted.load(std::memory_order_relaxed) != nullptr; }

void note(const std::exception& refusal) {
  if (standing_in > 0) return;
  const auto* torchs = dynamic_cast<const c10::Error*>(&refusal);
  noted.load()(torchs != nullptr ? torchs->what_without_backtrace() : refusal.what());
}

StandingIn::StandingIn() { ++standing_in; }
StandingIn::~StandingIn() { --standing_in; }

}  // namespace isobit::aten::check_mode
