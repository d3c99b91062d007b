// One small chart, drawn by uPlot. Colours come from the style sheet, so that the chart follows the colour scheme.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { unitName, withUnit, type Unit } from "./format.js";
import type { Panel } from "./parts.js";
import { summary } from "./series.js";

const HEIGHT_PX = 104;
const AXIS_PX = 52;
/** Names of the colours of a chart's lines: the first line has the first colour. */
const COLOURS = ["--line-1", "--line-2", "--line-3", "--line-4"];
const DASHES: number[][] = [[], [], [4, 3], [1, 3]];

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Returns a mark of the time axis, such as the minutes before the newest sample. */
function timeLabel(seconds: number): string {
  if (seconds === 0) return "now";
  return Number.isInteger(seconds / 60) ? `−${-seconds / 60} min` : `−${-seconds} s`;
}

/** Returns a mark of the value axis, in the shortest form. */
function valueLabel(value: number, unit: Unit): string {
  const text = withUnit(value, unit).replace("/s", "");
  return text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");
}

/** Chart of one panel, with its legend. */
export class Chart {
  readonly element: HTMLElement;
  private readonly legend: HTMLElement;
  private readonly plot: HTMLElement;
  private readonly values: HTMLElement[] = [];
  private chart: uPlot | null = null;
  private shape = "";
  private panel: Panel;
  private at_s: number[] = [];

  constructor(panel: Panel) {
    this.panel = panel;
    this.element = document.createElement("figure");
    this.element.className = "panel";
    const title = document.createElement("figcaption");
    title.textContent = panel.title;
    this.legend = document.createElement("p");
    this.legend.className = "legend";
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.plot.setAttribute("role", "img");
    this.element.append(title, this.legend, this.plot);
  }

  /** Shows the values of `panel` at `at_s`, seconds before the newest sample, over the last `range_s`. */
  update(panel: Panel, at_s: number[], range_s: number): void {
    this.panel = panel;
    this.at_s = at_s;
    const shape = [...panel.lines.map((line) => line.label), panel.unit, range_s, this.plot.clientWidth > 0].join("\n");
    if (shape !== this.shape) {
      this.shape = shape;
      this.rebuild(range_s);
    }
    this.chart?.setData([at_s, ...panel.lines.map((line) => line.values)]);
    this.showValues(null);
    this.plot.setAttribute("aria-label", this.description(range_s));
  }

  /** Draws the chart again with the current colours and width. */
  redraw(range_s: number): void {
    this.rebuild(range_s);
    this.chart?.setData([this.at_s, ...this.panel.lines.map((line) => line.values)]);
  }

  /** Fits the chart to the width of its panel. */
  resize(): void {
    const width = this.plot.clientWidth;
    if (this.chart && width > 0 && width !== this.chart.width) this.chart.setSize({ width, height: HEIGHT_PX });
  }

  private description(range_s: number): string {
    const lines = this.panel.lines.map((line) => {
      const of = summary(line.values);
      const text = (value: number | null) => withUnit(value, this.panel.unit);
      return `${line.label}: now ${text(of.now)}, lowest ${text(of.lowest)}, highest ${text(of.highest)}`;
    });
    const range = range_s >= 120 ? `${range_s / 60} minutes` : `${range_s} seconds`;
    return `${this.panel.title}, ${unitName(this.panel.unit)}, last ${range}. ${lines.join("; ")}.`;
  }

  /** Shows in the legend the values of the sample with the index `at`, or the last values if `at` is null. */
  private showValues(at: number | null): void {
    this.panel.lines.forEach((line, i) => {
      const value = at === null ? line.values.at(-1) : line.values[at];
      const shown = this.values[i];
      const text = withUnit(value ?? null, this.panel.unit);
      if (shown && shown.textContent !== text) shown.textContent = text;
    });
  }

  private rebuild(range_s: number): void {
    this.chart?.destroy();
    this.buildLegend();
    const width = this.plot.clientWidth;
    this.chart = width > 0 ? new uPlot(this.options(width, range_s), [[]], this.plot) : null;
  }

  private buildLegend(): void {
    this.legend.replaceChildren();
    this.values.length = 0;
    this.panel.lines.forEach((line, i) => {
      const item = document.createElement("span");
      const mark = document.createElement("i");
      mark.className = `mark mark-${Math.min(i, 3) + 1}`;
      const value = document.createElement("b");
      item.append(mark, `${line.label} `, value);
      this.values.push(value);
      this.legend.append(item);
    });
  }

  private options(width: number, range_s: number): uPlot.Options {
    const { unit, lines, max, isLevel } = this.panel;
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const ink = colour("--ink-quiet");
    const grid = { stroke: colour("--rule"), width: 1 };
    return {
      width,
      height: HEIGHT_PX,
      pxAlign: true,
      padding: [6, 18, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 5 }, sync: { key: "all" } },
      scales: {
        x: { time: false, range: () => [-range_s, 0] },
        // The axis begins at 0, so that areas can be compared. For levels such as the height of a chain it does not.
        y: { range: (_, lowest, highest) => (isLevel ? around(lowest, highest) : [0, max ?? upperEnd(highest)]) },
      },
      axes: [
        {
          stroke: ink,
          font,
          size: 20,
          gap: 4,
          grid: { show: false },
          ticks: { show: false },
          splits: () => (range_s > 60 ? [0, 1, 2, 3, 4, 5].map((minute) => -60 * minute) : [-60, -40, -20, 0]),
          values: (_, marks) => marks.map((mark, i) => (i % 2 === 0 || range_s <= 60 ? timeLabel(mark) : "")),
        },
        {
          stroke: ink,
          font,
          size: AXIS_PX,
          gap: 4,
          grid,
          ticks: { show: false },
          space: 34,
          values: (_, marks) => marks.map((mark) => valueLabel(mark, unit)),
        },
      ],
      series: [
        {},
        ...lines.map((line, i) => ({
          label: line.label,
          stroke: colour(COLOURS[Math.min(i, COLOURS.length - 1)] ?? "--line-1"),
          width: i === 0 ? 1.75 : 1.25,
          dash: DASHES[Math.min(i, DASHES.length - 1)] ?? [],
          ...(i === 0 ? { fill: colour("--line-1-area") } : {}),
          points: { show: false },
          spanGaps: false,
        })),
      ],
      hooks: { setCursor: [(chart) => this.showValues(chart.cursor.idx ?? null)] },
    };
  }
}

/** Returns an upper end of the axis that leaves some space above the highest value. */
function upperEnd(highest: number | null): number {
  return highest === null || highest <= 0 ? 1 : highest * 1.15;
}

/** Returns an axis of whole numbers around a level that changes only a little. */
function around(lowest: number | null, highest: number | null): [number, number] {
  if (lowest === null || highest === null) return [0, 1];
  const room = Math.max(2, Math.ceil((highest - lowest) * 0.15));
  return [Math.max(0, Math.floor(lowest) - room), Math.ceil(highest) + room];
}
