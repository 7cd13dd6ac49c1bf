// io.cpp: the definitions of <sinter/io.hpp>, <sinter/data.hpp>, <sinter/mesh_io.hpp>, <sinter/models.hpp> and
// <sinter/stablehlo.hpp> as one translation unit, beside engine.cpp. For programs whose other units define SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "data/csv_rules.hpp"
#include "data/idx_rules.hpp"
#include "data/progress_rules.hpp"
#include "data/text_rules.hpp"
#include "data/tokenizer_rules.hpp"
#include "io/archive_rules.hpp"
#include "io/array_rules.hpp"
#include "io/checkpoint_rules.hpp"
#include "io/file_rules.hpp"
#include "io/graph_rules.hpp"
#include "io/npy_rules.hpp"
#include "io/tree_rules.hpp"
#include "mesh_io/part_rules.hpp"
#include "models/config_rules.hpp"
#include "models/sampling_rules.hpp"
#include "models/stored_rules.hpp"
#include "models/writer_rules.hpp"
#include "stablehlo/export_rules.hpp"
