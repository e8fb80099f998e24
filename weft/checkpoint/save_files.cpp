#include "weft/checkpoint/save_files.h"

#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/retention.h"
#include "weft/checkpoint/write_files.h"
#include "weft/checkpoint/write_plan.h"
#include "weft/core/dtype_text.h"
#include "weft/files/crc32c.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include <unistd.h>

namespace weft {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Raises the first error of any rank, on all of them.
void check_errors(const std::vector<Json>& answers) {
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].contains("error")) {
      const auto text = answers[rank].at("error").get<std::string>();
      TORCH_CHECK_VALUE(false, text, answers.size() > 1 ? c10::str(" (on rank ", rank, ")") : "");
    }
  }
}

std::vector<Json> parsed(const std::vector<std::string>& texts) {
  std::vector<Json> result;
  for (const auto& text : texts) {
    result.push_back(Json::parse(text));
  }
  return result;
}

/// Runs `fn`, whose error becomes part of this rank's answer, so that the other ranks hear of it.
template <class Fn>
void or_error(Json& answer, const Fn& fn) {
  try {
    fn();
  } catch (const c10::Error& error) {
    answer["error"] = error.what_without_backtrace();
  } catch (const std::exception& error) {
    answer["error"] = std::string("[save] ") + error.what();
  }
}

std::string new_id() {
  std::random_device random;
  return crc32c_text(random()) + crc32c_text(random());
}

/// What a rank has, as text that is equal on ranks that have the same.
Json description_of(const LocalState& state) {
  Json tensors = Json::object();
  for (const auto& [name, tensor] : state.tensors) {
    if (tensor.spec) {
      tensors[name] = tensor.spec->to_string();
      TORCH_CHECK_VALUE(
          !tensor.spec->layout().has_partial(), "[save] ranks must hold values and not terms of them, but got '", name,
          "', ", *tensor.spec, ". Redistribute it first.");
    } else {
      tensors[name] = {{"dtype", dtype_text(tensor.local.scalar_type())}, {"shape", tensor.local.sizes().vec()}};
    }
  }
  Json values = Json::object();
  for (const auto& [name, text] : state.values) {
    values[name] = Json::parse(text);
  }
  return {{"tensors", std::move(tensors)}, {"values", std::move(values)}};
}

/// What all ranks have together.
struct Everything {
  std::vector<SavedTensor> tensors; // by name
  std::map<std::string, std::string> values;
};

Everything merged(const std::vector<Json>& descriptions, const std::vector<int64_t>& ranks) {
  Everything all;
  std::map<std::string, std::pair<Json, size_t>> seen; // the description and its rank
  std::map<std::string, SavedTensor> tensors;
  for (size_t i = 0; i < descriptions.size(); ++i) {
    for (const auto& [name, json] : descriptions[i].at("tensors").items()) {
      const auto [found, is_new] = seen.try_emplace(name, json, i);
      TORCH_CHECK_VALUE(
          found->second.first == json, "[save] '", name, "' must be the same on all ranks that have it, but rank ",
          ranks[found->second.second], " has ", found->second.first.dump(), " and rank ", ranks[i], " has ",
          json.dump(), ". Save different tensors under different names.");
      auto& tensor = tensors[name];
      if (is_new) {
        tensor.name = name;
        if (json.is_string()) {
          tensor.spec = TensorSpec::parse(json.get<std::string>());
          tensor.dtype = tensor.spec->dtype();
          tensor.sizes = c10::DimVector(tensor.spec->sizes());
        } else {
          tensor.dtype = parse_dtype(json.at("dtype").get<std::string>());
          tensor.sizes = c10::DimVector(c10::IntArrayRef(json.at("shape").get<std::vector<int64_t>>()));
        }
      }
      tensor.holders.push_back(ranks[i]);
    }
    for (const auto& [name, json] : descriptions[i].at("values").items()) {
      const auto [found, is_new] = all.values.try_emplace(name, json.dump());
      TORCH_CHECK_VALUE(
          is_new || found->second == json.dump(), "[save] the value '", name,
          "' must be the same on all ranks that have it, but it is ", found->second.substr(0, 80), " and, on rank ",
          ranks[i], ", ", json.dump().substr(0, 80), ". Save different values under different names.");
    }
  }
  for (auto& [name, tensor] : tensors) {
    TORCH_CHECK_VALUE(
        !all.values.contains(name), "[save] '", name, "' must be a tensor or a value on all ranks, but it is both.");
    all.tensors.push_back(std::move(tensor));
  }
  return all;
}

