// Kernels that a rank gives, and what it makes of those that it is given. Its ranks are pretended.
#include <doctest/doctest.h>
#include <sinter/run/build/build.hpp>

#include <algorithm>
#include <functional>
#include <map>

#include "../support.hpp"

namespace run = sinter::engine::run;
using support::variable;

namespace {

/// What a rank's orders did, and what other ranks make.
struct pretended {
  std::vector<std::vector<std::string>> orders;  ///< texts
  std::vector<std::string> given;                ///< bundles
  std::size_t given_kernels = 0;
  std::vector<std::shared_ptr<const std::string>> coming;
  std::function<decltype(coming)(const std::vector<std::string>&)> coming_for;  ///< instead, for these texts
  std::function<bool(std::size_t)> is_mine = [](std::size_t) { return true; };
};

class pretended_order final : public run::kernel_order {
 public:
  pretended_order(pretended& p, const std::vector<std::string>& texts) : all_(p), texts_(texts) {}
  std::string_view name(std::size_t k) const override { return texts_[k]; }
  bool is_mine(std::size_t k) const override { return all_.is_mine(k); }
  void give(const std::vector<std::size_t>& kernels, std::string bundle) override {
    all_.given.push_back(std::move(bundle));
    all_.given_kernels += kernels.size();
    for (const std::size_t k : kernels) CHECK(is_mine(k));
  }
  std::vector<std::shared_ptr<const std::string>> take() override {
    return all_.coming_for ? all_.coming_for(texts_) : all_.coming;
  }

 private:
  pretended& all_;
  std::vector<std::string> texts_;
};

class pretended_world final : public run::rank_world {
 public:
  explicit pretended_world(pretended& p) : all_(p) {}
  int size() const override { return 2; }
  int rank() const override { return 0; }
  std::shared_ptr<run::rank_group> group(const std::string&, const std::vector<int>&, sinter::location) override {
    return nullptr;
  }
  std::unique_ptr<run::kernel_order> order_kernels(const std::vector<std::string>& texts) override {
    all_.orders.push_back(texts);
    return std::make_unique<pretended_order>(all_, texts);
  }

 private:
  pretended& all_;
};

/// A rank with a fresh cache folder, on this thread.
struct rank {
  explicit rank(pretended& p, const std::string& cache_folder = "") {
    if (!cache_folder.empty()) cache.emplace("SINTER_CACHE_DIR", cache_folder);
    run::world_of_thread() = std::make_shared<pretended_world>(p);
  }
  ~rank() { run::world_of_thread() = nullptr; }
  rank(const rank&) = delete;
  rank& operator=(const rank&) = delete;
  support::folder root;
  std::string log = root.at("log");
  variable chosen{"SINTER_CXX", support::counting_compiler(root, log)};
  std::optional<variable> cache{std::in_place, "SINTER_CACHE_DIR", root.at("cache")};
  bool compiles() const { return std::filesystem::exists(log); }
};

std::string printed(int value, const std::string& marker) {
  return "// " + marker + "\nextern \"C\" void sinter_kernel(void* const* p, char*, const long*) { *(int*)p[0] = " +
         std::to_string(value) + "; }\n";
}
std::vector<std::string> several(const std::string& marker) {
  return {printed(1, marker), printed(2, marker), support::kernel(3, marker), printed(4, marker)};
}
std::vector<int> values(const std::vector<std::string>& texts, bool* made_here, const char** tier) {
  std::vector<int> out;
  for (const auto& b : run::build(texts)) {
    int x = -1;
    void* p[] = {&x};
    if (b.suffix.empty()) x = support::answer(b);
    else b.entry()(p, nullptr, nullptr);
    out.push_back(x);
    *made_here = !b.from_cache;
    *tier = b.from.tier;
  }
  return out;
}
const std::vector<int> right{1, 2, 3, 4};

/// The bundles of a rank that makes all.
std::vector<std::shared_ptr<const std::string>> made(const std::vector<std::string>& texts) {
  pretended p;
  const rank here(p);
  bool compiled = false;
  const char* tier = "";
  CHECK(values(texts, &compiled, &tier) == right);
  CHECK(compiled);
  CHECK(p.given_kernels == texts.size());
  std::vector<std::shared_ptr<const std::string>> out;
  for (auto& b : p.given) out.push_back(std::make_shared<const std::string>(std::move(b)));
  return out;
}

}  // namespace

TEST_CASE("kernels that one rank compiles are loaded and kept by another") {
  for (const bool kept : {true, false}) {
    const auto texts = several("given " + std::to_string(kept));
    pretended p;
    p.coming = made(texts);
    CHECK(p.coming.size() == 1);
    p.is_mine = [](std::size_t) { return false; };
    const rank here(p, kept ? "" : "/dev/null/no folder");
    bool compiled = true;
    const char* tier = "";
    CHECK(values(texts, &compiled, &tier) == right);
    CHECK_FALSE(compiled);
    CHECK(std::string_view(tier) == "bundle");
    CHECK_FALSE(here.compiles());
    CHECK(p.given.empty());
    // They are on disk now, and are not asked for again.
    CHECK(values(texts, &compiled, &tier) == right);
    CHECK(p.orders.size() == (kept ? 1 : 2));
    CHECK(std::string_view(tier) == (kept ? "disk" : "bundle"));
  }
}

