// models/config.hpp: the scalars of a JSON text by their paths, for models' configurations.
#pragma once

#include <map>
#include <string>

#include "../io/checkpoints.hpp"

namespace sinter::models::detail {

/// Numbers, texts and flags by path, as text: {"a": {"b": [1, "x"]}} has a.b.0 and a.b.1. Nulls are omitted.
using scalars = std::map<std::string, std::string>;

/// The scalars of a JSON file. system_error when it cannot be read, or is damaged.
SINTER_API scalars read_scalars(const char* op, const std::string& path, location at);

}  // namespace sinter::models::detail

#if !defined(SINTER_COMPILED)
#include "config_rules.hpp"
#endif
