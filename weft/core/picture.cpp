#include "weft/core/picture.h"

#include <map>
#include <set>
#include <sstream>

namespace weft {

namespace {

/// The ranges of a tensor dim between neighbouring edges; an edge is an index at which the set of holding ranks
/// changes.
std::vector<Run> bands(const std::set<int64_t>& edges) {
  std::vector<Run> result;
  for (auto edge = edges.begin(); edge != edges.end() && std::next(edge) != edges.end(); ++edge) {
    result.push_back({*edge, *std::next(edge) - *edge});
  }
  if (result.empty()) {
    result.push_back({0, 0});
  }
  return result;
}

bool holds(const Runs& runs, const Run& band) {
  for (const auto& run : runs) {
    if (band.begin >= run.begin && band.begin + band.length <= run.begin + run.length) {
      return true;
    }
  }
  return false;
}

std::string band_text(const Run& band) {
  if (band.length == 0) {
    return "empty";
  }
  const auto last = band.begin + band.length - 1;
  return band.length == 1 ? std::to_string(last) : std::to_string(band.begin) + ".." + std::to_string(last);
}

std::string centered(const std::string& text, size_t width) {
  const auto left = (width - text.size()) / 2;
  return std::string(left, ' ') + text + std::string(width - text.size() - left, ' ');
}

std::string right_aligned(const std::string& text, size_t width) {
  return std::string(width - text.size(), ' ') + text;
}

/// An SVG text element, centred at x or starting at x.
std::string svg_text(int64_t x, int64_t y, const std::string& text, bool centered_at_x) {
  std::ostringstream out;
  out << "<text x=\"" << x << "\" y=\"" << y << "\"" << (centered_at_x ? " text-anchor=\"middle\"" : "") << ">" << text
      << "</text>\n";
  return out.str();
}

class Picture {
 public:
  explicit Picture(const TensorSpec& spec) : spec_(spec), layout_(spec.layout()), shape_(spec.mesh().shape()) {
    choose_dims();
    rows_ = bands_along(0);
    columns_ = bands_along(1);
  }

  std::string draw() const {
    std::vector<std::vector<std::string>> cells;
    std::vector<size_t> widths;
    for (const auto& column : columns_) {
      widths.push_back(band_text(column).size() + 2);
    }
    size_t margin = 0;
    for (const auto& row : rows_) {
      margin = std::max(margin, band_text(row).size() + 2);
      auto& line = cells.emplace_back();
      for (size_t c = 0; c < columns_.size(); ++c) {
        line.push_back(holders(row, columns_[c]));
        widths[c] = std::max(widths[c], line.back().size() + 2);
      }
    }
    auto text = spec_.to_string() + "\n";
    if (drawn_[1] >= 0) {
      text += column_heads(margin + 2, widths) + "\n";
    }
    text += border(margin, widths, "┌", "┬", "┐");
    for (size_t r = 0; r < rows_.size(); ++r) {
      text += r == 0 ? "" : border(margin, widths, "├", "┼", "┤");
      text += right_aligned(drawn_[0] < 0 ? "" : band_text(rows_[r]), margin) + " │";
      for (size_t c = 0; c < columns_.size(); ++c) {
        text += centered(cells[r][c], widths[c]) + "│";
      }
      text += "\n";
    }
    return text + border(margin, widths, "└", "┴", "┘");
  }

  std::string draw_svg() const {
    constexpr int64_t kChar = 8, kRow = 32, kTop = 48,
                      kGap = 12; // pixels: width of a character, height of a row, header, gap
    size_t label = 0;
    size_t cell = 4;
    for (const auto& row : rows_) {
      label = std::max(label, drawn_[0] < 0 ? 0 : band_text(row).size());
      for (const auto& column : columns_) {
        cell = std::max({cell, holders(row, column).size(), band_text(column).size()});
      }
    }
    const auto left = static_cast<int64_t>(label) * kChar + 2 * kGap;
    const auto width = static_cast<int64_t>(cell) * kChar + kGap;
    std::map<std::string, size_t> colours;
    std::string body = svg_text(kGap, 18, spec_.to_string(), false);
    for (size_t c = 0; c < columns_.size() && drawn_[1] >= 0; ++c) {
      body += svg_text(left + static_cast<int64_t>(c) * width + width / 2, kTop - 8, band_text(columns_[c]), true);
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      const auto y = kTop + static_cast<int64_t>(r) * kRow;
      if (drawn_[0] >= 0) {
        body += svg_text(kGap, y + kRow / 2 + 4, band_text(rows_[r]), false);
      }
      for (size_t c = 0; c < columns_.size(); ++c) {
        const auto x = left + static_cast<int64_t>(c) * width;
        const auto ranks = holders(rows_[r], columns_[c]);
        // Hues that differ by the golden angle stay distinguishable, however many there are.
        const auto hue = colours.try_emplace(ranks, colours.size()).first->second * 137 % 360;
        body += "<rect x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\" width=\"" +
            std::to_string(width) + "\" height=\"" + std::to_string(kRow) + "\" fill=\"hsl(" + std::to_string(hue) +
            ",60%,85%)\" stroke=\"#444\"/>\n" + svg_text(x + width / 2, y + kRow / 2 + 4, ranks, true);
      }
    }
    const auto title = static_cast<int64_t>(spec_.to_string().size()) * kChar + 2 * kGap;
    const auto total = std::max(left + static_cast<int64_t>(columns_.size()) * width + kGap, title);
    const auto height = kTop + static_cast<int64_t>(rows_.size()) * kRow + kGap;
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(total) + "\" height=\"" +
        std::to_string(height) + "\" font-family=\"monospace\" font-size=\"13\">\n" + body + "</svg>\n";
  }

