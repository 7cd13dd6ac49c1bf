// run/cuda/device/api.hpp: the part of the CUDA driver's interface that sinter uses, declared here.
#pragma once

#include <cstddef>

/// Types and constants of the "CUDA Driver API" reference manual (13.0), under sinter's names.
namespace sinter::engine::run::cuda::api {

using result = int;                     // CUresult
using device = int;                     // CUdevice
using address = unsigned long long;     // CUdeviceptr
using context = struct context_tag*;    // CUcontext
using module = struct module_tag*;      // CUmodule
using function = struct function_tag*;  // CUfunction
using stream = struct stream_tag*;      // CUstream
using event = struct event_tag*;        // CUevent
using graph = struct graph_tag*;        // CUgraph
using node = struct node_tag*;          // CUgraphNode
using executable = struct exec_tag*;    // CUgraphExec
using condition = unsigned long long;   // CUgraphConditionalHandle

// CUresult
inline constexpr result success = 0, invalid_value = 1, out_of_memory = 2, not_initialized = 3, deinitialized = 4,
                        stub_library = 34, device_unavailable = 46, no_device = 100, invalid_device = 101,
                        invalid_image = 200, invalid_context = 201, no_binary_for_gpu = 209, ecc_uncorrectable = 214,
                        unsupported_ptx_version = 222, operating_system = 304, invalid_handle = 400, not_found = 500,
                        not_ready = 600, illegal_address = 700, launch_out_of_resources = 701, launch_timeout = 702,
                        context_is_destroyed = 709, assertion = 710, hardware_stack_error = 714,
                        illegal_instruction = 715, misaligned_address = 716, invalid_address_space = 717,
                        invalid_pc = 718, launch_failed = 719, not_supported = 801, system_not_ready = 802,
                        system_driver_mismatch = 803, compat_not_supported = 804, capture_unsupported = 900,
                        exec_update_failure = 910;

// CUdevice_attribute
inline constexpr int max_threads_per_block = 1, max_shared_per_block = 8, multiprocessor_count = 16, compute_mode = 20,
                     l2_cache_bytes = 38, capability_major = 75, capability_minor = 76, max_shared_optin = 97;
// CUcomputemode
inline constexpr int mode_prohibited = 2, mode_exclusive_process = 3;
// CUfunction_attribute
inline constexpr int function_max_threads = 0, function_static_shared = 1, function_local_bytes = 3,
                     function_registers = 4, function_max_dynamic_shared = 8;
// CUstream_flags, CUevent_flags, CUstreamCaptureMode, CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned stream_non_blocking = 1, event_default = 0, event_disable_timing = 2;
inline constexpr int capture_thread_local = 1, capture_relaxed = 2;
inline constexpr unsigned host_portable = 1;
// CUpointer_attribute and CUmemorytype
inline constexpr int pointer_memory_type = 2;
inline constexpr unsigned memory_host = 1;

/// CUDA_KERNEL_NODE_PARAMS_v2
struct kernel_node {
  function entry = nullptr;
  unsigned grid_x = 1, grid_y = 1, grid_z = 1, block_x = 1, block_y = 1, block_z = 1, shared = 0;
  void** parameters = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  context in = nullptr;
};

/// CUDA_MEMSET_NODE_PARAMS
struct memset_node {
  address to = 0;
  std::size_t pitch = 0;
  unsigned value = 0, element_bytes = 1;
  std::size_t width = 0, height = 1;
};

/// CUDA_MEMCPY3D, of one row between addresses of a GPU (CU_MEMORYTYPE_DEVICE).
struct copy_place {
  std::size_t x = 0, y = 0, z = 0, level = 0;
  unsigned memory_type = 2;
  const void* host = nullptr;
  address at = 0;
  void *array = nullptr, *reserved = nullptr;
  std::size_t pitch = 0, height = 0;
};
struct copy_node {
  copy_place from, to;
  std::size_t width = 0, height = 1, depth = 1;
};

/// CUgraphNodeParams of a conditional node (CU_GRAPH_NODE_TYPE_CONDITIONAL), whose body the driver makes; the last words
/// belong to other members of its union.
struct conditional_node {
  int type = 13, reserved[3] = {};
  condition handle = 0;
  int kind = 0;  ///< conditional_if, conditional_while
  unsigned size = 1;
  graph* bodies = nullptr;
  context in = nullptr;
  long long rest[26] = {};
};
static_assert(sizeof(conditional_node) == 256);
// CUgraphConditionalNodeType; CU_GRAPH_COND_ASSIGN_DEFAULT: at each launch the condition has its default
inline constexpr int conditional_if = 0, conditional_while = 1;
inline constexpr unsigned condition_begins_anew = 1;

/// CUgraphEdgeData: an edge that orders a kernel after a whole step, or, with `early`, only after another kernel's signal
/// (CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC).
struct edge {
  unsigned char from_port = 0, to_port = 0, type = 0, reserved[5] = {};
};
inline constexpr edge early_edge{1, 0, 1, {}};

/// CUgraphExecUpdateResultInfo
struct update_info {
  int result = 0;
  node failed = nullptr, failed_from = nullptr;
};

}  // namespace sinter::engine::run::cuda::api

