#include "weft/checkpoint/write_files.h"

#include "weft/files/crc32c.h"
#include "weft/files/safetensors_header.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <numeric>
#include <thread>

namespace weft {

namespace {

constexpr uint64_t kWriteStep = 512 << 10; // stay in the cache between the checksum and writing
constexpr uint64_t kWritePiece = 8 << 20;  // of one work item

/// What the bytes of a tensor are in the file: dtype and shape.
SafetensorsEntry entry_of(const WriteSource& source) {
  const auto& tensor = source.tensor;
  SafetensorsEntry entry{source.name, tensor.scalar_type(), tensor.sizes().vec(), 0, 0};
  if (c10::isComplexType(entry.dtype) && !has_safetensors_dtype(entry.dtype)) {
    entry.dtype = c10::toRealValueType(entry.dtype);
    entry.sizes.push_back(2);
  }
  TORCH_CHECK_TYPE(
      has_safetensors_dtype(entry.dtype), "[save] tensor '", source.name,
      "' must be of a dtype that safetensors files have, but got ", entry.dtype, ". Convert it.");
  entry.bytes = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
  return entry;
}

/// A file under a temporary name.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    file_ = ::open(temporary().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    check(file_ >= 0, "cannot be created");
  }
  ~PartFile() {
    if (file_ >= 0) {
      ::close(file_);
      ::unlink(temporary().c_str());
    }
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  void write(uint64_t at, const char* data, uint64_t bytes) const {
    while (bytes > 0) {
      const auto written = ::pwrite(file_, data, bytes, static_cast<off_t>(at));
      if (written < 0 && errno == EINTR) {
        continue;
      }
      check(written > 0, "cannot be written");
      at += static_cast<uint64_t>(written);
      data += written;
      bytes -= static_cast<uint64_t>(written);
    }
  }

  void complete() {
    check(::fsync(file_) == 0, "cannot be written");
    check(::close(std::exchange(file_, -1)) == 0, "cannot be written");
    const bool is_renamed = ::rename(temporary().c_str(), path_.c_str()) == 0;
    if (!is_renamed) {
      ::unlink(temporary().c_str());
    }
    check(is_renamed, "cannot be renamed");
  }

 private:
  std::string temporary() const {
    return path_ + ".part";
  }
  void check(bool condition, const char* what) const {
    TORCH_CHECK_VALUE(condition, "[save] ", path_, ": ", what, ": ", std::strerror(errno), ".");
  }

  std::string path_;
  int file_ = -1;
};

/// Consecutive bytes of a tensor in memory.
struct MemoryPiece {
  size_t tensor;
  const char* data;
  uint64_t at; // in the file
  uint64_t bytes;
  uint32_t checksum = 0;
};

class FilesWriter {
 public:
  FilesWriter(c10::ArrayRef<WriteSource> sources, const WriteSettings& settings)
      : sources_(sources), settings_(settings) {
    result_.tensors.resize(sources.size());
  }

  WrittenFiles run() {
    std::vector<SafetensorsEntry> entries;
    for (const auto& source : sources_) {
      entries.push_back(entry_of(source));
    }
    // Larger elements first, so that all tensors are aligned.
    std::vector<size_t> order(sources_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return c10::elementSize(entries[a].dtype) > c10::elementSize(entries[b].dtype);
    });
    try {
      std::vector<size_t> members;
      uint64_t bytes = 0;
      for (const auto t : order) {
        if (!members.empty() && bytes + entries[t].bytes > settings_.max_file_bytes) {
          write_file(members, entries);
          members.clear();
          bytes = 0;
        }
        members.push_back(t);
        bytes += entries[t].bytes;
      }
      if (!members.empty()) {
        write_file(members, entries);
      }
    } catch (...) {
      for (const auto& file : result_.files) {
        ::unlink((settings_.folder + "/" + file.name).c_str());
      }
      throw;
    }
    return std::move(result_);
  }

