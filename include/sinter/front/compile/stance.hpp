// front/compile/stance.hpp: what calls of compiled functions do on this thread, for as long as a scope lasts.
#pragma once

#include <utility>

#include "../../engine/engine.hpp"

namespace sinter {

/// Until its end calls on this thread follow a stance: `const stance_scope only(stance::fail_on_recompile);`. Scopes nest.
/// What is in a trace already is traced whatever the stance.
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
