// ir/ops/opaque.hpp: opaque (x…), a token: attr.step; ints = {turn among graph::effects} if it has an effect, else {}.
// graph.hpp describes steps, autodiff/opaque.hpp their derivatives.
#pragma once

#include "../push_opaque.hpp"
#include "record.hpp"

namespace sinter::ir::ops {

struct opaque_op : handled_by_walks {
  static void infer(inference& f) { detail::infer_opaque(f.g, f.n); }
  static std::string text(const node& n) { return " " + n.attr.step->head; }
  /// The head, as seal() prints it, into w.step; the parts follow on lines of their own.
  static void read(words& w, node&) {
    opaque& s = w.step;
    w.expect(" ");
    const std::string_view kind = w.name();
    int k = 0;
    const auto named = [](int i) {
      opaque of;
      of.kind = static_cast<opaque_kind>(i);
      return name(of);
    };
    while (k <= static_cast<int>(opaque_kind::call) && kind != named(k)) ++k;
    if (k > static_cast<int>(opaque_kind::call)) w.refuse("'" + words::shown(kind) + "' is no step");
    s.kind = static_cast<opaque_kind>(k);
    constexpr std::size_t most = 1 << 20;
    const auto number = [&](const char* key) {
      w.expect(" " + std::string(key) + "=");
      return w.count(most);
    };
    if (s.kind == opaque_kind::custom) {
      w.expect(" ");
      s.text = w.quoted();
    }
    if (s.kind == opaque_kind::loop) {
      w.expect(" length=");
      s.length = w.size();
    }
    if (s.kind == opaque_kind::loop || s.kind == opaque_kind::while_loop) s.carried = number("carried");
    if (s.kind == opaque_kind::loop) s.sliced = number("sliced"), s.stacked = number("stacked");
    s.reverse = w.takes_word("reverse");
    if (w.takes(" recomputed")) s.again = w.takes(" but products") ? recompute::all_but_products : recompute::all;
    s.stays = w.takes_word("apart");
    if (!w.takes_word("->")) return;
    while (w.rest().size() > 1 && w.rest()[0] == ' ' && w.rest()[1] >= 'a' && w.rest()[1] <= 'z' && !w.is_word("at")) {
      w.expect(" ");
      result_type r;
      r.type = w.type();
      r.extents = w.sizes();
      s.results.push_back(std::move(r));
    }
  }
};

}  // namespace sinter::ir::ops
