#include "weft/graph/deploy/new_folder.h"

#include "weft/graph/pt2/archive.h"
#include "weft/graph/pt2/mapped_file.h"
#include "weft/graph/pt2/new_file.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <filesystem>

namespace weft::graph {

namespace {

namespace fs = std::filesystem;

bool is_rank_file(const std::string& name) {
  return name.rfind("rank_", 0) == 0 && name.size() > 4 && name.substr(name.size() - 4) == ".pt2";
}

/// Checks that only files of an earlier write_sharded would be removed.
void check_replaceable(const fs::path& folder) {
  if (!fs::exists(folder)) {
    const auto parent = folder.parent_path();
    TORCH_CHECK_VALUE(
        fs::is_directory(parent), "[write_sharded] ", folder.string(), ": a folder to write into is required, but ",
        parent.string(), " is none. Make it first.");
    return;
  }
  TORCH_CHECK_VALUE(
      fs::is_directory(folder), "[write_sharded] ", folder.string(),
      ": a folder is required, but it is a file. Name another.");
  if (fs::is_empty(folder)) {
    return;
  }
  TORCH_CHECK_VALUE(
      fs::exists(folder / Manifest::kFile), "[write_sharded] ", folder.string(),
      ": a new folder is required, or one that was written before, but it is not empty and has no ", Manifest::kFile,
      ". Name another.");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    TORCH_CHECK_VALUE(
        name == Manifest::kFile || is_rank_file(name), "[write_sharded] ", folder.string(),
        ": it would be replaced, but also holds ", name, ". Move that away, or name another folder.");
  }
}

fs::path target_of(const std::string& folder) {
  auto target = fs::weakly_canonical(fs::absolute(folder));
  return target.has_filename() ? target : target.parent_path();
}

std::string next_to(const std::string& target, const char* suffix) {
  return target + "." + std::to_string(::getpid()) + "." + suffix;
}

} // namespace

NewFolder::NewFolder(const std::string& folder) : target_(target_of(folder)), temporary_(next_to(target_, "part")) {
  check_replaceable(target_);
  std::error_code error;
  fs::create_directory(temporary_, error);
  TORCH_CHECK_VALUE(!error, "[write_sharded] ", target_, ": cannot be created: ", error.message(), ".");
}

NewFolder::~NewFolder() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void NewFolder::complete(const Manifest& manifest) {
  NewFile file("write_sharded", temporary_ + "/" + Manifest::kFile);
  const auto text = manifest.to_json();
  file.write(text.data(), text.size());
  file.complete();
  if (!fs::exists(target_) || fs::is_empty(target_)) {
    fs::rename(temporary_, target_);
    return;
  }
  const auto former = next_to(target_, "old");
  fs::rename(target_, former);
  std::error_code error;
  fs::rename(temporary_, target_, error);
  if (error) {
    fs::rename(former, target_);
    TORCH_CHECK_VALUE(false, "[write_sharded] ", target_, ": cannot be replaced: ", error.message(), ".");
  }
  fs::remove_all(former);
}

std::string rank_file_name(int64_t rank) {
  return "rank_" + std::to_string(rank) + ".pt2";
}

Manifest::RankFile describe_rank_file(const std::string& folder, const std::string& name) {
  const Archive written(MappedFile::open(folder + "/" + name, "write_sharded"));
  return {name, written.file()->bytes().size(), written.digest()};
}

} // namespace weft::graph
