// io/zip.hpp: .npz files: .npy files in a zip archive, stored or deflated.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "npy_rules.hpp"
#include "records.hpp"

namespace sinter::io::detail {

/// The state of zlib's functions, by its ABI since 1.0.
struct zlib_stream {
  const unsigned char* next_in = nullptr;
  unsigned avail_in = 0;
  unsigned long total_in = 0;
  unsigned char* next_out = nullptr;
  unsigned avail_out = 0;
  unsigned long total_out = 0;
  const char* message = nullptr;
  void* state = nullptr;
  void *allocate = nullptr, *release = nullptr, *opaque = nullptr;
  int data_type = 0;
  unsigned long adler = 0, reserved = 0;
};

/// The system's zlib, loaded on first use; null functions if it is missing.
struct zlib {
  int (*start)(zlib_stream*, int, const char*, int) = nullptr;
  int (*inflate)(zlib_stream*, int) = nullptr;
  int (*end)(zlib_stream*) = nullptr;
  unsigned long (*sum)(unsigned long, const unsigned char*, unsigned) = nullptr;

  static const zlib& get() {
    static const zlib found = [] {
      zlib z;
      void* const library = ::dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
      if (!library) return z;
      const auto take = [&]<class F>(F& f, const char* name) { f = reinterpret_cast<F>(::dlsym(library, name)); };
      take(z.start, "inflateInit2_");
      take(z.inflate, "inflate");
      take(z.end, "inflateEnd");
      take(z.sum, "crc32");
      if (!z.start || !z.inflate || !z.end || !z.sum) z = {};
      return z;
    }();
    return found;
  }
};

/// The CRC-32 of bytes that follow bytes with the sum `before`.
inline std::uint32_t sum_of(std::span<const std::byte> bytes, std::uint32_t before = 0) {
  const auto* p = reinterpret_cast<const unsigned char*>(bytes.data());
  const zlib& z = zlib::get();
  unsigned long sum = before;
  for (std::size_t left = bytes.size(); z.sum && left > 0;) {
    const unsigned n = static_cast<unsigned>(std::min(left, std::size_t{1} << 30));
    sum = z.sum(sum, p, n);
    p += n;
    left -= n;
  }
  if (z.sum) return static_cast<std::uint32_t>(sum);
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int k = 0; k < 8; ++k) t[i] = t[i] >> 1 ^ (t[i] & 1 ? 0xedb88320u : 0);
    }
    return t;
  }();
  std::uint32_t c = ~before;
  for (const std::byte b : bytes) c = table[(c ^ static_cast<std::uint32_t>(b)) & 255] ^ c >> 8;
  return ~c;
}

/// Inflates `in`; `window` is -15 for zip archives, 31 for .gz files. Memory grows with the output, up to `most` bytes.
/// `wrong` is "" on success.
inline std::vector<std::byte> inflated(std::span<const std::byte> in, int window, std::uint64_t most,
                                       std::string& wrong) {
  const zlib& z = zlib::get();
  std::vector<std::byte> out;
  wrong = "is deflated, and there is no libz.so.1 to read it (Debian: zlib1g)";
  zlib_stream s;
  if (!z.start || z.start(&s, window, "1.2", static_cast<int>(sizeof s)) != 0) return out;
  wrong = "is damaged: what is deflated cannot be read";
  const auto* const from = reinterpret_cast<const unsigned char*>(in.data());
  std::size_t taken = 0, have = 0;
  for (int told = 0; told == 0;) {
    if (have == out.size()) {
      if (have > most) break;
      // One byte beyond the limit shows whether there is more.
      const std::uint64_t next =
          std::min<std::uint64_t>(most + 1, std::max<std::uint64_t>(2 * have, 2 * in.size() + 256));
      try {
        out.resize(static_cast<std::size_t>(next));
      } catch (const std::exception&) {
        z.end(&s);
        throw;
      }
    }
    s.next_in = from + taken;
    s.avail_in = static_cast<unsigned>(std::min(in.size() - taken, std::size_t{1} << 30));
    s.next_out = reinterpret_cast<unsigned char*>(out.data()) + have;
    s.avail_out = static_cast<unsigned>(std::min(out.size() - have, std::size_t{1} << 30));
    const unsigned room = s.avail_out, given = s.avail_in;
    told = z.inflate(&s, 0);
    have += room - s.avail_out;
    taken += given - s.avail_in;
    if (told == 1 && have <= most) wrong.clear();
  }
  z.end(&s);
  out.resize(have);
  return out;
}

