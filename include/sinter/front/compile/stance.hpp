// front/compile/stance.hpp: the stance of this thread's calls of compiled functions, until the end of a scope.
#pragma once

#include <utility>

#include "../../engine/engine.hpp"

namespace sinter {

/// Sets the stance of calls on this thread until the end of the scope: `const stance_scope only(stance::fail_on_recompile);`.
/// Scopes nest. Calls within a trace are traced under any stance.
class stance_scope {
 public:
  explicit stance_scope(stance s) : before_(std::exchange(engine::current_stance, s)) {}
  ~stance_scope() { engine::current_stance = before_; }
  stance_scope(const stance_scope&) = delete;
  stance_scope& operator=(const stance_scope&) = delete;

 private:
  stance before_;
};

}  // namespace sinter
