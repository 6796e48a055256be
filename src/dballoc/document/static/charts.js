// Draws the charts in the theme that the reader's system has, and again when that or the width changes.
const page = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");

const boxes = [...document.querySelectorAll(".chart")];
const columns = (box) => Math.max(1, Math.floor(box.clientWidth / page.legendEntry));
const wanted = () => `${dark.matches} ${boxes.map(columns)}`;

async function draw() {
  const now = wanted();
  if (document.documentElement.dataset.drawn === now) return;
  const name = dark.matches ? "dark" : "light";
  document.documentElement.dataset.charts = name;
  for (const box of boxes) {
    const config = structuredClone(page.themes[name]);
    config.legend.columns = columns(box);
    const figure = structuredClone(page.figures[box.dataset.key]);
    await vegaEmbed(box, figure, {
      mode: figure.marks ? "vega" : "vega-lite", renderer: "svg", config, tooltip: { theme: name }, downloadFileName: box.dataset.key,
      actions: { export: true, source: false, compiled: false, editor: false },
    });
  }
  document.documentElement.dataset.drawn = now;
}

let last = Promise.resolve();
const redraw = () => { last = last.then(draw); };
addEventListener("resize", redraw);
dark.addEventListener("change", redraw);
redraw();
