// emit/prelude/library.hpp: the text that is equal in all exported libraries: the C driver, its header, its C++ and Python faces.
//
// $n stands for the library's name, $N for the name in capitals. Lines behind $host or $gpu, up to $end, are those of libraries for the
// host or for GPUs alone. The driver follows the printed tables and programs.
#pragma once

#include <string_view>

namespace sinter::engine::emit {

/// The interface of a library, between its printed comment and its printed constants.
inline constexpr std::string_view library_interface = R"prelude(#ifndef SINTER_$N_H
#define SINTER_$N_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

$host
/* Elements in row-major order, at an address that 64 divides. Without elements the address may be null. */
$gpu
/* Elements in row-major order in a GPU's memory, at an address that 64 divides. Without elements the address may be null. */
$end
typedef struct { void* data; const int64_t* extents; } $n_array;
/* A name, an element type, and for each axis its number or the name of its size. */
typedef struct { const char* name; int dtype, rank; const char* const* axes; } $n_spec;
typedef struct $n_model $n_model;

enum { $n_bool, $n_i8, $n_i16, $n_i32, $n_i64, $n_u8, $n_u16, $n_u32, $n_u64, $n_f16, $n_bf16, $n_f32, $n_f64, $n_f8_e4m3, $n_f8_e5m2 };

enum {
  $n_ok = 0,
  $n_bad_argument = 1,   /* a null pointer, or a file of weights where there are none */
$host
  $n_bad_processor = 2,  /* the processor lacks the instructions of the library's kernels */
$gpu
  $n_bad_processor = 2,  /* the GPU is older than those of the library's kernels */
$end
  $n_no_weights = 3,     /* the file of weights cannot be read */
  $n_bad_weights = 4,    /* the file has other weights */
  $n_bad_extents = 5,    /* an extent is not what the specs say, or a size is out of its bounds */
  $n_bad_address = 6,    /* 64 does not divide the address of an array or of the room */
  $n_overlap = 7,        /* a result shares memory with an array that must stay apart from it */
  $n_small_room = 8,     /* the room has fewer bytes than $n_room says */
  $n_no_memory = 9,      /* of open */
  $n_no_gpu = 10,        /* the GPU's driver, libcuda.so.1, or a GPU is missing */
  $n_gpu_failed = 11     /* the GPU's driver refuses a request, or reports a failure of an earlier one */
};

#if defined(_WIN32)
#define $N_API
#else
#define $N_API __attribute__((visibility("default")))
#endif

/* The inputs and the results of a call, in order; the functions return their number. */
$N_API int $n_inputs(const $n_spec**);
$N_API int $n_outputs(const $n_spec**);
/* Makes a model of a file of weights; null where the library has them, or has none. Threads may share a model. */
$gpu
/* It is for the GPU of the thread's context of CUDA; without a context, for the first GPU, whose primary context becomes the thread's. */
$end
$N_API int $n_open(const char* weights, $n_model**);
/* The bytes of memory that a call with these sizes needs. */
$N_API int $n_room(const $n_model*, const int64_t* sizes, size_t* bytes);
/* Computes out of in, with `bytes` bytes at `room`, which 64 divides. Calls with rooms of their own may run at once. */
$host
$N_API int $n_run(const $n_model*, const $n_array* in, $n_array* out, void* room, size_t bytes);
$gpu
/* The room is in the GPU's memory. The call's work is in `stream`, a CUstream or null, when the function returns. It waits for the GPU
   only where the program branches on a value. */
$N_API int $n_run(const $n_model*, const $n_array* in, $n_array* out, void* room, size_t bytes, void* stream);
$end
/* Replaces the weights. Running calls end with the old ones, and the function waits for them. */
$N_API int $n_swap($n_model*, const char* weights);
/* A code in words; the version, the graph's digest, the compiler and its flags. */
$N_API const char* $n_error(int);
$N_API const char* $n_provenance(void);
$N_API void $n_close($n_model*);

#ifdef __cplusplus
}
#endif
#endif
)prelude";

/// The beginning of a library's C file, behind its printed comment.
inline constexpr std::string_view library_begin = R"prelude(#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "$n.h"

$gpu
#include <dlfcn.h>
$end
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

