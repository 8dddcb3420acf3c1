// The secret of a job: who has it may join (docs/design/workers.md).
//
// It comes from the environment or from a file that only its owner can read, never from an argument, which everybody on
// the machine can see. No state; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace isobit::scale {

inline constexpr const char* kKeyVariable = "ISOBIT_JOB_KEY";

// 64 hexadecimal digits from the system's generator.
[[nodiscard]] std::string make_key();

// Of `file`, else of the environment. UserError where neither has one, where the file can be read by others than its
// owner, or where it is no key.
[[nodiscard]] std::string find_job_key(const std::filesystem::path& file = {});

using Mac = std::array<std::uint8_t, 32>;
// HMAC-SHA256 (RFC 2104).
[[nodiscard]] Mac mac(std::string_view key, std::span<const std::uint8_t> text);
// In a time that does not depend on what they are.
[[nodiscard]] bool same(std::span<const std::uint8_t> a, std::span<const std::uint8_t> b);

void fill_random(std::span<std::uint8_t> bytes);

}  // namespace isobit::scale
