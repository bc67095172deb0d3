// Lines over time, by uPlot, which is loaded with the first plot: most visits need none.

import { html, useEffect, useRef } from "./vendor/htm-preact.js";
import { clock } from "./words.js";

let loading = null;

function loadPlots() {
  loading ??= new Promise((resolve, reject) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/page/vendor/uPlot.min.css" });
    const script = Object.assign(document.createElement("script"), { src: "/page/vendor/uPlot.iife.min.js" });
    script.addEventListener("load", () => resolve(globalThis.uPlot));
    script.addEventListener("error", () => reject(new Error("the plots could not be loaded")));
    document.head.append(style, script);
  });
  return loading;
}

const day = (at) => new Date(at * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" });

/** The times under a plot; at midnight, and where the steps are days, the day. */
const times = (_, values, __, ___, step) => values.map((at) => (step >= 86400 || clock(at) === "00:00" ? day(at) : clock(at)));

/** A colour of the theme, as a canvas takes it. */
function colour(name) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** The lines of one figure: its median in full and, where there is one, its 95th percentile faint. Later targets of a tier are dashed. */
function describe(lines) {
  return lines.map(({ label, tier, order, isFaint }) => ({
    label,
    stroke: colour(tier),
    width: isFaint ? 1 : 2,
    alpha: isFaint ? 0.5 : 1,
    dash: isFaint ? [2, 3] : order ? [8, 4] : undefined,
    spanGaps: false,
    points: { show: true, size: 3, fill: colour(tier) },
  }));
}

function draw(uPlot, place, { at, lines, format, span }) {
  const axis = { stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  const end = at.length ? at[at.length - 1] : Date.now() / 1000;
  return new uPlot(
    {
      width: place.clientWidth,
      height: 200,
      legend: { show: false },
      cursor: { y: false, points: { size: 6 } },
      scales: { x: { range: [at[0] ?? end - span, end] }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 70, size: 30, values: times }, { ...axis, size: 56, values: (_, values) => values.map(format) }],
      series: [{}, ...describe(lines)],
      hooks: { setCursor: [(plot) => tell(plot, place, lines, at, format)] },
    },
    [at, ...lines.map((line) => line.values)],
    place,
  );
}

/** What the lines say at the cursor, in words under the plot. */
function tell(plot, place, lines, at, format) {
  const index = plot.cursor.idx;
  const told = place.nextElementSibling;
  if (index == null || !told) return;
  const values = lines.filter((line) => line.values[index] != null).map((line) => `${line.label} ${format(line.values[index])}`);
  told.textContent = `${day(at[index])} ${clock(at[index])}: ${values.join(", ") || "no calls"}`;
}

export function Plot({ name, title, at, lines, format, span }) {
  const ref = useRef(null);
  useEffect(() => {
    let plot = null;
    let isOver = false;
    const redraw = async () => {
      const uPlot = await loadPlots();
      if (isOver || !ref.current) return;
      plot?.destroy();
      plot = draw(uPlot, ref.current, { at, lines, format, span });
    };
    redraw();
    const watch = new ResizeObserver(([entry]) => plot?.setSize({ width: entry.contentRect.width, height: 200 }));
    watch.observe(ref.current);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("themechange", redraw);
    scheme.addEventListener("change", redraw);
    return () => {
      isOver = true;
      watch.disconnect();
      removeEventListener("themechange", redraw);
      scheme.removeEventListener("change", redraw);
      plot?.destroy();
    };
  }, [at, lines]);
  const last = lines.map((line) => `${line.label} ${format(line.values.findLast((value) => value != null) ?? null)}`).join(", ");
  return html`
    <figure class="plot" data-plot=${name}>
      <figcaption>${title}</figcaption>
      <div ref=${ref} class="canvas" role="img" aria-label=${`${title}, latest: ${last}`}></div>
      <p class="told muted number" aria-hidden="true">${" "}</p>
    </figure>`;
}