class Saver {
 public:
  Saver(const LocalState& state, std::string folder, const RankTexts& ranks, const SaveOptions& options)
      : state_(state), folder_(std::move(folder)), ranks_(ranks), options_(options) {}

  void run() {
    const auto all = agree();
    Json answer = Json::object();
    WrittenFiles written;
    or_error(answer, [&] { answer = write(all, written); });
    const auto answers = ranks_.gather(answer.dump());
    Json outcome = Json::object();
    if (ranks_.rank() == 0) {
      or_error(outcome, [&] { commit(all, parsed(answers)); });
    }
    outcome = Json::parse(ranks_.broadcast(outcome.dump()));
    if (outcome.contains("error")) {
      for (const auto& file : written.files) {
        ::unlink((folder_ + "/" + file.name).c_str());
      }
      TORCH_CHECK_VALUE(false, outcome.at("error").get<std::string>());
    }
  }

 private:
  /// What all ranks have, from the texts of those that differ; makes the folder.
  Everything agree() {
    Json hello = Json::object();
    Json own;
    or_error(hello, [&] {
      own = description_of(state_);
      const auto text = own.dump();
      hello["digest"] = c10::str(text.size(), " ", crc32c_text(crc32c(text)), " ", std::hash<std::string>()(text));
      if (ranks_.rank() == 0) {
        make_folder();
        hello["id"] = new_id();
      }
    });
    const auto hellos = parsed(ranks_.all_gather(hello.dump()));
    check_errors(hellos);
    id_ = hellos[0].at("id").get<std::string>();
    const bool are_equal = std::all_of(
        hellos.begin(), hellos.end(), [&](const Json& other) { return other.at("digest") == hellos[0].at("digest"); });
    // Ranks that have the same are described once.
    const auto descriptions = are_equal ? std::vector<Json>{own} : parsed(ranks_.all_gather(own.dump()));
    std::vector<int64_t> numbers(ranks_.size());
    for (int64_t i = 0; i < ranks_.size(); ++i) {
      numbers[i] = i;
    }
    auto all = merged(descriptions, numbers);
    for (auto& tensor : all.tensors) {
      tensor.holders = are_equal ? numbers : tensor.holders;
      check_mesh(tensor);
    }
    return all;
  }

  void check_mesh(const SavedTensor& tensor) const {
    for (const auto rank : tensor.spec ? tensor.spec->mesh().ranks() : c10::IntArrayRef()) {
      const bool has = std::find(tensor.holders.begin(), tensor.holders.end(), rank) != tensor.holders.end();
      TORCH_CHECK_VALUE(
          has, "[save] every rank of the mesh of '", tensor.name, "' must save it, but rank ", rank, " does not (",
          *tensor.spec, ").");
    }
  }

