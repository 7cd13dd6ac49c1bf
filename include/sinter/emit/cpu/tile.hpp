// emit/cpu/tile.hpp: a pointwise kernel that reads along one axis and writes along another -> loops over square tiles,
// transposed in registers.
#pragma once

#include "../../base/series.hpp"
#include "../../plan/schedule/tiling.hpp"
#include "stream.hpp"

namespace sinter::engine::emit {

using plan::tiling;

/// Elements of the read axis for one task: whole cache lines of every row that it reads.
inline constexpr std::int64_t tile_task = 64;

/// The greatest number of transposed tiles of a kernel, whole ones and those at the ends; each may take 2 KiB of stack.
inline constexpr std::size_t max_tiles = 8;

/// Prints the body of a kernel in tiles over [low, high) of the tiling's axis. `defined` tells which values exist already;
/// `stores` are those to print; `stream` tells which bypass the caches. The loops of a whole tile have constant bounds, so
/// that it stays in registers. Its rows are far apart in memory, where the machine does not prefetch, so it prefetches the
/// next tile along the last axis. Loads of one operand without other work already run at memory speed.
template <class Defined, class Stream>
void print_tile(const kernel& k, const tiling& t, body_printer& body, writer& out, Defined&& defined,
                const series<const plan::store*>& stores, Stream&& stream) {
  const std::size_t last = k.axes.size() - 1;
  const std::string q = "i" + std::to_string(t.axis), r = "i" + std::to_string(last),
                    columns = k.axes[last].extent.text();
  const auto much = [&](const instruction& i) { return i.kind == kind::load && reads_much(k, i); };
  const bool asks = computes_much(k) || std::count_if(k.body.begin(), k.body.end(), much) > 1;
  auto is_tiled = [&](int id) { return std::count(t.loads.begin(), t.loads.end(), id) > 0; };
  auto load_tile = [&](int id, bool whole) {
    const auto& i = body.at(id);
    const std::string name = "tile" + std::to_string(id), across = "(" + i.at.at.stride[last].text() + ")";
    const std::string at = body.pointer(i.at.buffer) + " + (" +
                           index_text(i.at.at, [&](std::size_t a) { return a != t.axis; }) + " + q + l*" + across + ")";
    out.line(vector_type(i.type) + " " + name + "[SINTER_W];");
    out.line("for (long l = 0; l < " + std::string(whole ? "SINTER_W" : "n") + "; ++l) " + name + "[l] = load(" + at +
             (whole ? ")" : ", m)") +
             (whole && asks && much(i) ? ", __builtin_prefetch(" + at + " + SINTER_W*" + across + ");" : ";"));
    out.line("transpose(" + name + ");");
  };
  auto value = [&](int id, bool whole) {
    const auto& i = body.at(id);
    if (is_tiled(id)) {
      out.line("const " + vector_type(i.type) + " " + body.name(id) + " = tile" + std::to_string(id) + "[" + q +
               " - q];");
      return;
    }
    body.define(id, body.is_vector(id), !whole);
    if (whole && asks && much(i) && i.at.at.index < 0 && i.at.at.stride[last].is(1))
      out.line("__builtin_prefetch(" + body.address(i.at) + " + SINTER_W);");
  };
  auto tile = [&](bool whole) {
    for (int id : t.loads) load_tile(id, whole);
    out.block("for (long " + q + " = q; " + q + " < q + " + (whole ? "SINTER_W" : "m") + "; ++" + q + ")", [&] {
      for (int id = 0; id < static_cast<int>(k.body.size()); ++id)
        if (!defined(id)) value(id, whole);
      for (const auto* s : stores) body.store(*s, true, !whole, stream(*s));
    });
  };
  auto divides = [&](std::size_t a) { return k.axes[a].extent.number().value_or(1) % 16 == 0; };
  out.block("for (long " + r + " = 0; " + r + " < " + columns + "; " + r + " += SINTER_W)", [&] {
    out.block("for (long q = low; q < high; q += SINTER_W)", [&] {
      if (divides(last) && divides(t.axis)) return tile(true);
      out.line("const long n = " + columns + " - " + r + " < SINTER_W ? " + columns + " - " + r + " : SINTER_W;");
      out.line("const long m = high - q < SINTER_W ? high - q : SINTER_W;");
      out.block("if (m == SINTER_W && n == SINTER_W)", [&] { tile(true); });
      out.block("else", [&] { tile(false); });
    });
  });
}

}  // namespace sinter::engine::emit