TEST_CASE("what does not come, or is damaged, is compiled") {
  int turn = 0;
  for (const std::string how : {"nothing", "cut", "changed", "other names", "no image"}) {
    const auto texts = several("damaged " + std::to_string(turn++));
    pretended p;
    std::string b = *made(texts).at(0);
    if (how == "cut") b.resize(b.size() / 2);
    if (how == "changed") b[b.size() / 2] = static_cast<char>(b[b.size() / 2] ^ 1);
    p.coming_for = [&](const std::vector<std::string>& wanted) {
      std::vector<run::portable_kernel> all;
      for (const auto& t : wanted)
        all.push_back(
            {(how == "other names" ? "x" : "") + t, how == "no image" ? "nonsense" : "\177ELF sinter_kernel"});
      if (how == "other names" || how == "no image") b = run::detail::pack_bundle(all);
      return how == "nothing" ? decltype(p.coming){} : decltype(p.coming){std::make_shared<const std::string>(b)};
    };
    p.is_mine = [](std::size_t) { return false; };
    const rank here(p);
    bool compiled = false;
    const char* tier = "";
    CAPTURE(how);
    CHECK(values(texts, &compiled, &tier) == right);
    CHECK(compiled);
    CHECK(here.compiles());
  }
}

TEST_CASE("a rank makes its own kernels, and takes or makes the others") {
  const auto texts = several("mixed");
  pretended p;
  p.coming = made({texts[0], texts[1], texts[2], texts[3]});
  std::string why;
  std::vector<run::portable_kernel> some;
  for (const auto& k : run::detail::unpack_bundle(*p.coming[0], why))
    if (k.key.ends_with(texts[1])) some.push_back({std::string(k.key), std::string(k.image)});
  CHECK(some.size() == 1);
  p.coming = {std::make_shared<const std::string>(run::detail::pack_bundle(some))};
  p.is_mine = [](std::size_t k) { return k == 0; };
  const rank here(p);
  const auto built = run::build(texts);
  CHECK_FALSE(built[0].from_cache);
  CHECK(built[1].from_cache);
  CHECK_FALSE(built[2].from_cache);
  CHECK_FALSE(built[3].from_cache);
  CHECK(p.given_kernels == 1);
}

TEST_CASE("a large order is given in bundles of bounded size, and too large an image not at all") {
  const auto large = [](std::size_t megabytes, int value) {
    return "// large " + std::to_string(value) + "\nextern \"C\" __attribute__((used)) const char ballast[" +
           std::to_string(megabytes << 20) + "] = {1};\nextern \"C\" int answer() { return " + std::to_string(value) +
           "; }\n";
  };
  pretended p;
  const rank here(p);
  const auto built = run::build(std::vector<std::string>{large(20, 1), large(20, 2), large(40, 3)});
  CHECK(support::answer(built[2]) == 3);
  CHECK(p.given.size() == 2);
  CHECK(p.given_kernels == 2);
  for (const auto& b : p.given) CHECK(b.size() <= run::kernel_order::max_bytes);
}

TEST_CASE("ranks whose instructions, flags, compiler or text differ do not share kernels") {
  const auto order = [](const std::string& text) {
    pretended p;
    const support::folder root;
    const variable cache("SINTER_CACHE_DIR", root.at("cache"));
    run::world_of_thread() = std::make_shared<pretended_world>(p);
    run::build(std::vector<std::string>{text});
    run::world_of_thread() = nullptr;
    REQUIRE(p.orders.size() == 1);
    return p.orders[0].at(0);
  };
  const std::string text = support::kernel(1, "keys"), first = order(text);
  CHECK(order(text) == first);
  CHECK(first.find(run::instructions()) != first.npos);
  CHECK(first.find(SINTER_VERSION) != first.npos);
  CHECK(first != order(support::kernel(2, "keys")));
  {
    const variable flags("SINTER_CXXFLAGS", "-DOTHER=1");
    CHECK(first != order(text));
  }
  const support::folder root;
  {
    // The same compiler elsewhere, as on another host.
    const variable moved(
        "SINTER_CXX",
        support::script(root, "moved c++", "exec " + support::quoted(support::real_compiler()) + " \"$@\""));
    CHECK(first == order(text));
  }
  const std::string other = root.at("other c++");
  support::write(other, "#!/bin/sh\nif [ \"$1\" = --version ]; then echo other 1.0; exit; fi\nexec " +
                            support::quoted(support::real_compiler()) + " \"$@\"\n");
  ::chmod(other.c_str(), 0755);
  const variable chosen("SINTER_CXX", other);
  CHECK(first != order(text));
}
