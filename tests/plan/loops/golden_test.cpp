// The schedule and the tree of each recipe, as text, against the files of tests/golden/schedules. SINTER_UPDATE_GOLDEN=1 writes them anew.
#include <cstdlib>
#include <fstream>
#include <sinter/plan/loops/print.hpp>
#include <sinter/plan/schedule/recipes/attention.hpp>
#include <sinter/plan/schedule/recipes/attention_back.hpp>
#include <sinter/plan/schedule/recipes/cpu_product.hpp>
#include <sinter/plan/schedule/recipes/gpu_product.hpp>
#include <sinter/plan/schedule/recipes/rows.hpp>
#include <sstream>

#include "../../golden_file.hpp"
#include "programs.hpp"

using namespace kernels;
namespace schedules = sinter::engine::plan::schedules;

namespace {

constexpr schedules::facts cpu{}, gpu{.threads = 4};

void golden(const std::string& name, const schedules::recipe& r, const program& p, const schedules::facts& f,
            int option) {
  REQUIRE(r.takes(p.k, f));
  const auto s = r.make(p.k, f, option);
  golden_file::check("schedules/" + name + ".txt", loops::text_of(s) + loops::text_of(loops::build(p.k, s)));
}

}  // namespace

TEST_CASE("schedules and trees of recipes") {
  golden("cpu_product", schedules::cpu_product, matrix_product(1000, 1000, 500), cpu, 0);
  golden("cpu_product_bf16", schedules::cpu_product, matrix_product(1000, 1000, 500, dtype::bf16, dtype::f32), cpu, 1);
  golden("gpu_product_bf16", schedules::gpu_product, matrix_product(4096, 4096, 4096, dtype::bf16, dtype::f32), gpu, 0);
  golden("group_product", schedules::gpu_product, matrix_product(4096, 4096, 4096, dtype::bf16, dtype::f32), gpu, 8);
  golden("gpu_product_parts", schedules::gpu_product, matrix_product(64, 64, 4096), gpu, 5);
  golden("gpu_product_epilogue", schedules::gpu_product, with_neighbours(64, 64, 64, dtype::bf16), gpu, 1);
  golden("rows_cpu", schedules::rows, softmax(100, 1000), cpu, 1);
  golden("rows_gpu", schedules::rows, softmax(100, 1000), gpu, 0);
  golden("attention_cpu", schedules::attention, attention_of(128, 256, 64, 64, dtype::f32, false), cpu, 0);
  golden("attention_gpu_causal", schedules::attention, attention_of(128, 256, 64, 64, dtype::bf16, true), gpu, 5);
  golden("attention_groups_causal", schedules::attention, attention_of(128, 256, 64, 64, dtype::bf16, true), gpu, 0);
  for (bool by_keys : {false, true})
    for (int option : {0, 4})
      golden(std::string("attention_back_") + (option == 0 ? "groups_" : "gpu_") + (by_keys ? "keys" : "queries"),
             schedules::attention_back, attention_back_of(1, 128, 256, 64, 64, dtype::bf16, true, by_keys), gpu,
             option);
  golden("attention_gpu_skew", schedules::attention, attention_of(128, 256, 64, 64, dtype::bf16, true), gpu, 2);
  for (bool by_keys : {false, true})
    golden(by_keys ? "attention_back_keys_cpu" : "attention_back_cpu", schedules::attention_back,
           attention_back_of(1, 128, 256, 64, 64, dtype::f32, true, by_keys), cpu, 0);
}
