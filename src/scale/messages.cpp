#include "scale/messages.h"

#include <array>
#include <nlohmann/json.hpp>
#include <tuple>
#include <type_traits>
#include <utility>

#include "scale/strict_cbor.h"

namespace isobit::scale {
namespace {

using Json = nlohmann::json;

// Each message is an array: its number among the alternatives, then its members in order.
auto members(Failure& m) { return std::tie(m.grain, m.place, m.message, m.remedy); }
auto members(Join& m) { return std::tie(m.identity, m.name, m.cpu); }
auto members(Regroup& m) { return std::tie(m.steps_done, m.held, m.can_record); }
auto members(Claim& m) { return std::tie(m.generation, m.step, m.grains, m.ahead, m.most); }
auto members(Finish& m) {
  return std::tie(m.generation, m.step, m.grains, m.held, m.stop, m.failure, m.tops, m.packed);
}
auto members(Lost& m) { return std::tie(m.generation, m.why); }
auto members(PartResult& m) { return std::tie(m.index, m.value); }
auto members(ClaimPart& m) { return std::tie(m.generation, m.step, m.parts, m.done); }
auto members(Evaluated& m) { return std::tie(m.generation, m.step); }
auto members(End& m) { return std::tie(m.generation, m.recorded); }
auto members(Fail& m) { return std::tie(m.failure); }
auto members(Put& m) { return std::tie(m.key, m.value); }
auto members(Get& m) { return std::tie(m.key); }
auto members(Alive& m) { return std::tie(m.grains); }
auto members(GiveBack& m) { return std::tie(m.generation, m.step, m.grain); }
auto members(Admitted& m) { return std::tie(m.id, m.job); }
auto members(Refused& m) { return std::tie(m.why); }
auto members(Formed& m) {
  return std::tie(m.generation, m.rank, m.size, m.recorder, m.recordings, m.source, m.steps_done, m.behind, m.keep,
                  m.stop);
}
auto members(Granted& m) { return std::tie(m.index, m.further); }
auto members(Reduce& m) { return std::tie(m.counts, m.packed, m.tops, m.stop); }
auto members(AllParts& m) { return std::tie(m.values); }
std::tuple<> members(Again&) { return {}; }
auto members(Failed& m) { return std::tie(m.failure); }
auto members(Value& m) { return std::tie(m.value); }
std::tuple<> members(Done&) { return {}; }

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

template <class T>
Json write(const T& value);

template <class T>
Json write_members(const T& message) {
  Json array = Json::array();
  std::apply([&](auto&... each) { (array.push_back(write(each)), ...); }, members(const_cast<T&>(message)));
  return array;
}

template <class T>
Json write(const T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (std::is_same_v<T, Bytes>) {
    return Json::binary(value);
  } else if constexpr (IsOptional<T>::value) {
    return value ? Json::array({write(*value)}) : Json::array();
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& each : value) array.push_back(write(each));
    return array;
  } else if constexpr (std::is_same_v<T, Failure>) {
    Json array = write_members(value);
    array.push_back(static_cast<int>(value.kind));
    return array;
  } else {
    return write_members(value);
  }
}

[[noreturn]] void refuse() { throw WireError("a message that isobit does not send"); }

void expect(bool good) {
  if (!good) refuse();
}

template <class T>
void read(const Json& json, T& value);

template <class T>
void read_members(const Json& array, T& message, std::size_t first, std::size_t beyond = 0) {
  const auto all = members(message);
  expect(array.is_array() && array.size() == first + std::tuple_size_v<decltype(all)> + beyond);
  std::size_t i = first;
  std::apply([&](auto&... each) { (read(array[i++], each), ...); }, all);
}

template <class T>
void read(const Json& json, T& value) {
  if constexpr (std::is_same_v<T, bool>) {
    expect(json.is_boolean());
    value = json.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    expect(json.is_number_integer());
    value = json.get<T>();
  } else if constexpr (std::is_same_v<T, std::string>) {
    expect(json.is_string());
    value = json.get<std::string>();
  } else if constexpr (std::is_same_v<T, Bytes>) {
    expect(json.is_binary());
    value = json.get_binary();
  } else if constexpr (IsOptional<T>::value) {
    expect(json.is_array() && json.size() <= 1);
    if (!json.empty()) read(json[0], value.emplace());
  } else if constexpr (IsVector<T>::value) {
    expect(json.is_array());
    for (const Json& each : json) read(each, value.emplace_back());
  } else if constexpr (std::is_same_v<T, Failure>) {
    read_members(json, value, 0, 1);
    int kind = 0;
    read(json.back(), kind);
    expect(kind >= 0 && kind <= static_cast<int>(Failure::Kind::other));
    value.kind = static_cast<Failure::Kind>(kind);
  } else {
    read_members(json, value, 0);
  }
}

template <class Variant>
Bytes encode_any(const Variant& message) {
  Json array = std::visit([](const auto& each) { return write_members(each); }, message);
  array.insert(array.begin(), message.index());
  return Json::to_cbor(array);
}

template <class Variant, std::size_t index = 0>
Variant decode_as(std::size_t which, const Json& array) {
  if constexpr (index < std::variant_size_v<Variant>) {
    if (which != index) return decode_as<Variant, index + 1>(which, array);
    std::variant_alternative_t<index, Variant> message;
    read_members(array, message, 1);
    return message;
  } else {
    refuse();
  }
}

template <class Variant>
Variant decode_any(const Bytes& bytes) {
  const auto array = parse_cbor(bytes, /*nulls=*/false);
  expect(array && array->is_array() && !array->empty() && array->at(0).is_number_unsigned());
  return decode_as<Variant>(array->at(0).template get<std::size_t>(), *array);
}

}  // namespace

Bytes encode(const Request& request) { return encode_any(request); }
Bytes encode(const Reply& reply) { return encode_any(reply); }
Request decode_request(const Bytes& bytes) { return decode_any<Request>(bytes); }
Reply decode_reply(const Bytes& bytes) { return decode_any<Reply>(bytes); }

}  // namespace isobit::scale
