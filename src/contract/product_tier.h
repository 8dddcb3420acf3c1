// The tiers of products (contract, sections 3 and 17), and what each is called where a contract's name stands.
//
//   ordered   sums in a stated order                  "isobit-0.1"
//   exact3    sums of integers, without an order      "isobit-0.1-exact3"
//
// A tier is part of an experiment: the two give different bits and are never mixed. Everything but products is the
// same under both. No state.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "contract/platform.h"

ISOBIT_CONTRACT_BEGIN

enum class ProductTier { ordered, exact3 };

[[nodiscard]] inline std::string_view name(ProductTier tier) {
  return tier == ProductTier::exact3 ? "exact3" : "ordered";
}

// By name; nullopt for an unknown one.
[[nodiscard]] inline std::optional<ProductTier> parse_products(std::string_view text) {
  for (const ProductTier tier : {ProductTier::ordered, ProductTier::exact3}) {
    if (text == name(tier)) return tier;
  }
  return std::nullopt;
}

// "isobit-0.1", "isobit-0.1-exact3"
[[nodiscard]] inline std::string contract_name(ProductTier tier) {
  std::string text = kContractVersion;
  if (tier != ProductTier::ordered) text.append("-").append(name(tier));
  return text;
}

// The tier that a contract's name of any version says.
[[nodiscard]] inline ProductTier products_of(std::string_view contract) {
  return contract.ends_with("-exact3") ? ProductTier::exact3 : ProductTier::ordered;
}

ISOBIT_CONTRACT_END
