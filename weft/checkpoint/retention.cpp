#include "weft/checkpoint/retention.h"

#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/write_files.h"
#include "weft/files/folder_lock.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <set>

namespace weft {

namespace {

namespace fs = std::filesystem;

// What a manifest is called while the files that it names are removed.
constexpr const char* kRemovedManifest = "checkpoint.json.removed";

/// A name without the number at its end.
std::string stem_of(const std::string& name) {
  const auto last = name.find_last_not_of("0123456789");
  return name.substr(0, last == std::string::npos ? 0 : last + 1);
}

/// The folder as one whose name is that of the checkpoint.
fs::path resolved(const std::string& folder) {
  auto path = fs::weakly_canonical(fs::absolute(folder));
  return path.has_filename() ? path : path.parent_path();
}

void remove_files(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_checkpoint_file(entry.path().filename().string())) {
      fs::remove(entry.path(), ignored);
    }
  }
  fs::remove(folder / kRemovedManifest, ignored);
  fs::remove(folder, ignored); // stays if the user has put something else there
}

void remove_checkpoint(const fs::path& folder) {
  std::optional<FolderLock> lock;
  try {
    lock.emplace(folder.string(), "save");
  } catch (const c10::ValueError&) {
    return; // another program saves into it
  }
  std::error_code error;
  fs::rename(folder / kManifestFile, folder / kRemovedManifest, error);
  if (!error) {
    remove_files(folder);
  }
}

/// When a checkpoint was saved; none for a folder that is no complete checkpoint.
std::optional<int64_t> saved_at(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_regular_file(folder / kManifestFile, ignored)) {
    return std::nullopt;
  }
  try {
    return load_manifest(folder.string(), "save").saved;
  } catch (const c10::Error&) {
    return std::nullopt; // damaged: not this function's to remove
  }
}

} // namespace

bool is_checkpoint_file(const std::string& name) {
  static const std::regex of_rank("[0-9a-f]{16}_rank[0-9]+_[0-9]+\\.safetensors(\\.part)?");
  return std::regex_match(name, of_rank) || name == std::string(kManifestFile) + ".part" || name == kRemovedManifest;
}

void remove_unnamed_files(const StoredTensors& stored) {
  std::set<std::string> named;
  for (const auto& file : stored.files) {
    named.insert(file.name);
  }
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(stored.folder, ignored)) {
    const auto name = entry.path().filename().string();
    if (is_checkpoint_file(name) && !named.contains(name)) {
      fs::remove(entry.path(), ignored);
    }
  }
}

void check_is_numbered(const std::string& folder) {
  const auto name = resolved(folder).filename().string();
  TORCH_CHECK_VALUE(
      stem_of(name).size() < name.size(),
      "[save] with keep_last the folder's name must end with a number, as step_100 does, but got ", name, ".");
}

void remove_older_checkpoints(const std::string& folder, int64_t keep_last) {
  if (keep_last == 0) {
    return;
  }
  const auto own = resolved(folder);
  const auto stem = stem_of(own.filename().string());
  // Checkpoints that are newer, perhaps by the clock of another host, are not older ones: they neither go nor count.
  const auto own_saved = saved_at(own).value_or(0);
  std::vector<std::pair<int64_t, fs::path>> others;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(own.parent_path(), ignored)) {
    const auto name = entry.path().filename().string();
    // A symbolic link may lead to a checkpoint that is kept elsewhere.
    const bool is_own_folder = !entry.is_symlink(ignored) && entry.is_directory(ignored);
    if (!is_own_folder || entry.path() == own || stem_of(name) != stem || name == stem) {
      continue;
    }
    if (fs::exists(entry.path() / kRemovedManifest, ignored) && !fs::exists(entry.path() / kManifestFile, ignored)) {
      remove_files(entry.path());
    } else if (const auto saved = saved_at(entry.path()); saved && *saved <= own_saved) {
      others.emplace_back(*saved, entry.path());
    }
  }
  std::sort(others.begin(), others.end());
  const auto kept = static_cast<size_t>(keep_last) - 1;
  for (size_t i = 0; i + kept < others.size(); ++i) {
    remove_checkpoint(others[i].second);
  }
}

std::optional<std::string> latest_checkpoint(const std::string& folder) {
  std::optional<std::pair<int64_t, std::string>> latest;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (const auto saved = saved_at(entry.path())) {
      const std::pair candidate(*saved, entry.path().string());
      latest = latest ? std::max(*latest, candidate) : candidate;
    }
  }
  return latest ? std::optional(latest->second) : std::nullopt;
}

void write_text_file(const std::string& path, const std::string& text) {
  const auto temporary = path + ".part";
  const auto file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool is_written = file >= 0;
  for (size_t at = 0; is_written && at < text.size();) {
    const auto written = ::write(file, text.data() + at, text.size() - at);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    is_written = written > 0;
    at += is_written ? static_cast<size_t>(written) : 0;
  }
  is_written = is_written && ::fsync(file) == 0 && ::rename(temporary.c_str(), path.c_str()) == 0;
  const auto reason = errno;
  if (file >= 0) {
    ::close(file);
  }
  if (!is_written) {
    ::unlink(temporary.c_str());
  }
  TORCH_CHECK_VALUE(is_written, "[save] ", path, ": cannot be written: ", std::strerror(reason), ".");
  sync_folder(std::filesystem::path(path).parent_path().string());
}

} // namespace weft