$host
typedef void kernel(void* const* buffers, char* scratch, const long* sizes);
/* Of a call: the kernels, the sizes, and the numbers that follow from them. */
typedef struct { kernel* const* k; const long *z, *at; } call;
$gpu
typedef unsigned long long address;
/* The driver's functions, in the order of their names below. */
typedef struct {
  int (*init)(unsigned);
  int (*device_of)(int*, int);
  int (*attribute)(int*, int, int);
  int (*retain)(void**, int);
  int (*give_back)(int);
  int (*current)(void**);
  int (*make_current)(void*);
  int (*device)(int*);
  int (*synchronize)(void);
  int (*load)(void**, const void*);
  int (*unload)(void*);
  int (*function)(void**, void*, const char*);
  int (*set)(void*, int, int);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**);
  int (*allocate)(address*, size_t);
  int (*release)(address);
  int (*put)(address, const void*, size_t);
  int (*to_gpu)(address, const void*, size_t, void*);
  int (*to_host)(void*, address, size_t, void*);
  int (*copy)(address, address, size_t, void*);
  int (*wait)(void*);
  int (*capturing)(void*, int*);
} driver;
static const char* const driver_names[] = {
    "cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuCtxGetDevice",
    "cuCtxSynchronize", "cuModuleLoadData", "cuModuleUnload", "cuModuleGetFunction", "cuFuncSetAttribute", "cuLaunchKernel", "cuMemAlloc_v2",
    "cuMemFree_v2", "cuMemcpyHtoD_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2", "cuStreamSynchronize",
    "cuStreamIsCapturing"};
/* Of a call: the driver, the kernels, the sizes and the numbers that follow from them; its stream, and its first failure. */
typedef struct { const driver* d; void* const* k; const long *z, *at; void* stream; int code; } call;
$end
/* A set of sizes with a program of its own. */
typedef struct {
  int (*fits)(const long* n, long* z);                           /* of sizes: the symbols */
  long (*places)(const long* z, long threads, long* at);         /* offsets; the bytes of scratch memory */
  void (*extents)(const long* z, int64_t* e);                    /* of the results, one after another */
  void (*run)(call* c, void* const* g, char* base);
  const int* may_share;                                          /* pairs of a result and an input, up to -1 */
  long ats;
} program;
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define UP64(n) (((n) + 63) / 64 * 64)
)prelude";

/// The requests of a GPU library's steps, behind its printed tables.
inline constexpr std::string_view library_requests = R"prelude(
enum { too_long = -1, captured = -2 };
static void launch(call* c, int entry, long blocks, unsigned threads, unsigned shared, void** parameters) {
  if (c->code || blocks == 0) return;
  c->code = blocks > 0x7fffffff ? too_long : c->d->launch(c->k[entry], (unsigned)blocks, 1, 1, threads, 1, 1, shared, c->stream, parameters, 0);
}
static void copy(call* c, void* to, const void* from, long bytes) {
  if (!c->code && bytes && to != from) c->code = c->d->copy((address)(uintptr_t)to, (address)(uintptr_t)from, (size_t)bytes, c->stream);
}
/* A table of a launch. The driver has read it when the function returns; a graph that captures the stream would read it later. */
static void send(call* c, void* to, const void* from, size_t bytes) {
  int captures = 0;
  if (!c->code) c->code = c->d->capturing(c->stream, &captures);
  if (!c->code && captures) c->code = captured;
  if (!c->code) c->code = c->d->to_gpu((address)(uintptr_t)to, from, bytes, c->stream);
}
/* A condition, once the GPU has computed it; false after a failure. */
static int flag(call* c, const void* at) {
  unsigned char on = 0;
  if (!c->code) c->code = c->d->to_host(&on, (address)(uintptr_t)at, 1, c->stream);
  if (!c->code) c->code = c->d->wait(c->stream);
  return !c->code && on;
}
)prelude";

/// The functions of a library's C file, behind its printed programs and tables.
inline constexpr std::string_view library_end = R"prelude(
struct $n_model {
$host
  kernel* const* kernels;
$gpu
  driver d;
  void *context, *modules[MODULES + 1], *kernels[ENTRIES + 1];
  int retained; /* the primary context of the first GPU */
$end
  struct { const char* data; void* mapped; _Atomic long readers; } slot[2];
  _Atomic int active;
  atomic_flag swapping;
};

$host
/* 0: x86-64, 1: with AVX2 and what came with it, 2: with AVX-512. */
static int level(void) {
#if defined(__x86_64__)
  const unsigned first = 1u << 12 | 1u << 13 | 1u << 20 | 1u << 22 | 1u << 23 | 1u << 27 | 1u << 28 | 1u << 29;
  const unsigned second = 1u << 3 | 1u << 5 | 1u << 8, third = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
  unsigned a, b, c, d, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & first) != first) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & 6) != 6 || !__get_cpuid(0x80000001u, &a, &b, &c, &d) || !(c & 1u << 5)) return 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & second) != second) return 0;
  return (b & third) == third && (low & 0xe6) == 0xe6 ? 2 : 1;
#else
  return 0;
#endif
}

$gpu
/* Makes the model's context the thread's, and back. */
static int enter(const $n_model* m, void** before) {
  *before = 0;
  if (m->d.current(before) != 0) return $n_gpu_failed;
  return *before == m->context || m->d.make_current(m->context) == 0 ? $n_ok : $n_gpu_failed;
}
static void leave(const $n_model* m, void* before) {
  if (before != m->context) m->d.make_current(before);
}

