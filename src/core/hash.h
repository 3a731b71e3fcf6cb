// 128-bit content hashes for cache keys and identity bytes.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "iron/types.h"

namespace iron {

struct Hash128 {
  u64 high = 0, low = 0;
  bool operator==(const Hash128&) const = default;
  auto operator<=>(const Hash128&) const = default;
  std::string hex() const;  ///< 32 lower-case digits
};

Hash128 hash128(std::span<const std::byte> bytes);
Hash128 hash128(std::string_view text);

}  // namespace iron
