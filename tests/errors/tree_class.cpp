// expect: error
// match: give any other class a static sinter_fields\(auto& self\) that returns std::tie\(self.a, self.b\)
// lines: 50
#include <sinter/sinter.hpp>

class weights {
 public:
  explicit weights(int n) : n_(n) {}

 private:
  sinter::tensor<float, 1> w_;
  int n_;
};

auto f(const weights& p) {
  return sinter::tree_map([](auto x) { return x; }, p);
}
