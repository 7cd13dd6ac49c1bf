// What a user pays for reading files: no more than for sinter.hpp. Nobody's JSON parser is among it.
#include <sinter/data.hpp>
#include <sinter/io.hpp>

#if defined(INCLUDE_NLOHMANN_JSON_HPP_) || defined(NLOHMANN_JSON_VERSION_MAJOR)
#error "nlohmann/json.hpp is seen by a user's unit"
#endif

int main() {
  auto f = sinter::compile([](sinter::tensor<float, 1> x) { return x * 2 + 1; });
  const sinter::tensor<float, 1> y = f(sinter::io::read_npy<float, 1>("x.npy"));
  sinter::io::write_npy("y.npy", y);
}
