// models.hpp: published networks as plain structs of nn's layers, from safetensors and config.json. Included beside sinter.hpp.
#pragma once

#include "models/bert.hpp"
#include "models/gpt2.hpp"
#include "models/llama.hpp"
#include "models/sampling.hpp"
#include "models/vit.hpp"
#include "models/writer.hpp"