/// Little-endian numbers within a file.
class little_endian {
 public:
  explicit little_endian(std::span<const std::byte> file) : file_(file) {}
  bool has(std::uint64_t at, std::uint64_t n) const { return at <= file_.size() && n <= file_.size() - at; }
  std::uint64_t get(std::size_t at, std::size_t n) const {
    std::uint64_t x = 0;
    for (std::size_t i = n; i-- > 0;) x = x << 8 | static_cast<std::uint64_t>(file_[at + i]);
    return x;
  }

 private:
  std::span<const std::byte> file_;
};

/// Reads the sizes and the place of an entry that do not fit 32 bits, from their own field.
inline void read_wide_sizes(const little_endian& f, std::size_t at, std::size_t end, std::uint64_t& full,
                            std::uint64_t& bytes, std::uint64_t& place) {
  while (end - at >= 4) {
    const std::uint64_t id = f.get(at, 2), n = f.get(at + 2, 2);
    at += 4;
    if (n > end - at) return;
    std::size_t next = at;
    for (std::uint64_t* x : {&full, &bytes, &place})
      if (id == 1 && *x == 0xffffffff && next + 8 <= at + n) {
        *x = f.get(next, 8);
        next += 8;
      }
    at += n;
  }
}

/// Finds the begin and the number of entries of the central directory; false if there is none.
inline bool find_directory(const little_endian& f, std::size_t size, std::uint64_t& begin, std::uint64_t& count) {
  if (size < 22) return false;
  for (std::size_t at = size - 22, tries = 0; tries <= 0xffff; --at, ++tries) {
    if (f.get(at, 4) == 0x06054b50) {
      count = f.get(at + 10, 2);
      begin = f.get(at + 16, 4);
      if ((count == 0xffff || begin == 0xffffffff) && at >= 20 && f.get(at - 20, 4) == 0x07064b50) {
        const std::uint64_t wide = f.get(at - 20 + 8, 8);
        if (!f.has(wide, 56) || f.get(wide, 4) != 0x06064b50) return false;
        count = f.get(wide + 32, 8);
        begin = f.get(wide + 48, 8);
      }
      return begin <= at;
    }
    if (at == 0) break;
  }
  return false;
}

/// Reads the entry of the directory at `at`, and moves `at` past it. Returns "", or the error.
inline std::string read_entry(const storage& whole, record_map& records, const little_endian& f, std::uint64_t& at) {
  if (!f.has(at, 46) || f.get(at, 4) != 0x02014b50) return "is damaged: its directory is cut short";
  const std::uint64_t flags = f.get(at + 8, 2), method = f.get(at + 10, 2);
  std::uint64_t bytes = f.get(at + 20, 4), full = f.get(at + 24, 4), place = f.get(at + 42, 4);
  const std::uint64_t named = f.get(at + 28, 2), extra = f.get(at + 30, 2), comment = f.get(at + 32, 2);
  record r;
  r.sum = static_cast<std::uint32_t>(f.get(at + 16, 4));
  at += 46;
  if (!f.has(at, named + extra + comment)) return "is damaged: its directory is cut short";
  std::string name(static_cast<const char*>(whole.data()) + at, named);
  read_wide_sizes(f, at + named, at + named + extra, full, bytes, place);
  at += named + extra + comment;
  if (name.ends_with('/')) return "";  // a folder
  if (flags & 1) return shown(name) + " is encrypted";
  if (method != 0 && method != 8)
    return shown(name) + " is compressed by method " + std::to_string(method) + "; 0 and 8 are read";
  if (!f.has(place, 30) || f.get(place, 4) != 0x04034b50)
    return "is damaged: " + shown(name) + " is not where it should be";
  r.begin = place + 30 + f.get(place + 26, 2) + f.get(place + 28, 2);
  if (!f.has(r.begin, bytes)) return "is cut short within " + shown(name);
  // A deflated byte expands to at most 1032 bytes.
  if (method == 0 ? full != bytes : full / 1032 > bytes) return "is damaged: " + shown(name) + " has another size";
  r.bytes = bytes;
  r.zipped = true;
  r.deflated = method == 8;
  r.full_bytes = full;
  if (name.ends_with(".npy")) name.resize(name.size() - 4);
  if (!records.emplace(std::move(name), std::move(r)).second) return "has a name twice";
  return "";
}

/// Reads the entries of a file. Returns "", or the error.
inline std::string read_zip(const storage& whole, record_map& records) {
  const little_endian f(bytes_of(whole));
  std::uint64_t at = 0, count = 0;
  if (!find_directory(f, whole.bytes(), at, count)) return "is no .npz file, or cut short: it has no directory";
  for (; count > 0; --count)
    if (std::string wrong = read_entry(whole, records, f, at); !wrong.empty()) return wrong;
  return "";
}

