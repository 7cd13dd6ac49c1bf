// onnx/library.hpp: a model as a library that needs no sinter.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "../front/compile/export.hpp"
#include "model.hpp"

namespace sinter::onnx {

namespace detail_ {

/// A name of an axis as a C identifier.
inline std::string name_of_size(const std::string& axis) {
  std::string out;
  for (const char c : axis) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return out.empty() || std::isdigit(static_cast<unsigned char>(out[0])) ? "n_" + out : out;
}

/// The axes of a model's inputs as a library has them, and the inputs for some sizes.
inline sinter::detail::library_tree<tensor_list> library_inputs(const model& m, const std::vector<extent>& sizes,
                                                                location at) {
  sinter::detail::library_tree<tensor_list> out;
  out.whole_names = true;
  std::vector<std::vector<std::int64_t>> fixed;
  std::vector<dtype> types;
  std::string missing;
  for (const value_description& d : m.inputs()) {
    if (!d.is_tensor() || !d.has_type || !d.has_shape)
      fail("export_library", "the input " + d.text() + " has no extents; a library takes tensors", at);
    engine::library_input in{d.name, false, {}, {}};
    for (std::size_t a = 0; a < d.extents.size(); ++a) {
      in.size_of.push_back(-1);
      in.extents.push_back(d.extents[a]);
      if (d.extents[a] >= 0) continue;
      const std::string name = name_of_size(d.axes[a].empty() ? d.name + "_" + std::to_string(a) : d.axes[a]);
      const auto given = std::find_if(sizes.begin(), sizes.end(), [&](const extent& e) { return e.name() == name; });
      if (given == sizes.end()) {
        if ((", " + missing + ", ").find(", " + name + ", ") == std::string::npos)
          missing += (missing.empty() ? "" : ", ") + name;
        continue;
      }
      in.extents[a] = given->least() == given->most() ? given->least() : 0;
      if (given->least() == given->most()) continue;
      std::size_t k = 0;
      while (k < out.sizes.size() && out.sizes[k].name != name) ++k;
      if (k == out.sizes.size()) out.sizes.push_back({name, given->least(), given->most()});
      in.size_of[a] = static_cast<int>(k);
    }
    types.push_back(d.type);
    fixed.emplace_back(in.extents.begin(), in.extents.end());
    out.inputs.push_back(std::move(in));
  }
  if (!missing.empty())
    fail("export_library",
         "the model's axes " + missing + " are open; give their bounds: extent(\"" +
             missing.substr(0, missing.find(',')) + "\", 1, 512)",
         at);
  out.make = [inputs = out.inputs, fixed, types](const series<std::int64_t>& of) {
    tensor_list all;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<std::int64_t> extents = fixed[i];
      for (std::size_t a = 0; a < extents.size(); ++a)
        if (inputs[i].size_of[a] >= 0) extents[a] = of[static_cast<std::size_t>(inputs[i].size_of[a])];
      all.push_back(dynamic_tensor(io::detail::make_array(types[i], extents)));
    }
    return all;
  };
  return out;
}

}  // namespace detail_

/// Writes a model as a library, whose inputs, results and sizes have the model's names. `sizes` has the bounds of open axes by name; in names,
/// underscores replace other characters than letters and digits. An axis without a name is "INPUT_AXIS". user_error as for
/// export_library(fn, ...), for open axes without bounds, and for inputs that are not tensors.
inline exported_library export_library(const model& m, library_options how, const std::vector<extent>& sizes = {},
                                       location at = location::current()) {
  if (how.outputs.empty())
    for (const value_description& d : m.outputs()) how.outputs.push_back(d.name);
  const auto run = [&m](const tensor_list& x) { return m(x); };
  return sinter::export_library(run, how, detail_::library_inputs(m, sizes, at));
}

}  // namespace sinter::onnx
