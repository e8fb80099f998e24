"""What a benchmark gives: rows of Weft's time next to a peer's, as text and as JSON lines."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    bench: str
    case: str
    weft: float
    peer: float
    peer_name: str
    unit: str = "us"

    @property
    def ratio(self):
        return self.weft / self.peer

    def to_json(self):
        return json.dumps(
            {
                "bench": self.bench,
                "case": self.case,
                "weft": round(self.weft, 4),
                "peer": round(self.peer, 4),
                "peer_name": self.peer_name,
                "unit": self.unit,
                "ratio": round(self.ratio, 4),
            }
        )


def number(value):
    """Three digits that matter: 0.512, 14.3, 1,510."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def aligned(lines):
    """Lines of cells under each other, the first of which is the header; all but the first column to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def text(line):
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        return "  ".join(cells).rstrip()

    return "\n".join([text(lines[0]), "-" * (sum(widths) + 2 * len(widths) - 2)] + [text(line) for line in lines[1:]])


def table(rows):
    """One line per case, each peer's time and the ratio to it in columns of their own."""
    peers = list(dict.fromkeys(row.peer_name for row in rows))
    header = ["case", f"weft ({rows[0].unit})"] + [cell for peer in peers for cell in (peer, "ratio")]
    lines = [header]
    for case in dict.fromkeys(row.case for row in rows):
        of_case = {row.peer_name: row for row in rows if row.case == case}
        line = [case, number(next(iter(of_case.values())).weft)]
        for peer in peers:
            row = of_case.get(peer)
            line += [number(row.peer), f"{number(row.ratio)}x"] if row else ["", ""]
        lines.append(line)
    return aligned(lines)


def limited_table(rows, limits):
    """The table, and what became of the limits on the ratios to peers, by the peer's name."""
    lines = [table(rows), ""]
    for row in rows:
        limit = limits.get(row.peer_name)
        if limit is not None:
            missed = "" if row.ratio <= limit else " is MISSED"
            lines.append(f"{row.case} over {row.peer_name}: {number(row.ratio)}, at most {limit}{missed}")
    return "\n".join(lines)
