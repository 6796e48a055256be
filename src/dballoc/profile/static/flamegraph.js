// Draws every flame graph of the page with d3-flame-graph: switch, search, zoom, keyboard, colours.
"use strict";
(() => {
  const CELL = 18; // pixels of a frame's height
  const NARROWEST = 1; // pixels; narrower frames are not drawn until one zooms in
  // Hue, saturation, lightness. They differ in lightness too; black text reads on all of them.
  const KINDS = {
    server: [40, 0.72, 0.7], malloc: [12, 0.78, 0.6], library: [205, 0.52, 0.72], kernel: [275, 0.38, 0.76],
    unnamed: [0, 0, 0.78], found: [312, 0.85, 0.7],
  };
  const GREW = "#e4672c", SHRANK = "#3f8fd6", SAME = "#d4d4d4";
  const STEPS = {
    bytes: [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]],
    seconds: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]],
  };

  function amount(number, unit) {
    const steps = STEPS[unit];
    if (!steps) return number.toLocaleString("en", { maximumFractionDigits: 0 });
    const [size, name] = steps.find(([size]) => Math.abs(number) >= size) ?? steps.at(-1);
    const scaled = number / size;
    const digits = Math.abs(scaled) >= 100 ? 0 : Math.abs(scaled) >= 10 ? 1 : 2;
    return `${scaled.toLocaleString("en", { maximumFractionDigits: digits })} ${name}`;
  }

  const signed = (number, unit) => (number < 0 ? "−" : "+") + amount(Math.abs(number), unit);
  const share = (part, whole) => (whole > 0 ? `${((100 * part) / whole).toFixed(part / whole < 0.0995 ? 2 : 1)} %` : "–");

  // A steady number in [-1, 1] for a name, so that neighbours of one kind can be told apart.
  function shade(name) {
    let hash = 2166136261;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
    return ((hash >>> 8) & 0xff) / 127.5 - 1;
  }

  function colourOfKind(kind, name = "") {
    const [hue, saturation, lightness] = KINDS[kind];
    return d3.hsl(hue + 4 * shade(name), saturation, lightness + (name ? 0.05 * shade(`${name}.`) : 0)).formatHex();
  }

  // change: from -1, it is gone, to 1, it is new.
  const colourOfChange = (change) =>
    d3.interpolateRgb(SAME, change < 0 ? SHRANK : GREW)(change === 0 ? 0 : 0.25 + 0.75 * Math.min(1, Math.abs(change)));

  function changeOf(node) {
    const grown = node.after - node.before;
    if (node.error !== null && Math.abs(grown) < 2 * node.error) return 0;
    return grown / Math.max(node.after, node.before, Number.MIN_VALUE);
  }

  // The nested objects that d3-flame-graph reads (n: label, v: width, c: children), from a list with levels.
  function nested(view, names) {
    const path = [];
    for (const [level, name, width, before = 0, after = 0, error = null] of view.nodes) {
      const [full, label, module, place, kind] = name < 0 ? ["all", "all", "", "", "unnamed"] : names[name];
      const node = { n: label, v: width, full, module, place, kind, before, after, error };
      path.length = level;
      if (level) (path[level - 1].c ??= []).push(node);
      path.push(node);
    }
    return path[0];
  }

  function start(element) {
    const data = JSON.parse(element.querySelector(".flame-data").textContent);
    const box = element.querySelector(".flame-chart");
    const details = element.querySelector(".flame-details");
    const search = element.querySelector(".flame-search");
    const found = element.querySelector(".flame-found");
    const turn = element.querySelector(".flame-turn");
    const whole = element.querySelector(".flame-whole");
    const note = element.querySelector(".flame-note");
    const buttons = [...element.querySelectorAll(".flame-switch button")];
    const { unit } = data.value;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    let chart = null, root = null, at = null, zoomed = null, view = 0, total = 0, upsideDown = false, width = 0;

    for (const swatch of element.querySelectorAll(".flame-swatch")) {
      const { kind, change } = swatch.dataset;
      swatch.style.background = kind ? colourOfKind(kind) : colourOfChange(Number(change));
    }

    function colour(d) {
      if (d.highlight) return colourOfKind("found");
      if (data.difference) return colourOfChange(changeOf(d.data));
      return d.depth ? colourOfKind(d.data.kind, d.data.n) : d3.color(SAME).formatHex();
    }

    function figures(d) {
      const node = d.data;
      if (!data.difference) return `${amount(node.v, unit)} · ${share(node.v, total)} of all`;
      const error = node.error === null ? "" : ` ± ${amount(node.error, unit)}`;
      const change = `${signed(node.after - node.before, unit)}${error}`;
      return `${change} · before ${amount(node.before, unit)}, after ${amount(node.after, unit)}`;
    }

    const where = (node) => [node.module, node.place].filter(Boolean).join(", ");
    const label = (d) => [d.data.full, where(d.data), figures(d)].filter(Boolean).join("\n");

    function tell(d) {
      details.replaceChildren();
      if (!d) {
        details.append(
          matchMedia("(hover: none)").matches
            ? "Tap a frame for its numbers and to zoom in, the one at the root to zoom out."
            : "Point at a frame for its numbers; click it to zoom in. With the keyboard: arrows, Enter, Esc, / to search.",
        );
        return;
      }
      const name = document.createElement("b");
      name.textContent = d.data.full;
      const more = document.createElement("span");
      more.textContent = [where(d.data), figures(d)].filter(Boolean).join(" · ");
      details.append(name, document.createElement("br"), more);
    }

    function mark() {
      d3.select(box).selectAll("g.frame").classed("at", (d) => d === at);
      whole.disabled = !zoomed || zoomed === root;
    }

    function look() {
      const term = search.value.trim();
      if (term) {
        chart.search(term);
      } else {
        chart.clear();
        found.textContent = "";
      }
      mark();
    }

    // A function within itself counts once.
    function count(results) {
      const hits = new Set(results);
      const inside = (d) => {
        for (let above = d.parent; above; above = above.parent) if (hits.has(above)) return true;
        return false;
      };
      const sum = results.reduce((sum, d) => sum + (inside(d) ? 0 : d.data.v), 0);
      found.textContent = results.length ? `${amount(sum, unit)}, ${share(sum, total)}` : "not found";
    }

    function draw() {
      width = Math.floor(box.clientWidth);
      if (width < 40) return; // not laid out yet: the observer calls again
      chart?.destroy();
      const tree = nested(data.views[view], data.names);
      total = tree.v;
      chart = flamegraph.default();
      chart.width(width).resetHeightOnZoom(true).cellHeight(CELL).minFrameSize(NARROWEST).inverted(!upsideDown)
        .transitionDuration(calm ? 0 : 250).setColorMapper(colour).setLabelHandler(label)
        .setDetailsHandler(() => undefined).onHover((d) => tell(d))
        .setSearchHandler((results) => count(results))
        .setSearchMatch((d, term) => d.depth > 0 && d.data.full.toLowerCase().includes(term.toLowerCase()))
        .onClick((d) => { at = zoomed = d; mark(); tell(d); });
      d3.select(box).datum(tree).call(chart);
      root = zoomed = d3.select(box).datum();
      at = null;
      const { note: text, leftOut } = data.views[view];
      note.textContent = `${data.value.title}; ${text}` + (leftOut ? `; ${leftOut.toLocaleString("en")} frames too narrow to see are left out` : "");
      look();
      tell(null);
      element.dataset.drawn = String(view);
    }

    function go(d) {
      at = d;
      mark();
      tell(d);
    }

    const visible = (d) => d.value > 0 && (d.x1 - d.x0) * width > NARROWEST;

    function beside(d, step) {
      const row = (d.parent?.children ?? [d]).filter(visible).sort((a, b) => a.x0 - b.x0);
      return row[row.indexOf(d) + step];
    }

    const widest = (d) => (d.children ?? []).filter(visible).sort((a, b) => b.value - a.value)[0];

    box.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const deeper = upsideDown ? "ArrowUp" : "ArrowDown", up = upsideDown ? "ArrowDown" : "ArrowUp";
      const now = at ?? zoomed;
      const next = {
        [deeper]: () => widest(now), [up]: () => now.parent,
        ArrowLeft: () => beside(now, -1), ArrowRight: () => beside(now, 1), Home: () => root,
      }[event.key];
      if (next) go(next() ?? now);
      else if (event.key === "Enter" || event.key === " ") chart.zoomTo(now);
      else if (event.key === "Escape") chart.resetZoom();
      else if (event.key === "/") search.focus();
      else return;
      event.preventDefault();
    });
    box.addEventListener("mouseleave", () => tell(at));
    search.addEventListener("input", look);
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { search.value = ""; look(); }
    });
    whole.addEventListener("click", () => chart.resetZoom());
    turn.addEventListener("click", () => {
      upsideDown = !upsideDown;
      turn.setAttribute("aria-pressed", String(upsideDown));
      draw();
    });
    for (const button of buttons) {
      button.addEventListener("click", () => {
        view = Number(button.dataset.view);
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        draw();
      });
    }
    new ResizeObserver(() => { if (Math.floor(box.clientWidth) !== width) draw(); }).observe(box);
    draw();
  }

  const all = () => document.querySelectorAll(".flame").forEach(start);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", all);
  else all();
})();
