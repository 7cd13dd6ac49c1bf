// expect: error
// match: a class's sinter_fields, or fields of its sinter::tree_of, returns std::tie\(self.a, self.b\)
// lines: 50
#include <sinter/sinter.hpp>

class weights {
 public:
  explicit weights(int n) : n_(n) {}
  static auto sinter_fields(auto& self) { return std::tuple(self.w_, self.n_); }

 private:
  sinter::tensor<float, 1> w_;
  int n_;
};

auto f(const weights& p) {
  return sinter::tree_map([](auto x) { return x; }, p);
}
