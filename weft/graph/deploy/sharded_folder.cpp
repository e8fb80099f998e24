#include "weft/graph/deploy/sharded_folder.h"

#include "weft/graph/deploy/new_folder.h"
#include "weft/graph/deploy/shard.h"
#include "weft/graph/localize/global_values.h"
#include "weft/graph/pt2/mapped_file.h"
#include "weft/graph/pt2/read_pt2.h"
#include "weft/graph/pt2/write_pt2.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace {

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
  NewFolder created(folder);
  auto manifest = manifest_of(program);
  const auto ranks = program.mesh->ranks();
  for (size_t i = 0; i < ranks.size(); ++i) {
    const auto name = rank_file_name(ranks[i]);
    const auto path = created.path() + "/" + name;
    const auto on_rank_progress = [&](double done) {
      if (on_progress) {
        on_progress((static_cast<double>(i) + done) / static_cast<double>(ranks.size()));
      }
    };
    write_rank(program, ranks[i], path, on_rank_progress, passes);
    manifest.rank_files.push_back(describe_rank_file(created.path(), name));
  }
  created.complete(manifest);
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