static int find_driver(driver* d) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return $n_no_gpu;
  for (size_t i = 0; i < sizeof driver_names / sizeof *driver_names; ++i) {
    void* const f = dlsym(library, driver_names[i]);
    if (!f) return $n_no_gpu;
    memcpy((char*)d + i * sizeof f, &f, sizeof f);
  }
  return d->init(0) == 0 ? $n_ok : $n_no_gpu;
}

/* The column of `images` for the context's GPU: kernels of its generation, or those that the driver compiles. */
static int find_column(const $n_model* m, int* column) {
  int device = 0, major = 0, minor = 0;
  if (m->d.device(&device) || m->d.attribute(&major, 75, device) || m->d.attribute(&minor, 76, device)) return $n_gpu_failed;
  if (10 * major + minor < sms[0]) return $n_bad_processor;
  *column = SMS;
  for (int i = 0; i < SMS; ++i)
    if (sms[i] / 10 == major && sms[i] % 10 <= minor) *column = i;
  return $n_ok;
}

static void unload($n_model* m) {
  for (int i = 0; i < MODULES; ++i) {
    if (m->modules[i]) m->d.unload(m->modules[i]);
    m->modules[i] = 0;
  }
}
static int load_modules($n_model* m, int column) {
  for (int i = 0; i < MODULES; ++i)
    if (m->d.load(&m->modules[i], $n_images + images[i][column])) return unload(m), 0;
  return 1;
}

static int load_kernels($n_model* m) {
  int column = 0;
  const int code = find_column(m, &column);
  if (code) return code;
  /* Code of some GPUs of a generation does not run on its others; the driver compiles PTX for all. */
  if (!load_modules(m, column) && (column == SMS || !load_modules(m, SMS))) return $n_gpu_failed;
  for (int i = 0; i < ENTRIES; ++i)
    if (m->d.function(&m->kernels[i], m->modules[entries[i].module], entries[i].name) ||
        (entries[i].shared && m->d.set(m->kernels[i], 8, entries[i].shared)))
      return $n_gpu_failed;
  return $n_ok;
}

/* Finds the GPU, and loads the kernels. */
static int start($n_model* m) {
  int device = 0, code = find_driver(&m->d);
  if (code) return code;
  if (m->d.current(&m->context)) return $n_gpu_failed;
  if (m->context) return load_kernels(m);
  if (m->d.device_of(&device, 0)) return $n_no_gpu;
  if (m->d.retain(&m->context, device)) return m->context = 0, $n_gpu_failed;
  m->retained = 1;
  return m->d.make_current(m->context) ? $n_gpu_failed : load_kernels(m);
}

/* Moves a slot's weights from the host to the GPU. */
static int send_weights($n_model* m, const char** data, void** mapped) {
  address at = 0;
  int failed = m->d.allocate(&at, WEIGHT_FILE - WEIGHT_HEADER + 1);
  /* Pageable memory may still be on its way when the copy returns. */
  if (!failed) failed = m->d.put(at, *data, WEIGHT_FILE - WEIGHT_HEADER) || m->d.synchronize();
  if (*mapped) munmap(*mapped, WEIGHT_FILE);
  if (failed && at) m->d.release(at);
  *data = failed ? 0 : (const char*)(uintptr_t)at;
  *mapped = failed ? 0 : (void*)(uintptr_t)at;
  return failed ? $n_gpu_failed : $n_ok;
}
$end
/* Gives back a slot's weights; 0 unless the GPU keeps them. */
static int drop($n_model* m, int slot) {
  int failed = 0;
  if (!m->slot[slot].mapped) return 0;
$host
  munmap(m->slot[slot].mapped, WEIGHT_FILE);
$gpu
  failed = m->d.synchronize() || m->d.release((address)(uintptr_t)m->slot[slot].mapped);
$end
  m->slot[slot].mapped = 0;
  return failed;
}

static long max_threads(void) {
#ifdef _OPENMP
  const long n = omp_get_max_threads();
  return n < MOST_THREADS ? n : MOST_THREADS;
#else
  return 1;
#endif
}

static const program* fitting(const long* n, long* z) {
  for (int k = 0; k < SIZES; ++k)
    if (n[k] < least[k] || n[k] > most[k]) return 0;
  for (int p = 0; p < PROGRAMS; ++p)
    if (programs[p].fits(n, z)) return &programs[p];
  return 0;
}

/* Whether the axes of an array are as they should be. Reads the sizes that occur for the first time. */
static int read_axes(const int64_t* extents, const long* axes, int rank, long* n) {
  for (int d = 0; d < rank; ++d) {
    const long want = axes[d];
    if (!extents) {
      if (want < 0) return 0;
    } else if (want >= 0) {
      if (extents[d] != want) return 0;
    } else if (n[-1 - want] < 0) {
      if (extents[d] < 0) return 0;
      n[-1 - want] = extents[d];
    } else if (extents[d] != n[-1 - want]) {
      return 0;
    }
  }
  return 1;
}