// The entry points: member of driver_table, exported name, parameters.
// clang-format off
#define SINTER_CUDA_DRIVER(row) \
  row(init, cuInit, (unsigned flags))                                                                                 \
  row(driver_version, cuDriverGetVersion, (int* version))                                                             \
  row(error_name, cuGetErrorName, (api::result r, const char** text))                                                 \
  row(error_string, cuGetErrorString, (api::result r, const char** text))                                             \
  row(device_count, cuDeviceGetCount, (int* count))                                                                   \
  row(device_get, cuDeviceGet, (api::device* device, int index))                                                      \
  row(device_name, cuDeviceGetName, (char* name, int length, api::device device))                                     \
  row(device_attribute, cuDeviceGetAttribute, (int* value, int attribute, api::device device))                        \
  row(device_memory, cuDeviceTotalMem_v2, (std::size_t* bytes, api::device device))                                   \
  row(device_uuid, cuDeviceGetUuid_v2, (unsigned char* bytes, api::device device))                                     \
  row(context_retain, cuDevicePrimaryCtxRetain, (api::context* context, api::device device))                          \
  row(context_set, cuCtxSetCurrent, (api::context context))                                                           \
  row(context_get, cuCtxGetCurrent, (api::context* context))                                                          \
  row(context_device, cuCtxGetDevice, (api::device* device))                                                           \
  row(context_synchronize, cuCtxSynchronize, (void))                                                                  \
  row(module_load, cuModuleLoadData, (api::module* module, const void* image))                                        \
  row(module_unload, cuModuleUnload, (api::module module))                                                            \
  row(module_function, cuModuleGetFunction, (api::function* function, api::module module, const char* name))          \
  row(function_get, cuFuncGetAttribute, (int* value, int attribute, api::function function))                          \
  row(function_set, cuFuncSetAttribute, (api::function function, int attribute, int value))                           \
  row(launch, cuLaunchKernel, (api::function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,             \
      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, api::stream stream, void** parameters,   \
      void** extra))                                                                                                  \
  row(memory_info, cuMemGetInfo_v2, (std::size_t* available, std::size_t* total))                                     \
  row(memory_allocate, cuMemAlloc_v2, (api::address* address, std::size_t bytes))                                     \
  row(memory_free, cuMemFree_v2, (api::address address))                                                              \
  row(host_allocate, cuMemHostAlloc, (void** data, std::size_t bytes, unsigned flags))                                \
  row(host_free, cuMemFreeHost, (void* data))                                                                         \
  row(pointer_attribute, cuPointerGetAttribute, (void* value, int attribute, api::address address))                   \
  row(copy_to_device, cuMemcpyHtoDAsync_v2, (api::address to, const void* from, std::size_t bytes,                    \
      api::stream stream))                                                                                            \
  row(copy_to_host, cuMemcpyDtoHAsync_v2, (void* to, api::address from, std::size_t bytes, api::stream stream))       \
  row(copy_within, cuMemcpyDtoDAsync_v2, (api::address to, api::address from, std::size_t bytes,                      \
      api::stream stream))                                                                                            \
  row(copy_peer, cuMemcpyPeerAsync, (api::address to, api::context to_context, api::address from,                     \
      api::context from_context, std::size_t bytes, api::stream stream))                                              \
  row(fill, cuMemsetD8Async, (api::address to, unsigned char value, std::size_t bytes, api::stream stream))           \
  row(fill_rows, cuMemsetD2D8Async, (api::address to, std::size_t pitch, unsigned char value, std::size_t bytes,       \
      std::size_t rows, api::stream stream))                                                                          \
  row(stream_create, cuStreamCreate, (api::stream* stream, unsigned flags))                                           \
  row(stream_synchronize, cuStreamSynchronize, (api::stream stream))                                                  \
  row(stream_query, cuStreamQuery, (api::stream stream))                                                              \
  row(stream_wait, cuStreamWaitEvent, (api::stream stream, api::event event, unsigned flags))                         \
  row(capture_begin, cuStreamBeginCapture_v2, (api::stream stream, int mode))                                         \
  row(capture_end, cuStreamEndCapture, (api::stream stream, api::graph* graph))                                       \
  row(event_create, cuEventCreate, (api::event* event, unsigned flags))                                               \
  row(event_destroy, cuEventDestroy_v2, (api::event event))                                                           \
  row(event_record, cuEventRecord, (api::event event, api::stream stream))                                            \
  row(event_query, cuEventQuery, (api::event event))                                                                  \
  row(event_synchronize, cuEventSynchronize, (api::event event))                                                      \
  row(event_elapsed, cuEventElapsedTime, (float* milliseconds, api::event start, api::event end))                     \
  row(graph_create, cuGraphCreate, (api::graph* graph, unsigned flags))                                               \
  row(graph_destroy, cuGraphDestroy, (api::graph graph))                                                              \
  row(graph_add_kernel, cuGraphAddKernelNode_v2, (api::node* node, api::graph graph, const api::node* after,          \
      std::size_t count, const api::kernel_node* what))                                                               \
  row(graph_add_memset, cuGraphAddMemsetNode, (api::node* node, api::graph graph, const api::node* after,             \
      std::size_t count, const api::memset_node* what, api::context context))                                         \
  row(graph_add_copy, cuGraphAddMemcpyNode, (api::node* node, api::graph graph, const api::node* after,               \
      std::size_t count, const api::copy_node* what, api::context context))                                           \
  row(graph_add_child, cuGraphAddChildGraphNode, (api::node* node, api::graph graph, const api::node* after,          \
      std::size_t count, api::graph child))                                                                           \
  row(graph_instantiate, cuGraphInstantiateWithFlags, (api::executable* executable, api::graph graph,                 \
      unsigned long long flags))                                                                                      \
  row(graph_set_kernel, cuGraphExecKernelNodeSetParams_v2, (api::executable executable, api::node node,               \
      const api::kernel_node* what))                                                                                  \
  row(graph_set_memset, cuGraphExecMemsetNodeSetParams, (api::executable executable, api::node node,                  \
      const api::memset_node* what, api::context context))                                                            \
  row(graph_set_copy, cuGraphExecMemcpyNodeSetParams, (api::executable executable, api::node node,                    \
      const api::copy_node* what, api::context context))                                                              \
  row(graph_set_child, cuGraphExecChildGraphNodeSetParams, (api::executable executable, api::node node,               \
      api::graph child))                                                                                              \
  row(graph_launch, cuGraphLaunch, (api::executable executable, api::stream stream))                                  \
  row(graph_destroy_executable, cuGraphExecDestroy, (api::executable executable))