 private:
  void write_file(const std::vector<size_t>& members, const std::vector<SafetensorsEntry>& all) {
    std::vector<SafetensorsEntry> entries;
    for (const auto t : members) {
      entries.push_back(all[t]);
    }
    const auto start = make_safetensors_header(entries, {{"format", "pt"}}, "save");
    const auto name = c10::str(
        settings_.prefix, "_", settings_.first_number + static_cast<int64_t>(result_.files.size()), ".safetensors");
    PartFile file(settings_.folder + "/" + name);
    file.write(0, start.data(), start.size());
    for (size_t i = 0; i < members.size(); ++i) {
      result_.tensors[members[i]] = {result_.files.size(), entries[i].begin, 0};
    }
    // A tensor that has to be copied first is in memory twice, one at a time; all others are written by several threads at once.
    std::vector<MemoryPiece> pieces;
    for (const auto t : members) {
      const auto& tensor = sources_[t].tensor;
      if (tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) {
        add_pieces(t, tensor, pieces);
      }
    }
    write_pieces(file, pieces);
    for (const auto t : members) {
      const auto& tensor = sources_[t].tensor;
      if (!(tensor.device().is_cpu() && tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg())) {
        const auto copy = tensor.resolve_conj().resolve_neg().cpu().contiguous();
        std::vector<MemoryPiece> of_copy;
        add_pieces(t, copy, of_copy);
        write_pieces(file, of_copy);
      }
    }
    file.complete();
    const auto& last = entries.back();
    result_.files.push_back({name, last.begin + last.bytes});
  }

  void add_pieces(size_t t, const at::Tensor& tensor, std::vector<MemoryPiece>& pieces) const {
    const auto* data = static_cast<const char*>(tensor.const_data_ptr());
    const auto bytes = static_cast<uint64_t>(tensor.numel()) * tensor.element_size();
    for (uint64_t from = 0; from < bytes; from += kWritePiece) {
      pieces.push_back({t, data + from, result_.tensors[t].begin + from, std::min(kWritePiece, bytes - from)});
    }
  }

  void write_pieces(const PartFile& file, std::vector<MemoryPiece>& pieces) {
    std::atomic<size_t> next = 0;
    std::atomic<bool> has_failed = false;
    std::exception_ptr error;
    std::mutex mutex;
    const auto work = [&] {
      try {
        for (auto i = next++; i < pieces.size() && !has_failed; i = next++) {
          auto& piece = pieces[i];
          for (uint64_t from = 0; from < piece.bytes; from += kWriteStep) {
            const auto bytes = std::min(kWriteStep, piece.bytes - from);
            piece.checksum = crc32c({piece.data + from, bytes}, piece.checksum);
            file.write(piece.at + from, piece.data + from, bytes);
          }
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        error = error ? error : std::current_exception();
        has_failed = true;
      }
    };
    auto count = settings_.threads > 0 ? static_cast<size_t>(settings_.threads)
                                       : std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 2);
    std::vector<std::thread> threads;
    for (size_t i = 1; i < std::min(count, pieces.size()); ++i) {
      threads.emplace_back(work);
    }
    work();
    for (auto& thread : threads) {
      thread.join();
    }
    if (error) {
      std::rethrow_exception(error);
    }
    for (const auto& piece : pieces) {
      auto& checksum = result_.tensors[piece.tensor].checksum;
      checksum = joined_crc32c(checksum, piece.checksum, piece.bytes);
    }
  }

  c10::ArrayRef<WriteSource> sources_;
  const WriteSettings& settings_;
  WrittenFiles result_;
};

} // namespace

WrittenFiles write_tensors(c10::ArrayRef<WriteSource> sources, const WriteSettings& settings) {
  return FilesWriter(sources, settings).run();
}

void sync_folder(const std::string& folder) {
  const auto descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) {
    ::fsync(descriptor);
    ::close(descriptor);
  }
}

} // namespace weft
