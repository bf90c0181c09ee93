/* Charts, drawn by uPlot (a classic script: it is there before any module runs), and small lines. */
import { h } from "./elements.js";
import { seen } from "./history.js";
import { now, num } from "./words.js";

const charts = new Map(); // element → {plot, kind}
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function chartBox(id, about) {
  return h("div", { class: "chart", key: id, id, "data-keep": true, role: "img", "aria-label": about });
}

function axes(seconds) {
  const font = "12px system-ui, sans-serif";
  const common = {
    stroke: () => css("--soft"),
    font,
    grid: { stroke: () => css("--line"), width: 1 },
    ticks: { show: false },
  };
  return [
    {
      ...common,
      grid: { show: false },
      size: 26,
      space: seconds ? 90 : 64,
      incrs: seconds ? [5, 10, 15, 30, 60, 120, 300] : [300, 600, 900, 1800],
      values: (u, times) =>
        times.map((t) =>
          new Date(t * 1000).toLocaleTimeString([], {
            hour: "2-digit",
            minute: "2-digit",
            hour12: false,
            ...(seconds ? { second: "2-digit" } : {}),
          }),
        ),
    },
    {
      ...common,
      size: 46,
      space: 34,
      incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6],
      values: (u, values) => values.map((v) => (v >= 1000 ? num(v / 1000) + "k" : num(v))),
    },
  ];
}

function chart(id, data, series, range, seconds) {
  const box = document.getElementById(id);
  if (!box || !box.clientWidth) return;
  let known = charts.get(box);
  if (!known) {
    known = { range };
    known.plot = new uPlot(
      {
        width: box.clientWidth,
        height: 150,
        series: [{}, ...series],
        axes: axes(seconds),
        legend: { show: false },
        cursor: { show: false },
        padding: [8, 34, 0, 0],
        scales: {
          y: { range: (u, low, high) => [0, Math.max(4, Math.ceil((high || 0) * 1.1))] },
          x: { range: (u, low, high) => known.range(low, high) },
        },
      },
      data,
      box,
    );
    charts.set(box, known);
  } else {
    known.range = range;
    if (known.plot.width !== box.clientWidth) known.plot.setSize({ width: box.clientWidth, height: 150 });
    known.plot.setData(data);
  }
}

const series = (label, colour) => ({ label, stroke: () => colour(), width: 1.75, points: { show: false } });

/** Lines of what was sampled since the page was opened. series: [[name, colour(), value(point, index)], …] */
export function lineChart(id, what, wanted) {
  const list = seen(what);
  const end = Math.round(now() / 1000);
  chart(
    id,
    [list.map((p) => p.t), ...wanted.map(([, , value]) => list.map(value))],
    wanted.map(([name, colour]) => series(name, colour)),
    () => [Math.min(list.length ? list[0].t : end, end - 60), end],
    true,
  );
}

/** Bars, one over the other. times: seconds; wanted: [[name, css variable, values], …] */
export function barChart(id, times, wanted) {
  const paths = uPlot.paths.bars({ size: [0.8, 40], align: 1 });
  const bar = (label, colour) => ({
    label,
    paths,
    fill: () => css(colour),
    stroke: () => css(colour),
    width: 0,
    points: { show: false },
  });
  chart(
    id,
    [times, ...wanted.map(([, , values]) => values)],
    wanted.map(([name, colour]) => bar(name, colour)),
    (low, high) => [low, high + 60],
  );
}

/** Let go of the charts that are off the page. */
export function sweepCharts() {
  for (const [box, { plot }] of charts)
    if (!box.isConnected) {
      plot.destroy();
      charts.delete(box);
    }
}

/** In the colours of another theme. */
export function repaintCharts() {
  for (const [, { plot }] of charts) plot.redraw();
}

export function spark(list, field, label) {
  const points = (list || []).slice(-90);
  const top = Math.max(1, ...points.map((point) => point[field]));
  const step = 96 / Math.max(1, Math.min(89, Math.max(29, points.length - 1)));
  const from = 96 - step * (points.length - 1);
  const path = points
    .map(
      (point, i) =>
        `${i ? "L" : "M"}${(from + i * step).toFixed(1)} ${(20 - (18 * point[field]) / top).toFixed(1)}`,
    )
    .join("");
  return h(
    "svg",
    { class: "spark", viewBox: "0 0 96 22", role: "img", "aria-label": label },
    h("line", { x1: 0, y1: 21, x2: 96, y2: 21, stroke: "var(--line)" }),
    points.length > 1 && h("path", { d: path, fill: "none", stroke: "var(--amber)", "stroke-width": 1.5 }),
  );
}