typedef struct { const char *first, *end; } span;
static int meet(span a, span b) { return a.first < b.end && b.first < a.end; }

static int may_share(const program* p, int result, int input) {
  for (const int* s = p->may_share; *s >= 0; s += 2)
    if (s[0] == result && s[1] == input) return 1;
  return 0;
}

/* The arrays' memory, in the order of the specs. */
static int take_array(const $n_array* a, long elements, long bytes, span* s) {
  if (elements == 0) return s->first = s->end = 0, $n_ok;
  if (!a->data) return $n_bad_argument;
  if ((uintptr_t)a->data % 64) return $n_bad_address;
  s->first = (const char*)a->data;
  s->end = s->first + elements * bytes;
  return $n_ok;
}

static int take_inputs(const $n_array* in, const long* n, span* s, void** g) {
  const long* axes = in_axes;
  for (int i = 0; i < INPUTS; ++i) {
    long elements = 1;
    for (int d = 0; d < in_specs[i].rank; ++d, ++axes) elements *= *axes < 0 ? n[-1 - *axes] : *axes;
    const int code = take_array(&in[i], elements, in_bytes[i], &s[i]);
    if (code) return code;
    g[in_place[i]] = in[i].data;
  }
  return $n_ok;
}

static int take_results(const program* p, const $n_array* out, const int64_t* e, const span* in, span* s, void** g) {
  for (int k = 0; k < OUTPUTS; ++k) {
    long elements = 1;
    for (int d = 0; d < out_specs[k].rank; ++d, ++e) {
      if (out[k].extents && out[k].extents[d] != *e) return $n_bad_extents;
      elements *= *e;
    }
    const int code = take_array(&out[k], elements, out_bytes[k], &s[k]);
    if (code) return code;
    for (int i = 0; i < INPUTS; ++i)
      if (meet(s[k], in[i]) && !(s[k].first == in[i].first && s[k].end == in[i].end && may_share(p, k, i))) return $n_overlap;
    for (int i = 0; i < k; ++i)
      if (meet(s[k], s[i])) return $n_overlap;
    g[INPUTS + WEIGHTS + k] = out[k].data;
  }
  return $n_ok;
}

int $n_inputs(const $n_spec** to) {
  if (to) *to = in_specs;
  return INPUTS;
}
int $n_outputs(const $n_spec** to) {
  if (to) *to = out_specs;
  return OUTPUTS;
}

int $n_room(const $n_model* m, const int64_t* sizes, size_t* bytes) {
  long n[SIZES + 1], z[SYMBOLS + 1];
  (void)m;
  if (!bytes || (SIZES && !sizes)) return $n_bad_argument;
  for (int k = 0; k < SIZES; ++k) n[k] = sizes[k];
  const program* const p = fitting(n, z);
  if (!p) return $n_bad_extents;
$host
  *bytes = (size_t)(UP64(p->ats * (long)sizeof(long)) + p->places(z, max_threads(), 0));
$gpu
  *bytes = (size_t)p->places(z, 1, 0);
$end
  return $n_ok;
}

static int acquire($n_model* m) {
  for (;;) {
    const int i = atomic_load(&m->active);
    atomic_fetch_add(&m->slot[i].readers, 1);
    if (atomic_load(&m->active) == i) return i;
    atomic_fetch_sub(&m->slot[i].readers, 1);
  }
}

$gpu
/* Queues the work of a call. */
static int queue($n_model* m, const program* p, const long* z, const long* at, void** g, char* room, void* stream) {
  void* before;
  int code = enter(m, &before);
  if (code) return code;
  call c = {&m->d, m->kernels, z, at, stream, 0};
  const int slot = WEIGHTS ? acquire(m) : 0;
  for (int w = 0; w < WEIGHTS; ++w) g[weight_place[w]] = (void*)(m->slot[slot].data + weight_at[w]);
  p->run(&c, g, room);
  if (WEIGHTS) atomic_fetch_sub(&m->slot[slot].readers, 1);
  leave(m, before);
  return c.code == too_long ? $n_bad_extents : c.code ? $n_gpu_failed : $n_ok;
}