 private:
  void choose_dims() {
    std::vector<int64_t> dims;
    for (const bool want_sharded : {true, false}) {
      for (int64_t d = 0; d < spec_.dim() && dims.size() < 2; ++d) {
        if (layout_.shard_order(d).empty() != want_sharded) {
          dims.push_back(d);
        }
      }
    }
    std::sort(dims.begin(), dims.end());
    for (size_t i = 0; i < dims.size(); ++i) {
      drawn_[i] = dims[i];
    }
  }

  Runs runs(int64_t index, int64_t dim) const {
    return local_runs(spec_.sizes()[dim], dim, layout_, shape_, coordinate_at(index, shape_));
  }

  std::vector<Run> bands_along(size_t side) const {
    const auto dim = drawn_[side];
    if (dim < 0) {
      return {{0, 1}};
    }
    std::set<int64_t> edges = {0, spec_.sizes()[dim]};
    for (int64_t i = 0; i < spec_.mesh().size(); ++i) {
      for (const auto& run : runs(i, dim)) {
        edges.insert(run.begin);
        edges.insert(run.begin + run.length);
      }
    }
    return bands(edges);
  }

  std::string holders(const Run& row, const Run& column) const {
    // Terms of one value are on ranks that differ only along partial mesh dims.
    std::map<std::vector<int64_t>, std::string> replicas;
    for (int64_t i = 0; i < spec_.mesh().size(); ++i) {
      const bool in_row = drawn_[0] < 0 || holds(runs(i, drawn_[0]), row);
      const bool in_column = drawn_[1] < 0 || holds(runs(i, drawn_[1]), column);
      if (!in_row || !in_column) {
        continue;
      }
      auto where = coordinate_at(i, shape_);
      for (size_t m = 0; m < where.size(); ++m) {
        where[m] = layout_[static_cast<int64_t>(m)].is_partial() ? 0 : where[m];
      }
      auto& text = replicas[where];
      text += (text.empty() ? "" : "+") + std::to_string(spec_.mesh().ranks()[i]);
    }
    std::string text;
    for (const auto& [where, ranks] : replicas) {
      text += (text.empty() ? "" : " ") + ranks;
    }
    return text;
  }

  std::string column_heads(size_t margin, const std::vector<size_t>& widths) const {
    std::string text(margin, ' ');
    for (size_t c = 0; c < columns_.size(); ++c) {
      text += (c == 0 ? "" : " ") + centered(band_text(columns_[c]), widths[c]);
    }
    return text.substr(0, text.find_last_not_of(' ') + 1);
  }

  static std::string border(
      size_t margin,
      const std::vector<size_t>& widths,
      const char* left,
      const char* middle,
      const char* right) {
    std::string text = std::string(margin + 1, ' ') + left;
    for (size_t c = 0; c < widths.size(); ++c) {
      text += c == 0 ? "" : middle;
      for (size_t i = 0; i < widths[c]; ++i) {
        text += "─";
      }
    }
    return text + right + "\n";
  }

  const TensorSpec& spec_;
  const Layout& layout_;
  c10::IntArrayRef shape_;
  int64_t drawn_[2] = {-1, -1}; // the tensor dims drawn vertically and horizontally
  std::vector<Run> rows_;
  std::vector<Run> columns_;
};

} // namespace

std::string draw(const TensorSpec& spec) {
  return Picture(spec).draw();
}

std::string draw_svg(const TensorSpec& spec) {
  return Picture(spec).draw_svg();
}

} // namespace weft
