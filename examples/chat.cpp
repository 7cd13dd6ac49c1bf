// chat.cpp: chats with a model in a folder as Hugging Face publishes it: config.json, model.safetensors and tokenizer.json. GPT-2, Llama and
// Mistral; texts appear as they are written.
//
//   chat --model FOLDER [--weights int4] [--temperature 0.7] [--top-k 40] [--top-p 0.9] [--most 256]     reads lines from the terminal
//   chat --model FOLDER --prompt "Once upon a time"                                                      writes one text
#include <sinter/models.hpp>

#include <fstream>
#include <iostream>

#include "support/program.hpp"
using namespace sinter;

using map_of = models::stored_linear<float>;

/// The marks of a conversation: what stands around a message, and what ends an answer.
struct form {
  const char* needs;  ///< a token of models that were trained with these marks
  const char *before, *behind, *stop;
};
constexpr form forms[] = {
    {"<|start_header_id|>", "<|start_header_id|>user<|end_header_id|>\n\n",
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"},
    {"<|im_start|>", "<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>"},
    {"<start_of_turn>", "<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>"},
    {"[INST]", "[INST]", "[/INST]", "</s>"},
};

form form_of(const data::tokenizer& t, const std::string& name) {
  for (const form& f : forms)
    if (name == "auto" ? t.find(f.needs).has_value() : name == f.needs) return f;
  if (name == "auto" || name == "none") return {"", "", "", ""};
  if (name == "llama2") return {"", "[INST] ", " [/INST]", "</s>"};
  throw std::runtime_error("--form is auto, none, llama2, or a token of a known form, such as <|im_start|>");
}

/// What the command line says.
struct settings {
  std::string folder;
  data::tokenizer tokens;
  form marks;
  models::write_options how;
  std::vector<std::string> stops;
  std::string prompt;
};

settings settings_of(const arguments& given) {
  const std::string folder = given("model", "");
  if (folder.empty())
    throw std::runtime_error("--model FOLDER is missing: config.json, model.safetensors and tokenizer.json");
  settings s{folder, data::tokenizer(folder + "/tokenizer.json"), {}, {}, {}, given("prompt", "")};
  s.marks = form_of(s.tokens, given("form", s.prompt.empty() ? "auto" : "none"));
  s.how.most = static_cast<std::int64_t>(given("most", 256.0));
  s.how.random = make_key(static_cast<std::int64_t>(given("seed", 1.0)));
  s.how.choose = {.temperature = given.has("temperature") ? given("temperature", 1.0) : 0.0,
                  .top_k = static_cast<std::int64_t>(given.has("top-k") ? given("top-k", 1.0) : 0.0),
                  .top_p = given("top-p", 1.0)};
  for (const char* end : {"</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", s.marks.stop})
    if (const auto id = s.tokens.find(end)) s.how.ends.push_back(*id);
  if (given.has("stop")) s.stops.push_back(given("stop", ""));
  return s;
}

models::load_options load_of(const arguments& given) {
  const std::string kind = given("weights", "float");
  if (kind == "int4") return {.weights = models::weights::int4};
  if (kind == "int8") return {.weights = models::weights::int8};
  if (kind != "float") throw std::runtime_error("--weights is float, int8 or int4");
  return {};
}

/// Writes the answer to a message, as its text becomes certain. Returns the number of its tokens.
template <class Model>
std::size_t answer(models::writer<Model>& w, settings& s, const std::string& message) {
  const bool begins = w.places() == 0;
  std::vector<std::int64_t> ids = s.tokens.encode(s.marks.before, {.frame = begins});
  // A message is text, whatever tokens it spells.
  for (const auto id : s.tokens.encode(message, {.frame = false, .special = false})) ids.push_back(id);
  for (const auto id : s.tokens.encode(s.marks.behind, {.frame = false})) ids.push_back(id);
  if (ids.empty()) throw std::runtime_error("the message has no tokens");
  data::token_stream text(s.tokens, s.stops);
  models::write_options how = s.how;
  how.see = [&](std::size_t, std::int64_t id) {
    std::cout << text.push(id) << std::flush;
    return !text.stopped();
  };
  const std::size_t count = w.write_on(ids, how).size();
  std::cout << (text.stopped() ? "" : text.end()) << std::endl;
  s.how.random = fold_in(s.how.random, 0x7fffffff);
  return count;
}

template <class Model>
int talk(Model m, settings s) {
  models::writer<Model> w(std::move(m));
  const auto timed = [&](const std::string& message) {
    const stopwatch time;
    const std::size_t count = answer(w, s, message);
    std::fprintf(stderr, "[%zu tokens, %.1f a second]\n", count, static_cast<double>(count) / time.seconds());
  };
  if (!s.prompt.empty()) return timed(s.prompt), 0;
  for (std::string line; std::cerr << "> " && std::getline(std::cin, line);)
    if (!line.empty()) timed(line);
  return 0;
}

int chat(const arguments& given) {
  const settings s = settings_of(given);
  std::ifstream config(s.folder + "/config.json");
  const std::string text((std::istreambuf_iterator<char>(config)), {});
  if (text.find("\"gpt2\"") != text.npos) return talk(models::gpt2::load<float, map_of>(s.folder, load_of(given)), s);
  return talk(models::llama::load<float, map_of>(s.folder, load_of(given)), s);
}

int main(int argc, char** argv) {
  return run_program(argc, argv,
                     "[--model FOLDER] [--prompt TEXT] [--weights float|int8|int4] [--temperature T] [--top-k N] "
                     "[--top-p P] [--most N] "
                     "[--seed N] [--stop TEXT] [--form NAME]",
                     chat);
}