int $n_run(const $n_model* shared, const $n_array* in, $n_array* out, void* room, size_t bytes, void* stream) {
  long at[ATS];
$host
int $n_run(const $n_model* shared, const $n_array* in, $n_array* out, void* room, size_t bytes) {
$end
  $n_model* const m = ($n_model*)shared;
  long n[SIZES + 1], z[SYMBOLS + 1];
  int64_t e[OUT_AXES + 1];
  span spans[INPUTS + OUTPUTS + 1];
  void* g[INPUTS + WEIGHTS + OUTPUTS + 1];
  if (!m || (INPUTS && !in) || (OUTPUTS && !out)) return $n_bad_argument;
  for (int k = 0; k < SIZES; ++k) n[k] = -1;
  const long* axes = in_axes;
  for (int i = 0; i < INPUTS; axes += in_specs[i++].rank)
    if (!read_axes(in[i].extents, axes, in_specs[i].rank, n)) return $n_bad_extents;
  const program* const p = fitting(n, z);
  if (!p) return $n_bad_extents;
  p->extents(z, e);
  int code = take_inputs(in, n, spans, g);
  if (!code) code = take_results(p, out, e, spans, spans + INPUTS, g);
  if (code) return code;
  if ((uintptr_t)room % 64) return $n_bad_address;
$gpu
  const size_t need = (size_t)p->places(z, 1, at);
  if (need > bytes || (need && !room)) return $n_small_room;
$host
  const size_t front = (size_t)UP64(p->ats * (long)sizeof(long));
  if (front > bytes) return $n_small_room;
  for (long threads = max_threads();; threads = 1) {
    const size_t need = front + (size_t)p->places(z, threads, (long*)room);
    if (need <= bytes && (need == 0 || room)) break;
    if (threads == 1) return $n_small_room;
  }
$end
  const span own = {(const char*)room, (const char*)room + bytes};
  for (int i = 0; room && i < INPUTS + OUTPUTS; ++i)
    if (meet(own, spans[i])) return $n_overlap;
$gpu
  return queue(m, p, z, at, g, (char*)room, stream);
$host
  call c = {m->kernels, z, (const long*)room};
  if (!WEIGHTS) return p->run(&c, g, (char*)room + front), $n_ok;
  const int slot = acquire(m);
  for (int w = 0; w < WEIGHTS; ++w) g[weight_place[w]] = (void*)(m->slot[slot].data + weight_at[w]);
  p->run(&c, g, (char*)room + front);
  atomic_fetch_sub(&m->slot[slot].readers, 1);
  return $n_ok;
$end
}

/* Maps a file of weights, whose header must be the library's. */
static int map_weights(const char* path, const char** data, void** mapped) {
  struct stat info;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return $n_no_weights;
  const int found = fstat(fd, &info);
  if (found != 0 || !S_ISREG(info.st_mode) || info.st_size != WEIGHT_FILE) return close(fd), found ? $n_no_weights : $n_bad_weights;
  void* const all = mmap(0, WEIGHT_FILE, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (all == MAP_FAILED) return $n_no_weights;
  uint64_t hash = 14695981039346656037u;
  for (long i = 0; i < WEIGHT_HEADER; ++i) hash = (hash ^ ((const unsigned char*)all)[i]) * 1099511628211u;
  if (hash != WEIGHT_DIGEST) return munmap(all, WEIGHT_FILE), $n_bad_weights;
  *data = (const char*)all + WEIGHT_HEADER;
  *mapped = all;
  return $n_ok;
}

int $n_open(const char* weights, $n_model** to) {
  if (!to) return $n_bad_argument;
  *to = 0;
  if (WEIGHTS ? !weights && !INSIDE : weights != 0) return $n_bad_argument;
$host
  const int has = level();
  int use = ISAS - 1;
  while (use >= 0 && isas[use].level > has) --use;
  if (use < 0) return $n_bad_processor;
$end
  $n_model* const m = ($n_model*)calloc(1, sizeof *m);
  if (!m) return $n_no_memory;
  atomic_flag_clear(&m->swapping);
  int code = $n_ok;
$host
  m->kernels = isas[use].kernels;
$gpu
  if ((code = start(m))) return $n_close(m), code;
$end
  if (weights) code = map_weights(weights, &m->slot[0].data, &m->slot[0].mapped);
#if INSIDE
  else m->slot[0].data = $n_weight_file + WEIGHT_HEADER;
#endif
$gpu
  if (!code && WEIGHTS) code = send_weights(m, &m->slot[0].data, &m->slot[0].mapped);
$end
  if (code) return $n_close(m), code;
  *to = m;
  return $n_ok;
}

int $n_swap($n_model* m, const char* weights) {
  if (!m || !weights || !WEIGHTS) return $n_bad_argument;
  const char* data = 0;
  void* mapped = 0;
$host
  const int code = map_weights(weights, &data, &mapped);
$gpu
  void* before;
  int code = enter(m, &before);
  if (code) return code;
  code = map_weights(weights, &data, &mapped);
  if (!code) code = send_weights(m, &data, &mapped);
  if (code) leave(m, before);
$end
  if (code) return code;
  while (atomic_flag_test_and_set(&m->swapping)) sched_yield();
  const int old = atomic_load(&m->active), next = 1 - old;
  while (atomic_load(&m->slot[next].readers)) sched_yield(); /* they look again, and leave */
  m->slot[next].data = data;
  m->slot[next].mapped = mapped;
  atomic_store(&m->active, next);
  while (atomic_load(&m->slot[old].readers)) sched_yield();
  const int kept = drop(m, old);
  atomic_flag_clear(&m->swapping);
$gpu
  leave(m, before);
$end
  if (kept) return $n_gpu_failed;
  return $n_ok;
}

const char* $n_error(int code) {
  static const char* const words[] = {
      "done", "a pointer is null, or weights are given where there are none", 
$host
      "the processor lacks the instructions of the kernels",
$gpu
      "the GPU is older than those of the kernels",
$end
      "the file of weights cannot be read", "the file has other weights", "an extent is wrong, or a size is out of its bounds",
      "64 does not divide an address", "a result shares memory with another array", "the room is too small", "out of memory",
      "the GPU's driver, libcuda.so.1, or a GPU is missing", "the GPU's driver refuses a request, or reports a failure of an earlier one"};
  return code >= 0 && code < (int)(sizeof words / sizeof *words) ? words[code] : "unknown";
}
const char* $n_provenance(void) { return PROVENANCE; }

void $n_close($n_model* m) {
  if (!m) return;
$gpu
  void* before = 0;
  if (!m->context || enter(m, &before)) return free(m);
$end
  for (int i = 0; i < 2; ++i) drop(m, i);
$gpu
  m->d.synchronize();
  unload(m);
  leave(m, before);
  if (m->retained) {
    if (before == m->context) m->d.make_current(0);
    m->d.give_back(0);
  }
$end
  free(m);
}
)prelude";

/// The C++ face: a model that closes itself, and errors as exceptions.
inline constexpr std::string_view library_hpp = R"prelude(#pragma once

#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <utility>

#include "$n.h"

namespace $n {

class error : public std::runtime_error {
 public:
  explicit error(int code) : std::runtime_error($n_error(code)), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

inline void check(int code) {
  if (code != $n_ok) throw error(code);
}

$host
/// Memory for arrays and rooms.
class buffer {
 public:
  explicit buffer(std::size_t bytes) : bytes_((bytes + 63) / 64 * 64), data_(bytes ? std::aligned_alloc(64, bytes_) : nullptr, std::free) {
    if (bytes && !data_) throw std::bad_alloc();
  }
  void* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return bytes_; }
  template <class T>
  T* as() const noexcept { return static_cast<T*>(data_.get()); }

 private:
  std::size_t bytes_;
  std::unique_ptr<void, void (*)(void*)> data_;
};

$end
class model {
 public:
  explicit model(const char* weights = nullptr) { check($n_open(weights, &model_)); }
  model(model&& x) noexcept : model_(std::exchange(x.model_, nullptr)) {}
  model& operator=(model x) noexcept { return std::swap(model_, x.model_), *this; }
  ~model() { $n_close(model_); }

  static std::span<const $n_spec> inputs() {
    const $n_spec* all = nullptr;
    const int n = $n_inputs(&all);
    return {all, static_cast<std::size_t>(n)};
  }
  static std::span<const $n_spec> outputs() {
    const $n_spec* all = nullptr;
    const int n = $n_outputs(&all);
    return {all, static_cast<std::size_t>(n)};
  }
  std::size_t room(const std::int64_t* sizes = nullptr) const {
    std::size_t bytes = 0;
    check($n_room(model_, sizes, &bytes));
    return bytes;
  }
$host
  void run(const $n_array* in, $n_array* out, const buffer& room) const { check($n_run(model_, in, out, room.data(), room.size())); }
$gpu
  void run(const $n_array* in, $n_array* out, void* room, std::size_t bytes, void* stream = nullptr) const {
    check($n_run(model_, in, out, room, bytes, stream));
  }
$end
  void swap(const char* weights) { check($n_swap(model_, weights)); }

 private:
  $n_model* model_ = nullptr;
};

}  // namespace $n
)prelude";