inline array read_zipped(const char* op, const std::string& path, const storage& whole, const record& r,
                         const std::string& name, const dtype* opaque, location at) {
  const std::string what = path + ", " + shown(name);
  const auto stored = bytes_of(whole).subspan(r.begin, r.bytes);
  if (!r.deflated) {
    if (sum_of(stored) != r.sum) fail_file(op, what, "is damaged: its sum is another one", at);
    return parse_npy(op, what, stored, whole, opaque, at);
  }
  std::string wrong;
  const storage full = kept_bytes(inflated(stored, -15, r.full_bytes, wrong));
  if (!wrong.empty()) fail_file(op, what, wrong, at);
  if (full.bytes() != r.full_bytes || sum_of(bytes_of(full)) != r.sum)
    fail_file(op, what, "is damaged: its sum is another one", at);
  return parse_npy(op, what, bytes_of(full), full, opaque, at);
}

inline void put(std::string& to, std::uint64_t x, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(x >> (8 * i) & 0xff);
}

/// Writes a stored entry whose elements begin at a multiple of 64, so that they can be mapped. Adds its line to the directory.
inline void write_entry(file_writer& out, std::string& directory, const named_leaf& leaf, const char* op, location at) {
  const array a = array_of(leaf.value, at);
  const std::string name = leaf.name + ".npy", prefix = npy_prefix(a.type, a.extents);
  if (name.size() > 0xffff) fail(op, "the name " + shown(name) + " is too long for a .npz file", at);
  const std::uint64_t place = out.written(), bytes = prefix.size() + a.bytes().size();
  const std::uint32_t sum = sum_of(a.bytes(), sum_of(std::as_bytes(std::span(prefix))));
  std::string wide;  // the sizes, then the place, in the field for wide sizes
  put(wide, bytes, 8);
  put(wide, bytes, 8);
  const std::size_t padding = (64 - (place + 30 + name.size() + 20 + 4) % 64) % 64;
  std::string common;
  put(common, 45, 2);      // version
  put(common, 0x0800, 2);  // names are UTF-8
  put(common, 0, 2);       // stored
  put(common, 0x00210000, 4);
  put(common, sum, 4);
  put(common, 0xffffffff, 4);
  put(common, 0xffffffff, 4);
  put(common, name.size(), 2);
  std::string local = "PK\x03\x04" + common;
  put(local, 20 + 4 + padding, 2);
  local += name;
  put(local, 1, 2);
  put(local, 16, 2);
  local += wide;
  put(local, 0xd935, 2);
  put(local, padding, 2);
  local.append(padding, '\0');
  out.write(local);
  out.write(prefix);
  out.write(a.data, a.bytes().size());
  directory += "PK\x01\x02";
  put(directory, 45, 2);
  directory += common;
  put(directory, 28, 2);
  put(directory, 0, 2);  // no comment, this disk, no attributes
  put(directory, 0, 8);
  put(directory, 0xffffffff, 4);
  directory += name;
  put(directory, 1, 2);
  put(directory, 24, 2);
  directory += wide;
  put(directory, place, 8);
}

inline void write_zip(file_writer& out, const std::vector<named_leaf>& leaves, const char* op, location at) {
  std::string directory;
  for (const named_leaf& leaf : leaves) write_entry(out, directory, leaf, op, at);
  const std::uint64_t begin = out.written(), end = begin + directory.size(), count = leaves.size();
  std::string tail = "PK\x06\x06";
  put(tail, 44, 8);
  put(tail, 45, 2);
  put(tail, 45, 2);
  put(tail, 0, 8);
  put(tail, count, 8);
  put(tail, count, 8);
  put(tail, directory.size(), 8);
  put(tail, begin, 8);
  tail += "PK\x06\x07";
  put(tail, 0, 4);
  put(tail, end, 8);
  put(tail, 1, 4);
  tail += "PK\x05\x06";
  put(tail, 0, 4);
  const std::uint64_t few = std::min<std::uint64_t>(count, 0xffff);
  put(tail, few, 2);
  put(tail, few, 2);
  put(tail, std::min<std::uint64_t>(directory.size(), 0xffffffff), 4);
  put(tail, std::min<std::uint64_t>(begin, 0xffffffff), 4);
  put(tail, 0, 2);
  out.write(directory);
  out.write(tail);
}

}  // namespace sinter::io::detail
