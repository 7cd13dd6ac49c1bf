// io.cpp: the definitions of <sinter/io.hpp>, <sinter/data.hpp> and <sinter/models.hpp> as one translation unit, beside
// engine.cpp. For programs whose other units define SINTER_COMPILED.
#if !defined(SINTER_COMPILED)
#define SINTER_COMPILED
#endif

#include "data/csv_rules.hpp"
#include "data/idx_rules.hpp"
#include "data/progress_rules.hpp"
#include "data/text_rules.hpp"
#include "io/archive_rules.hpp"
#include "io/array_rules.hpp"
#include "io/checkpoint_rules.hpp"
#include "io/file_rules.hpp"
#include "io/npy_rules.hpp"
#include "io/tree_rules.hpp"
#include "models/config_rules.hpp"
