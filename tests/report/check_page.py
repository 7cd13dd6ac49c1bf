#!/usr/bin/env python3
"""Checks what SINTER_TRACE wrote: check_page.py FOLDER SAME_AGAIN.

Pages are well-formed HTML that needs nothing else, their pictures are XML and the same in both folders, what people
named is text and not markup; trace.json is Chrome's format. Pages are shown in a headless Chromium where there is one.
"""
import glob
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

VOID = {"meta", "br"}
NAME = "<script>alert(1)</script>&\"'\ufffd \u00fc"


class page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.title, self.text = [], set(), [], set(), "", ""

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            assert not name.startswith("on"), f"an event handler: {name}={value}"
            assert name not in ("src", "srcset", "data", "action"), f"a resource: {name}={value}"
            if name == "id":
                assert value not in self.ids, f"id {value} twice"
                self.ids.add(value)
            if name == "href":
                self.links.append(value)
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if self.get_starttag_text().endswith("/>") and (not self.open or self.open[-1] != tag):
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "title" and "svg" not in self.open:
            self.title += data
        self.text += data


def pictures(text):
    return re.findall(r"<svg.*?</svg>", text, re.S)


def check_page(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    p = page()
    p.feed(text)
    p.close()
    assert not p.open, f"left open: {p.open}"
    assert {"svg", "table", "pre"} <= p.tags, p.tags
    assert not p.tags & {"script", "link", "img", "iframe", "object"}, p.tags
    assert all(link.startswith("#") and link[1:] in p.ids for link in p.links), p.links
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg\")", text), "something outside"
    drawn = [xml.etree.ElementTree.fromstring(svg) for svg in pictures(text)]
    for svg in drawn:
        width, height = float(svg.get("width")), float(svg.get("height"))
        for r in svg.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, w, h = (float(r.get(k)) for k in ("x", "y", "width", "height"))
            assert 0 <= x and 0 <= y and x + w <= width + 1 and y + h <= height + 1, "a box beyond its picture"
    graphs = [s for s in drawn if s.get("aria-label").startswith("the graph after")]
    assert graphs and graphs[0].get("aria-label") == "the graph after trace"
    for g in graphs:
        boxes = [[float(r.get(k)) for k in ("x", "y", "width")] for r in g.iter("{http://www.w3.org/2000/svg}rect")]
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                assert a[1] != b[1] or a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0], "boxes overlap"
    return p, graphs, [s for s in pictures(text) if "the graph after" in s]


def check_trace(path):
    with open(path, encoding="utf-8") as f:
        trace = json.load(f)
    events = trace["traceEvents"]
    assert trace["otherData"]["dropped"] == 0
    calls = [e for e in events if e["cat"] == "call"]
    kernels = [e for e in events if e["cat"] == "kernel"]
    assert len(calls) == 5 and len(kernels) >= 5, (len(calls), len(kernels))
    assert len({e["tid"] for e in calls}) == 2, "two threads called"
    told = [op for k in kernels for op in k["args"]["ops"]]
    assert all(k["args"]["ops"] for k in kernels), "a kernel without ops"
    for op in ("f32 tanh at ", "f32 dot at ", "f32 mul at "):
        assert any(t.startswith(op) and re.search(r"trace_page_test\.cpp:\d+$", t) for t in told), (op, told)
    assert not any("args" in c for c in calls)
    for e in events:
        assert e["ph"] == "X" and e["ts"] >= 0 and e["dur"] >= 0 and e["name"], e
    for k in kernels:
        assert any(c["tid"] == k["tid"] and c["ts"] <= k["ts"] + 0.002 and
                   k["ts"] + k["dur"] <= c["ts"] + c["dur"] + 0.002 for c in calls), "a kernel outside any call"


def check_in_browser(path):
    found = [b for b in ("chromium", "chromium-browser", "google-chrome") if shutil.which(b)]
    if not found:
        print("SKIPPED: no Chromium here; the page was parsed, but not shown")
        return
    with tempfile.TemporaryDirectory() as home:
        command = [found[0], "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   f"--user-data-dir={home}", "--window-size=1300,2000", "--virtual-time-budget=2000"]
        shown = subprocess.run([*command, "--dump-dom", "file://" + path], capture_output=True, text=True, timeout=100)
        assert shown.returncode == 0, shown.stderr[-2000:]
        with open(path, encoding="utf-8") as f:
            want = len(pictures(f.read()))
        assert len(pictures(shown.stdout)) == want and "<h2>Graphs</h2>" in shown.stdout, "the page is not whole"
        image = os.path.join(home, "page.png")
        subprocess.run([*command, f"--screenshot={image}", "file://" + path], capture_output=True, timeout=100, check=True)
        assert os.path.getsize(image) > 10000, "nothing is drawn"
    print(f"shown in {found[0]}")


def main():
    first, second = (sorted(glob.glob(os.path.join(folder, "*.html"))) for folder in sys.argv[1:3])
    assert len(first) == len(second) == 2, (first, second)
    for a, b in zip(first, second):
        assert re.fullmatch(r"sinter-\d+-\d{4}-[A-Za-z0-9_-]+\.html", os.path.basename(a)), a
        p, graphs, drawn = check_page(a)
        assert drawn == check_page(b)[2], "another picture of the same graph"
    # The first page is that of the function with the long name, and shows what its passes made.
    p, graphs, drawn = check_page(first[0])
    assert p.title == NAME, repr(p.title)
    assert len(graphs) >= 3, "trace, a rewrite that changed something, and the plan"
    assert "trace_page_test.cpp:" in p.text and "sinter_kernel" in p.text and "are not one" in p.text
    assert "scratch memory by kernel and offset" in open(first[0], encoding="utf-8").read()
    check_trace(os.path.join(sys.argv[1], "trace.json"))
    check_in_browser(os.path.abspath(first[0]))


if __name__ == "__main__":
    main()