// clang-format on

namespace sinter::engine::run::cuda {

/// The driver's entry points.
struct driver_table {
#define SINTER_ROW(member, name, parameters) api::result(*member) parameters = nullptr;
  SINTER_CUDA_DRIVER(SINTER_ROW)
#undef SINTER_ROW
  /// cuStreamCreateWithPriority and cuCtxGetStreamPriorityRange; streams have equal priorities without them.
  api::result (*stream_create_with_priority)(api::stream* stream, unsigned flags, int priority) = nullptr;
  api::result (*stream_priorities)(int* least, int* most) = nullptr;
  /// cuGraphAddDependencies_v2 of CUDA 12.3; null in older drivers.
  api::result (*graph_add_edges)(api::graph graph, const api::node* from, const api::node* to, const api::edge* edges,
                                 std::size_t count) = nullptr;
  /// cuGraphConditionalHandleCreate and cuGraphAddNode_v2 of CUDA 12.3; null in older drivers.
  api::result (*condition_create)(api::condition* handle, api::graph root, api::context context, unsigned begins,
                                  unsigned flags) = nullptr;
  api::result (*graph_add_conditional)(api::node* node, api::graph graph, const api::node* after,
                                       const api::edge* edges, std::size_t count,
                                       api::conditional_node* what) = nullptr;
};

}  // namespace sinter::engine::run::cuda