/// The Python face, by ctypes alone; arrays are of numpy where it is installed.
inline constexpr std::string_view library_py = R"prelude(import ctypes
import os
import struct

try:
    import numpy
except ImportError:
    numpy = None

_folder = os.path.dirname(os.path.abspath(__file__))
_names = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "f8_e4m3", "f8_e5m2"]
_bytes = [1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 1, 1]
_formats = ["?", "b", "h", "i", "q", "B", "H", "I", "Q", "e", "H", "f", "d", "B", "B"]
_narrow = {"bf16": ("bfloat16",), "f8_e4m3": ("float8_e4m3fn",), "f8_e5m2": ("float8_e5m2",)}
_numpy = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "u2", "f4", "f8", "u1", "u1"]


class _Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("extents", ctypes.POINTER(ctypes.c_int64))]


class _Spec(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int), ("axes", ctypes.POINTER(ctypes.c_char_p))]


_lib = ctypes.CDLL(os.path.join(_folder, "lib$n.so"))
_lib.$n_open.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_void_p)]
_lib.$n_room.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_size_t)]
$host
_lib.$n_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Array), ctypes.POINTER(_Array), ctypes.c_void_p, ctypes.c_size_t]
$gpu
_lib.$n_run.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Array), ctypes.POINTER(_Array), ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
$end
_lib.$n_swap.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
_lib.$n_close.argtypes = [ctypes.c_void_p]
_lib.$n_close.restype = None
_lib.$n_error.restype = _lib.$n_provenance.restype = ctypes.c_char_p