  void make_folder() const {
    std::error_code error;
    fs::create_directories(folder_, error);
    TORCH_CHECK_VALUE(
        fs::is_directory(folder_), "[save] ", folder_,
        ": a folder is required, but it cannot be made: ", error ? error.message() : "it is a file", ".");
    if (fs::exists(fs::path(folder_) / kManifestFile)) {
      return;
    }
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const auto name = entry.path().filename().string();
      TORCH_CHECK_VALUE(
          is_checkpoint_file(name), "[save] ", folder_, ": a new folder or a checkpoint is required, but it holds ",
          name, ". Name another.");
    }
  }

  /// Writes this rank's files and says what they hold.
  Json write(const Everything& all, WrittenFiles& written) {
    const auto parts = plan_writes(all.tensors, ranks_.rank(), ranks_.size());
    std::vector<WriteSource> sources;
    for (const auto& part : parts) {
      const auto& name = all.tensors[part.tensor].name;
      auto local = state_.tensors.at(name).local;
      local = part.dim < 0 ? local : local.narrow(part.dim, part.range.begin, part.range.length);
      sources.push_back({name, local});
    }
    written = write_tensors(
        sources,
        {.folder = folder_,
         .prefix = c10::str(id_, "_rank", ranks_.rank()),
         .max_file_bytes = options_.max_file_bytes});
    Json answer = {{"files", Json::array()}, {"parts", Json::array()}, {"plain", Json::object()}};
    for (const auto& file : written.files) {
      answer["files"].push_back({{"name", file.name}, {"bytes", file.bytes}});
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& place = written.tensors[i];
      Json index = Json::array();
      for (const auto& runs : parts[i].index) {
        Json ends = Json::array();
        for (const auto& run : runs) {
          ends.push_back({run.begin, run.length});
        }
        index.push_back(std::move(ends));
      }
      answer["parts"].push_back({parts[i].tensor, place.file, place.begin, place.checksum, std::move(index)});
    }
    for (const auto& [name, checksum] : plain_checksums(all)) {
      answer["plain"][name] = checksum;
    }
    return answer;
  }

  /// Plain tensors count as replicated, so they must be equal on all ranks that have them.
  std::map<std::string, uint32_t> plain_checksums(const Everything& all) const {
    std::map<std::string, uint32_t> checksums;
    for (const auto& tensor : all.tensors) {
      const auto own = state_.tensors.find(tensor.name);
      if (tensor.spec || tensor.holders.size() < 2 || own == state_.tensors.end()) {
        continue;
      }
      const auto values = own->second.local.resolve_conj().resolve_neg().cpu().contiguous();
      const auto bytes = static_cast<size_t>(values.numel()) * values.element_size();
      checksums[tensor.name] = crc32c({static_cast<const char*>(values.const_data_ptr()), bytes});
    }
    return checksums;
  }

  /// On rank 0, when all ranks have written their files.
  void commit(const Everything& all, const std::vector<Json>& answers) const {
    check_errors(answers);
    StoredTensors stored;
    stored.folder = folder_;
    stored.values = all.values;
    std::vector<StoredTensor> tensors;
    for (const auto& tensor : all.tensors) {
      tensors.push_back({tensor.dtype, tensor.sizes, {}});
    }
    std::map<std::string, std::pair<uint32_t, size_t>> plain;
    for (size_t rank = 0; rank < answers.size(); ++rank) {
      const auto first_file = stored.files.size();
      for (const auto& file : answers[rank].at("files")) {
        stored.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<uint64_t>()});
      }
      for (const auto& json : answers[rank].at("parts")) {
        StoredPart part{
            .file = first_file + json.at(1).get<size_t>(),
            .begin = json.at(2).get<uint64_t>(),
            .index = {},
            .strides = {},
            .checksum = json.at(3).get<uint32_t>()};
        for (const auto& ends : json.at(4)) {
          auto& runs = part.index.emplace_back();
          for (const auto& run : ends) {
            runs.push_back({run.at(0).get<int64_t>(), run.at(1).get<int64_t>()});
          }
        }
        tensors.at(json.at(0).get<size_t>()).parts.push_back(std::move(part));
      }
      for (const auto& [name, checksum] : answers[rank].at("plain").items()) {
        const auto [found, is_new] = plain.try_emplace(name, checksum.get<uint32_t>(), rank);
        TORCH_CHECK_VALUE(
            found->second.first == checksum.get<uint32_t>(), "[save] the plain tensor '", name,
            "' must have the same values on all ranks that have it, but those of ranks ", found->second.second, " and ",
            rank, " differ. Save it under a name of its own on each rank, or make it a distributed tensor.");
      }
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      stored.tensors.emplace(all.tensors[t].name, std::move(tensors[t]));
    }
    sync_folder(folder_);
    write_manifest(stored);
    try {
      remove_unnamed_files(stored);
      remove_older_checkpoints(folder_, options_.keep_last);
    } catch (const std::exception& error) {
      // The checkpoint is complete: an error now would make the ranks remove its files.
      TORCH_WARN("[save] ", folder_, ": older files could not be removed: ", error.what());
    }
  }

  void write_manifest(const StoredTensors& stored) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto text = manifest_text(stored, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    write_text_file(folder_ + "/" + kManifestFile, text);
  }

  const LocalState& state_;
  std::string folder_;
  const RankTexts& ranks_;
  const SaveOptions& options_;
  std::string id_;
};

} // namespace

void save_files(
    const LocalState& state,
    const std::string& folder,
    const RankTexts& ranks,
    const SaveOptions& options) {
  TORCH_CHECK_VALUE(!folder.empty(), "[save] the path of a folder is required, but got an empty one.");
  TORCH_CHECK_VALUE(
      options.keep_last >= 0, "[save] keep_last must be a number of checkpoints, but got ", options.keep_last, ".");
  if (options.keep_last > 0) {
    check_is_numbered(folder);
  }
  Saver(state, folder, ranks, options).run();
}

} // namespace weft
