// Every slot of every table of kernels is reached by a golden case: what none reaches, no other compiler or
// architecture sees.
//
// A table is taken as an array of addresses, so that a new slot needs nothing here: all slots start as functions that
// throw their number; a slot that throws has been reached, gets its own function back, and the case begins anew.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "golden/kernel_cases.h"
#include "kernels/device.h"
#include "kernels/dispatch/kernel_table.h"
#include "kernels/threads.h"

namespace isobit::golden {
namespace {

using kernels::HostTable;
using kernels::Isa;
using kernels::KernelTable;
using Cases = std::vector<Case>;

struct SlotReached {
  std::size_t slot;
};

// Called with any arguments: it reads none, and leaves by throwing.
template <std::size_t slot>
[[noreturn]] void trap() {
  throw SlotReached{slot};
}

template <class Table>
using Slots = std::array<const void*, sizeof(Table) / sizeof(void*)>;

template <class Table>
Slots<Table> traps() {
  return []<std::size_t... slot>(std::index_sequence<slot...>) {
    return Slots<Table>{reinterpret_cast<const void*>(&trap<slot>)...};
  }(std::make_index_sequence<std::tuple_size_v<Slots<Table>>>());
}

// ---- which table the kernels of this thread take

struct OnTable {
  // Cases that devices have: the table as that of a device whose memory is the host's.
  static bool takes(const Case& c, const KernelTable&) { return !c.host_only; }
  static void run(const Case& c, const KernelTable& table) {
    const kernels::DeviceBackend backend{
        "traps", &table, {nullptr, nullptr}, [] { return 1; }, [](int) { return std::string("traps"); }};
    kernels::set_device_backend(&backend);
    {
      const kernels::DeviceScope scope(nullptr);
      (void)c.compute();
    }
    kernels::set_device_backend(nullptr);
  }
  static bool takes(const Case& c, const HostTable&) { return c.host_only; }
  static void run(const Case& c, const HostTable& table) {
    const kernels::HostTableScope scope(table);
    (void)c.compute();
  }
};

// The slots that no case reaches.
template <class Table>
std::vector<std::size_t> unreached(const Table& original, const Cases& cases) {
  const kernels::IsaScope isa(Isa::reference);
  const kernels::ThreadCountScope threads(1);
  const Slots<Table> functions = std::bit_cast<Slots<Table>>(original);
  Slots<Table> slots = traps<Table>();
  for (const Case& c : cases) {
    if (!OnTable::takes(c, original)) continue;
    for (bool complete = false; !complete;) {
      try {
        OnTable::run(c, std::bit_cast<Table>(slots));
        complete = true;
      } catch (const SlotReached& reached) {
        kernels::set_device_backend(nullptr);
        slots[reached.slot] = functions[reached.slot];
      }
    }
  }
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] != functions[i]) left.push_back(i);
  }
  return left;
}

using Names = std::vector<std::string>;

const char* name_of(const KernelTable&, std::size_t slot) { return kernels::kKernelSlotNames[slot]; }
const char* name_of(const HostTable&, std::size_t slot) { return kernels::kHostSlotNames[slot]; }

template <class Table>
Names unreached_names(const Table& original, const Cases& cases) {
  Names names;
  for (const std::size_t slot : unreached(original, cases)) names.push_back(name_of(original, slot));
  return names;
}

Cases cases_without(const std::string& start) {
  Cases left = kernel_cases();
  std::erase_if(left, [&](const Case& c) { return c.name.starts_with(start); });
  return left;
}

TEST(GoldenSlots, EverySlotIsReachedByACase) {
  const std::string remedy = " without a golden case: add one to tests/golden/cases_*.cpp and its line to kernels.txt";
  for (const std::string& name : unreached_names(kernels::table_of(Isa::reference), kernel_cases())) {
    ADD_FAILURE() << "KernelTable's " << name << remedy;
  }
  for (const std::string& name : unreached_names(kernels::host_table_of(Isa::reference), kernel_cases())) {
    ADD_FAILURE() << "HostTable's " << name << remedy;
  }
}

// The check itself sees what is missing, and names it.
TEST(GoldenSlots, ASlotWithoutACaseIsNamed) {
  const KernelTable& table = kernels::table_of(Isa::reference);
  EXPECT_EQ(unreached_names(table, cases_without("sort.")), Names{"sort_rows"});
  EXPECT_EQ(unreached_names(table, cases_without("scan.log_sum")), Names{"running_log_sum"});
  EXPECT_EQ(unreached_names(kernels::host_table_of(Isa::reference), cases_without("resample.")),
            Names{"resample_axis"});
}

}  // namespace
}  // namespace isobit::golden