class Error(Exception):
    def __init__(self, code):
        super().__init__(_lib.$n_error(code).decode())
        self.code = code


def _check(code):
    if code != 0:
        raise Error(code)


class Spec:
    """name, dtype as text, and axes: a number, or a size's name."""

    def __init__(self, raw):
        self.name, self.code, self.dtype = raw.name.decode(), raw.dtype, _names[raw.dtype]
        texts = [raw.axes[d].decode() for d in range(raw.rank)]
        self.axes = [int(t) if t.isdigit() else t for t in texts]


def _specs(of):
    all_of = ctypes.POINTER(_Spec)()
    return [Spec(all_of[i]) for i in range(of(ctypes.byref(all_of)))]


inputs, outputs = _specs(_lib.$n_inputs), _specs(_lib.$n_outputs)
provenance = _lib.$n_provenance().decode()


$host
class _Memory:
    """Bytes at an address that 64 divides."""

    def __init__(self, size):
        self.size = size
        self.raw = (ctypes.c_char * (size + 64))()
        start = ctypes.addressof(self.raw)
        self.address = (start + 63) // 64 * 64
        self.bytes = memoryview(self.raw).cast("B")[self.address - start:self.address - start + size]


class Array:
    """A result where numpy is missing: shape, dtype, bytes, and tolist() of the elements in order."""

    def __init__(self, code, shape, memory):
        self.dtype, self.shape, self.bytes, self._format = _names[code], tuple(shape), memory.bytes, _formats[code]

    def tolist(self):
        n = len(self.bytes) // struct.calcsize("=" + self._format)
        return list(struct.unpack("=%d%s" % (n, self._format), self.bytes))


$end
def _product(shape):
    n = 1
    for e in shape:
        n *= e
    return n

$host

