// rewrite/dead_code.hpp: drops what no output needs and numbers the rest densely.
#pragma once

#include "rebuild.hpp"

namespace sinter::rewrite {

inline ir::graph dead_code(const ir::graph& g) {
  return rebuild(g, [](const ir::value& v) { return v; });
}

}  // namespace sinter::rewrite
