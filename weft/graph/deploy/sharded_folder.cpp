#include "weft/graph/deploy/sharded_folder.h"

#include "weft/graph/deploy/shard.h"
#include "weft/graph/localize/global_values.h"
#include "weft/graph/pt2/mapped_file.h"
#include "weft/graph/pt2/new_file.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

#include <ATen/ATen.h>
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

/// A temporary folder in the same parent folder, which replaces the target when it is complete.
class NewFolder {
 public:
  explicit NewFolder(fs::path target) : target_(std::move(target)), temporary_(next_to("part")) {
    std::error_code error;
    fs::create_directory(temporary_, error);
    TORCH_CHECK_VALUE(!error, "[write_sharded] ", target_.string(), ": cannot be created: ", error.message(), ".");
  }
  ~NewFolder() {
    std::error_code ignored;
    fs::remove_all(temporary_, ignored);
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const {
    return temporary_;
  }

  void complete() {
    if (!fs::exists(target_) || fs::is_empty(target_)) {
      fs::rename(temporary_, target_);
      return;
    }
    const auto former = next_to("old");
    fs::rename(target_, former);
    std::error_code error;
    fs::rename(temporary_, target_, error);
    if (error) {
      fs::rename(former, target_);
      TORCH_CHECK_VALUE(false, "[write_sharded] ", target_.string(), ": cannot be replaced: ", error.message(), ".");
    }
    fs::remove_all(former);
  }

 private:
  fs::path next_to(const char* suffix) const {
    return target_.string() + "." + std::to_string(::getpid()) + "." + suffix;
  }

  fs::path target_;
  fs::path temporary_;
};

/// Local tensors of weights that are not views are computed one by one.
at::Tensor make_local(const Program& program, const std::string& name, const MeshPlace& place) {
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User && input.target == name) {
      const auto& global = program.tensors.at(name);
      auto local = local_value(global, *input.value->layout, place).contiguous();
      release_pages(global);
      return local;
    }
  }
  TORCH_INTERNAL_ASSERT(false, "no input for ", name);
}

void write_rank(
    const Program& program,
    int64_t rank,
    const std::string& path,
    const OnProgress& on_progress,
    const PassOptions& passes) {
  const auto local = program_of_rank(program, rank, {.group_names = {}, .defers_copies = true}, passes);
  const auto place = place_in(*program.mesh, rank);
  int64_t total = 0;
  for (const auto& [name, tensor] : local.tensors) {
    total += static_cast<int64_t>(tensor.nbytes());
  }
  write_pt2(
      local, path,
      {.make_tensor = [&](const std::string& name) { return make_local(program, name, place); },
       .on_progress =
           [&](int64_t bytes) {
             if (on_progress) {
               on_progress(
                   std::min(1.0, static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(total, 1))));
             }
           }});
}

} // namespace

void write_sharded(
    const Program& program,
    const std::string& folder,
    const OnProgress& on_progress,
    const PassOptions& passes) {
  TORCH_CHECK_VALUE(program.mesh, "[write_sharded] a program that tensor_parallel made parallel is required.");
  auto target = fs::weakly_canonical(fs::absolute(folder));
  if (!target.has_filename()) {
    target = target.parent_path();
  }
  check_replaceable(target);
  NewFolder created(target);
  auto manifest = manifest_of(program);
  const auto ranks = program.mesh->ranks();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto name = "rank_" + std::to_string(ranks[i]) + ".pt2";
    const auto path = created.path() / name;
    const auto on_rank_progress = [&](double done) {
      if (on_progress) {
        on_progress((static_cast<double>(i) + done) / static_cast<double>(ranks.size()));
      }
    };
    write_rank(program, ranks[i], path, on_rank_progress, passes);
    const Archive written(MappedFile::open(path, "write_sharded"));
    manifest.rank_files.push_back({name, written.file()->bytes().size(), written.digest()});
  }
  NewFile file("write_sharded", created.path() / Manifest::kFile);
  const auto text = manifest.to_json();
  file.write(text.data(), text.size());
  file.complete();
  created.complete();
}

Program read_rank(const std::string& folder, const Manifest& manifest, int64_t rank) {
  const auto& [name, bytes, digest] = manifest.rank_files.at(rank);
  const auto path = folder + "/" + name;
  const Archive archive(MappedFile::open(path));
  TORCH_CHECK_VALUE(
      archive.file()->bytes().size() == bytes && archive.digest() == digest, "[read_rank] ", path,
      ": the program of the rank at place ", rank, " that ", Manifest::kFile,
      " names is required, but the file is another one. Write the folder again with `weft shard`.");
  auto program = read_pt2(archive);
  program.mesh = manifest.mesh;
  return program;
}

} // namespace weft::graph
