// expect: error
// match: \[io::mesh_checkpoints\] a varying or partial tensor is no part of a whole
// lines: 80, clang++ 150

#include <sinter/mesh_io.hpp>

using namespace sinter;
struct dp : mesh_axis {};

void wrong(mesh<dp> m, placed<tensor<float, 2>, varying<dp>> x) { io::mesh_checkpoints("states", m).save(1, x); }
