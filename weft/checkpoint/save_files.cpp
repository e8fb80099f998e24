#include "weft/checkpoint/save_files.h"

#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/retention.h"
#include "weft/checkpoint/saved_state.h"
#include "weft/checkpoint/still_working.h"
#include "weft/checkpoint/write_files.h"
#include "weft/core/checksum_text.h"
#include "weft/files/crc32c.h"
#include "weft/files/folder_lock.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>

#include <unistd.h>

namespace weft {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::vector<Json> parsed(const std::vector<std::string>& texts) {
  std::vector<Json> result;
  for (const auto& text : texts) {
    result.push_back(Json::parse(text));
  }
  return result;
}

/// Runs `fn`, whose error becomes part of this rank's answer, so that the other ranks hear of it.
void or_error(Json& answer, const std::function<void()>& fn) {
  if (const auto text = error_text_of("save", fn); !text.empty()) {
    answer["error"] = text;
  }
}

/// Raises the first error of any rank, on all of them.
void check_errors(const std::vector<Json>& answers) {
  std::vector<std::string> errors;
  for (const auto& answer : answers) {
    errors.push_back(answer.value("error", std::string()));
  }
  raise_first_error(errors);
}

std::string new_id() {
  std::random_device random;
  return checksum_text(random()) + checksum_text(random());
}

class Saver {
 public:
  Saver(const LocalState& state, std::string folder, const RankTexts& ranks, const SaveOptions& options)
      : state_(state), folder_(std::move(folder)), ranks_(ranks), options_(options) {}

  void run() {
    const auto all = agree();
    Json answer = Json::object();
    WrittenFiles written;
    StillWorking working(ranks_);
    or_error(answer, [&] { answer = write(all, written); });
    working.wait_for_all();
    const auto answers = ranks_.gather(answer.dump());
    Json outcome = Json::object();
    StillWorking committing(ranks_);
    if (ranks_.rank() == 0) {
      or_error(outcome, [&] { commit(all, parsed(answers)); });
    }
    committing.wait_for_all();
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
  SavedState agree() {
    Json hello = Json::object();
    std::string own;
    or_error(hello, [&] {
      check_options();
      own = description_of(state_);
      hello["digest"] = c10::str(own.size(), " ", checksum_text(crc32c(own)), " ", std::hash<std::string>()(own));
      if (ranks_.rank() == 0) {
        make_synced_folder(folder_);
        // Until the end: each save removes what its manifest does not name, also files that another one has written.
        lock_.emplace(folder_, "save");
        check_folder();
        hello["id"] = new_id();
      }
    });
    const auto hellos = parsed(ranks_.all_gather(hello.dump()));
    check_errors(hellos);
    id_ = hellos[0].at("id").get<std::string>();
    const bool are_equal = std::all_of(
        hellos.begin(), hellos.end(), [&](const Json& other) { return other.at("digest") == hellos[0].at("digest"); });
    // Ranks that have the same are described once.
    return merged_state(are_equal ? std::vector{own} : ranks_.all_gather(own), ranks_.size());
  }

  void check_options() const {
    TORCH_CHECK_VALUE(state_.error.empty(), state_.error);
    TORCH_CHECK_VALUE(!folder_.empty(), "[save] the path of a folder is required, but got an empty one.");
    TORCH_CHECK_VALUE(
        options_.keep_last >= 0, "[save] keep_last must be a number of checkpoints, but got ", options_.keep_last, ".");
    if (options_.keep_last > 0) {
      check_is_numbered(folder_);
    }
  }

  void check_folder() const {
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
  Json write(const SavedState& all, WrittenFiles& written) {
    const auto parts = plan_writes(all.tensors, ranks_.rank(), ranks_.size(), options_.max_file_bytes);
    std::vector<WriteSource> sources;
    for (const auto& part : parts) {
      const auto& name = all.tensors[part.tensor].name;
      auto local = state_.tensors.at(name).local;
      for (size_t d = 0; d < part.positions.size(); ++d) {
        local = local.narrow(static_cast<int64_t>(d), part.positions[d].begin, part.positions[d].length);
      }
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
      answer["parts"].push_back(
          {parts[i].tensor, place.file, place.begin, std::move(index), place.checksums->bytes,
           place.checksums->chunk_bytes, place.checksums->values});
    }
    for (const auto& [name, checksum] : plain_checksums(all)) {
      answer["plain"][name] = checksum;
    }
    return answer;
  }

  /// Plain tensors count as replicated, so they must be equal on all ranks that have them.
  std::map<std::string, uint32_t> plain_checksums(const SavedState& all) const {
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
  void commit(const SavedState& all, const std::vector<Json>& answers) const {
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
        check_is_visible(stored, static_cast<int64_t>(rank));
      }
      for (const auto& json : answers[rank].at("parts")) {
        StoredPart part{
            .file = first_file + json.at(1).get<size_t>(),
            .begin = json.at(2).get<uint64_t>(),
            .index = {},
            .strides = {},
            .checksums = {}};
        part.checksums = std::make_shared<const ChunkChecksums>(ChunkChecksums{
            .begin = part.begin,
            .bytes = json.at(4).get<uint64_t>(),
            .chunk_bytes = json.at(5).get<uint64_t>(),
            .values = json.at(6).get<std::vector<uint32_t>>()});
        for (const auto& ends : json.at(3)) {
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
      // The new checkpoint must outlive a failure of power before older ones go.
      sync_folder(fs::absolute(folder_).lexically_normal().parent_path().string());
      remove_older_checkpoints(folder_, options_.keep_last);
    } catch (const std::exception& error) {
      // The checkpoint is complete: an error now would make the ranks remove its files.
      TORCH_WARN("[save] ", folder_, ": older files could not be removed: ", error.what());
    }
  }

  /// The folder may be another one on another host.
  void check_is_visible(const StoredTensors& stored, int64_t rank) const {
    const auto path = stored.path_of(stored.files.size() - 1);
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    TORCH_CHECK_VALUE(
        !error && bytes == stored.files.back().bytes, "[save] ", path, ": the file of ", stored.files.back().bytes,
        " bytes that rank ", rank, " has written must be visible to rank 0, but ",
        error ? error.message() : c10::str("it has ", bytes, " bytes"), ". Save into a folder that all hosts share.");
  }

  void write_manifest(const StoredTensors& stored) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto text = manifest_text(stored, std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
    const auto path = folder_ + "/" + kManifestFile;
    // A manifest that cannot be read must not replace one that can.
    parse_manifest(text, folder_, path);
    write_text_file(path, text);
  }

  const LocalState& state_;
  std::string folder_;
  const RankTexts& ranks_;
  const SaveOptions& options_;
  std::string id_;
  std::optional<FolderLock> lock_ = {}; // on rank 0
};

} // namespace

void save_files(
    const LocalState& state,
    const std::string& folder,
    const RankTexts& ranks,
    const SaveOptions& options) {
  Saver(state, folder, ranks, options).run();
}

} // namespace weft
