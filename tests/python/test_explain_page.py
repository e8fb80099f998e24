"""The page that `weft explain --html` writes, as a browser shows it."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import torch

sys.path.insert(0, os.path.dirname(__file__))
from exported_models import MODELS
from exported_models.exporting import VARIANTS, export
from exported_models.sharding import command

PLAN = next(plan for plan in MODELS["llama"].plans if plan.name == "plain").entries


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("a browser is required to look at the page: apt-get install -y --no-install-recommends chromium")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    torch.export.save(export(MODELS["llama"], VARIANTS["exported"]), folder / "model.pt2")
    (folder / "plan.json").write_text(json.dumps(PLAN))
    arguments = ("explain", folder / "model.pt2", "--mesh", "tp=4", "--plan", folder / "plan.json")
    done = command(*arguments, "--html", folder / "page.html", "--json")
    assert done.returncode == 0, done.stderr
    return folder / "page.html", json.loads(done.stdout)


def shown(path, fragment=""):
    """The page's elements once its scripts have run."""
    arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--dump-dom"]
    # Without a network it has to be all there.
    arguments += ["--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={path.parent / 'browser'}"]
    done = subprocess.run([browser(), *arguments, f"{path.as_uri()}{fragment}"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return re.sub(r"<script.*?</script>", "", done.stdout, flags=re.DOTALL)


def rows(dom):
    return re.findall(r'<div class="row[^"]*" data-name="([^"]*)"', dom)


def test_the_page_is_one_file_that_needs_nothing_else(page):
    text = page[0].read_text()
    assert not re.search(r"""(src|href)\s*=|@import|url\(|https?://""", text)


def test_the_page_shows_the_totals_and_the_modules_collapsed(page):
    path, explained = page
    dom = shown(path)
    assert "mesh(tp=4)" in dom and "5 all_reduce" in dom and "1 all_gather" in dom
    assert f'{len(explained["nodes"])} of {len(explained["nodes"])} nodes' in dom
    sections = re.findall(r'<details data-path="([^"]*)"( open="")?', dom)
    assert [path for path, is_open in sections if is_open] == [""]
    assert {"layers.0", "layers.1", "output"} <= {path for path, _ in sections}


def test_a_search_shows_what_it_finds_with_its_layouts_and_bytes(page):
    path, explained = page
    dom = shown(path, "#search=all_reduce%20layers.1%20P(sum)")
    expected = [
        node["name"]
        for node in explained["nodes"]
        if node["target"] == "all_reduce" and node["module"].startswith("layers.1")
    ]
    assert rows(dom) == expected and len(expected) == 2
    assert f'2 of {len(explained["nodes"])} nodes' in dom
    assert dom.count('class="row moves"') == 2 and dom.count('<span class="bytes">') >= 2
    assert '<span class="chip partial">P(sum)</span>' in dom and '<span class="chip">R</span>' in dom


def test_redistributions_alone_and_a_node_by_its_name(page):
    path, explained = page
    moved = [node["name"] for node in explained["nodes"] if node.get("communicates")]
    assert rows(shown(path, "#moves")) == moved
    dom = shown(path, f"#node={moved[2]}")
    assert re.findall(r'<div class="row[^"]* marked" data-name="([^"]*)"', dom) == [moved[2]]


def test_what_is_not_there_is_not_shown(page):
    dom = shown(page[0], "#search=no%20such%20thing")
    assert rows(dom) == [] and f'0 of {len(page[1]["nodes"])} nodes' in dom
