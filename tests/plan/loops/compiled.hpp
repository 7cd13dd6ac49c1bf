// tests/plan/loops/compiled.hpp: programs by trees as CPU text: several in one text, each run on its own memory.
#pragma once

#include <sinter/emit/cpu/kernel.hpp>
#include <sinter/run/build/build.hpp>

#include "kernels.hpp"

namespace kernels {

/// The bytes of a buffer, and back.
inline std::vector<char> bytes_of(dtype type, const series<scalar>& x) {
  std::vector<char> out(x.size() * size_of(type) + 64);
  sinter::visit_dtype(type, [&](auto element) {
    using T = typename decltype(element)::type;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T one = is_float(type) ? sinter::vocabulary::convert<T>(x[i].f) : sinter::vocabulary::convert<T>(x[i].i);
      std::memcpy(out.data() + i * sizeof(T), &one, sizeof(T));
    }
  });
  return out;
}
inline void read_back(dtype type, const std::vector<char>& bytes, series<scalar>& x) {
  sinter::visit_dtype(type, [&](auto element) {
    using T = typename decltype(element)::type;
    for (std::size_t i = 0; i < x.size(); ++i) {
      T one;
      std::memcpy(&one, bytes.data() + i * sizeof(T), sizeof(T));
      if (is_float(type)) x[i].f = sinter::vocabulary::convert<double>(one);
      else x[i].i = sinter::vocabulary::convert<std::int64_t>(one);
    }
  });
}

/// Functions of one text, each of a program and a tree. Programs and trees must outlive it.
class batch {
 public:
  void add(const program& p, const loops::tree& t, std::uint64_t seed, double bound, std::string told) {
    const std::string name = "by_tree_" + std::to_string(all_.size());
    all_.push_back({&p, sinter::engine::emit::print_tree(t, name, out_), seed, bound, std::move(told)});
  }
  std::size_t size() const { return all_.size(); }
  std::string text() const { return sinter::engine::emit::with_prelude("trees", 4, out_.text() + entry()); }

  /// Compiles the text, and compares each program's memory with what plain recursion computes.
  void check() const {
    const std::string texts[] = {text()};
    ::setenv("SINTER_CXXFLAGS", "-O1", 1);
    const auto made = sinter::engine::run::build(texts);
    ::unsetenv("SINTER_CXXFLAGS");
    for (std::size_t n = 0; n < all_.size(); ++n) {
      const one& x = all_[n];
      loops::memory got = filled(*x.p, x.seed);
      run(made[0].entry(), n, got);
      CHECK_MESSAGE(difference(*x.p, got, {*x.p, x.seed, x.bound}) == "", "seed " << x.seed << "\n" << x.told);
    }
  }

 private:
  struct one {
    const program* p;
    sinter::engine::emit::scratch_use memory;
    std::uint64_t seed;
    double bound;
    std::string told;
  };
  /// The entry takes the number of the function as the size before the first.
  std::string entry() const {
    std::string out = sinter::engine::emit::entry_head(sinter::engine::kernel_entry) + " {\n  switch (sizes[-1]) {\n";
    for (std::size_t n = 0; n < all_.size(); ++n)
      out += "    case " + std::to_string(n) + ": return by_tree_" + std::to_string(n) + "(buffers, scratch, sizes);\n";
    return out + "  }\n}\n";
  }
  void run(sinter::engine::run::kernel_function* call, std::size_t n, loops::memory& m) const {
    const one& x = all_[n];
    std::vector<std::vector<char>> bytes;
    std::vector<void*> buffers;
    for (std::size_t b = 0; b < m.size(); ++b) bytes.push_back(bytes_of(x.p->k.buffers[b].type, m[b]));
    for (auto& b : bytes) buffers.push_back(b.data());
    std::vector<long> sizes{static_cast<long>(n)};
    for (auto s : x.p->sizes) sizes.push_back(s);
    const std::span<const std::int64_t> own(x.p->sizes.data(), x.p->sizes.size());
    constexpr std::int64_t threads = 3;
    std::vector<double> scratch(static_cast<std::size_t>(x.memory.bytes(own, threads)) / 8 + 16, NAN);
    auto* const words = reinterpret_cast<long*>(scratch.data());
    words[0] = static_cast<long>(x.memory.threads(own, threads));
    words[1] = static_cast<long>(x.memory.of_thread(own));
    call(buffers.data(), reinterpret_cast<char*>(scratch.data()), sizes.data() + 1);
    for (std::size_t b = 0; b < m.size(); ++b) read_back(x.p->k.buffers[b].type, bytes[b], m[b]);
  }

  sinter::engine::emit::writer out_;
  std::vector<one> all_;
};

}  // namespace kernels