def _bits(spec, a):
    """The bits of numbers of a dtype that numpy lacks: as they are, or of numbers that are rounded to bf16."""
    if a.dtype == _numpy[spec.code] or (a.dtype.name in _narrow[spec.dtype] and a.dtype.itemsize == _bytes[spec.code]):
        return a.view(_numpy[spec.code])
    if spec.dtype != "bf16" or a.dtype.kind not in "fiu":
        raise TypeError("%s is %s; give its bits as %s, not %s" % (spec.name, spec.dtype, _numpy[spec.code], a.dtype))
    f = a.astype("f4")
    u = f.view("u4")
    rounded = ((u.astype("u8") + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("u2")
    return numpy.where(numpy.isnan(f), numpy.uint16(0x7FC0), rounded)


def _given(spec, x):
    """The shape and the bytes of an argument: an array with the buffer protocol, or (shape, bytes)."""
    if isinstance(x, tuple) and len(x) == 2 and not isinstance(x[1], (int, float)):
        shape, data = list(x[0]), memoryview(x[1]).cast("B")
    elif isinstance(x, Array):
        shape, data = list(x.shape), x.bytes
    elif numpy is not None:
        a = numpy.ascontiguousarray(x) if spec.dtype in _narrow else numpy.ascontiguousarray(x, dtype=_numpy[spec.code])
        if spec.dtype in _narrow:
            a = _bits(spec, a)
        shape, data = list(numpy.shape(x)), a.reshape(-1).view("u1").data
    else:
        view = memoryview(x)
        if view.format in ("e", "f", "d") and (spec.dtype in _narrow or view.format != _formats[spec.code]):
            raise TypeError("%s is %s; this has the format '%s'" % (spec.name, spec.dtype, view.format))
        shape, data = list(view.shape), view.cast("B")
    if len(shape) != len(spec.axes) or len(data) != _product(shape) * _bytes[spec.code]:
        raise ValueError("%s is %s of %s; this has %s and %d bytes" % (spec.name, spec.dtype, spec.axes, shape, len(data)))
    return shape, data


$end
class Model:
    """A model of a file of weights; by default the one beside this file, where there is one."""

    def __init__(self, weights=None):
        beside = os.path.join(_folder, "$n.weights")
        if weights is None and $has_file and os.path.exists(beside):
            weights = beside
        self._model = ctypes.c_void_p()
        _check(_lib.$n_open(os.fsencode(weights) if weights else None, ctypes.byref(self._model)))

    def __del__(self):
        if getattr(self, "_model", None):
            _lib.$n_close(self._model)
            self._model = None

    def swap(self, weights):
        _check(_lib.$n_swap(self._model, os.fsencode(weights)))

$gpu
    def room(self, **sizes):
        """The bytes of memory that a call with these sizes needs."""
        values, need = (ctypes.c_int64 * max(1, len(size_names)))(*[sizes[n] for n in size_names]), ctypes.c_size_t()
        _check(_lib.$n_room(self._model, values, ctypes.byref(need)))
        return need.value

    def run(self, given, results, room, stream=0):
        """Queues a call on a stream, a CUstream. Arrays on the GPU have __cuda_array_interface__ and rows one after another, or are pairs
        of an address and a shape; the room is such an array of bytes."""
        keep = []
        arrays, out = self._arrays(inputs, given, keep), self._arrays(outputs, results, keep)
        address, shape, item = _place(room)
        _check(_lib.$n_run(self._model, arrays, out, address, _product(shape) * item, stream))

    def _arrays(self, specs, given, keep):
        if len(given) != len(specs):
            raise ValueError("%d arrays are given and the model has %d" % (len(given), len(specs)))
        arrays = (_Array * max(1, len(specs)))()
        for i, (spec, x) in enumerate(zip(specs, given)):
            address, shape, item = _place(x, spec)
            if len(shape) != len(spec.axes):
                raise ValueError("%s has the axes %s; this has the shape %s" % (spec.name, spec.axes, shape))
            keep.append((ctypes.c_int64 * max(1, len(shape)))(*shape))
            arrays[i] = _Array(address, keep[-1])
        return arrays


def _place(x, spec=None):
    """The address and the shape of an array on a GPU, and the bytes of an element; of a pair without a spec 1."""
    if isinstance(x, tuple):
        return x[0], list(x[1]), 1
    facts = x.__cuda_array_interface__
    if facts.get("strides") is not None:
        raise ValueError("rows have to lie one after another")
    kinds = "biufV" if spec is not None and spec.dtype in _narrow else {"b": "b", "i": "i", "u": "u", "f": "f"}[spec.dtype[0]] if spec else ""
    if spec is not None and (int(facts["typestr"][2:]) != _bytes[spec.code] or facts["typestr"][1] not in kinds):
        raise TypeError("%s is %s; this has elements %s" % (spec.name, spec.dtype, facts["typestr"]))
    return facts["data"][0], list(facts["shape"]), int(facts["typestr"][2:])
$host
    def run(self, *given):
        """The results, in a list. A result whose extents follow from sizes in another way than by name has shapes(sizes)."""
        if len(given) != len(inputs):
            raise ValueError("%d inputs are given and the model has %d" % (len(given), len(inputs)))
        sizes = {}
        keep, arrays = [], (_Array * max(1, len(inputs)))()
        for i, (spec, x) in enumerate(zip(inputs, given)):
            shape, data = _given(spec, x)
            for axis, extent in zip(spec.axes, shape):
                if isinstance(axis, str):
                    sizes[axis] = extent
            memory, extents = _Memory(len(data)), (ctypes.c_int64 * max(1, len(shape)))(*shape)
            memory.bytes[:] = data
            keep.append((memory, extents))
            arrays[i] = _Array(memory.address, extents)
        made, out = [], (_Array * max(1, len(outputs)))()
        for i, spec in enumerate(outputs):
            shape = [axis if isinstance(axis, int) else _value(axis, sizes) for axis in spec.axes]
            memory = _Memory(_product(shape) * _bytes[spec.code])
            made.append((shape, memory))
            extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            keep.append(extents)
            out[i] = _Array(memory.address, extents)
        values = (ctypes.c_int64 * max(1, len(size_names)))(*[sizes[n] for n in size_names])
        need = ctypes.c_size_t()
        _check(_lib.$n_room(self._model, values, ctypes.byref(need)))
        room = _Memory(need.value)
        _check(_lib.$n_run(self._model, arrays, out, room.address, need.value))
        return [_result(spec.code, shape, memory) for spec, (shape, memory) in zip(outputs, made)]


def _value(text, sizes):
    """An extent such as n*2 + 1; quotients are rounded down."""
    return int(eval(text.replace("/", "//"), {"__builtins__": {}}, sizes))


def _result(code, shape, memory):
    if numpy is None:
        return Array(code, shape, memory)
    return numpy.frombuffer(memory.bytes, dtype=_numpy[code]).reshape(shape)
$end
)prelude";

}  // namespace sinter::engine::emit
