// run/cuda/device/module.hpp: a CUBIN loaded on one GPU, and its kernels; unloaded after its last user.
#pragma once

#include <memory>
#include <string>

#include "memory.hpp"

namespace sinter::engine::run::cuda {

class module {
 public:
  /// Throws system_error if the GPU refuses the image, momentary_error if it has no memory for it or is lost.
  module(const std::string& image, int device) :gpu_(device_at(device)) {
    const context_scope here(gpu_);
    const auto r = with_room(device, [&] { return driver().module_load(&handle_, image.data()); });
    if (r == api::no_binary_for_gpu || r == api::invalid_image || r == api::unsupported_ptx_version)
      throw system_error("[cuda] a compiled kernel does not suit " + gpu_.name + " or its driver for CUDA " +
                         std::to_string(driver_version() / 1000) + "." + std::to_string(driver_version() % 1000 / 10) +
                         " (" + detail::coded(r) + ")");
    if (r == api::out_of_memory) detail::pool_of(device).fail(image.size(), "a kernel");
    try {
      check(r, "loading a kernel");
    } catch (const system_error& problem) {
      if (is_lost()) throw sinter::detail::momentary_error(problem.what());
      throw;
    }
  }
  module(const module&) = delete;
  module& operator=(const module&) = delete;
  // Failures after a lost context, or at the end of the process, are ignored.
  ~module() {
    if (!driver_alive()) return;
    const driver_table& call = detail::driver_instance().table;
    api::context before = nullptr;
    if (call.context_get(&before) != api::success || call.context_set(gpu_.context) != api::success) return;
    // One of its kernels may still be running.
    call.context_synchronize();
    call.module_unload(handle_);
    if (before != nullptr) call.context_set(before);
  }

  /// The kernel with this name, with `shared` bytes of dynamic shared memory. Throws system_error if it is missing, or the
  /// GPU has less shared memory.
  api::function find(const std::string& name, int shared = 0) const {
    const context_scope here(gpu_);
    api::function out = nullptr;
    const auto r = driver().module_function(&out, handle_, name.c_str());
    if (r == api::not_found) throw system_error("[cuda] a compiled kernel lacks its entry point '" + name + "'");
    check(r, "looking up a kernel");
    // The 48 KiB that need no opt-in include static arrays.
    if (shared > 0) {
      if (shared > gpu_.shared_per_block)
        throw system_error("[cuda] the kernel '" + name + "' needs " + std::to_string(shared) +
                           " bytes of shared memory; " + gpu_.name + " has " + std::to_string(gpu_.shared_per_block));
      check(driver().function_set(out, api::function_max_dynamic_shared, shared), "asking for shared memory");
    }
    return out;
  }
  const gpu& where() const noexcept { return gpu_; }

 private:
  const gpu& gpu_;
  api::module handle_ = nullptr;
};

}  // namespace sinter::engine::run::cuda
