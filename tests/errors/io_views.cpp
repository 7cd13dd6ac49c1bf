// expect: error
// match: \[io::view\] a tensor's elements can be written; copy these with io::copy
// match: \[io::view\] the elements go with this temporary; name it, or copy it with io::copy
// match: \[io::copy_into\] these elements cannot be written
// match: \[io::load\] text of a tree that is loaded is a std::string
// lines: 60, clang++ 90

#include <sinter/io.hpp>

using namespace sinter;

auto read_only(const std::vector<float>& v) { return io::view(v); }
auto temporary() { return io::view(std::vector<float>{1}); }
void into(const std::vector<float>& v, tensor<float, 1> x) { io::copy_into(v, x); }
auto text() { return io::load<std::pair<tensor<float, 1>, std::string_view>>("x.safetensors"); }
