// Shows the content of the page. Elements are created once and changed afterwards, so that focus and selection remain.

import { Chart } from "./chart.js";
import { plain, textParts } from "./format.js";
import type { Figure, ServiceView, Table } from "./parts.js";

/** Creates an element with a class and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  className = "",
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (className !== "") made.className = className;
  made.append(...children);
  return made;
}

/** Sets the text of an element if it differs. */
export function setText(of: Element, text: string): void {
  if (of.textContent !== text) of.textContent = text;
}

/** Returns the nodes of a text from the server; code is an element `code`. */
export function marked(text: string): (Node | string)[] {
  return textParts(text).map((part) => (part.isCode ? element("code", "", part.text) : part.text));
}

/** Shows a text from the server in an element if the element shows another one. */
function setMarked(of: Element, text: string): void {
  if (of.textContent !== plain(text)) of.replaceChildren(...marked(text));
}

/** Table of figures: label above value. */
class Figures {
  readonly element = element("dl", "figures");
  private labels = "";

  update(figures: Figure[]): void {
    const labels = figures.map((one) => one.label).join("\n");
    if (labels !== this.labels) {
      this.labels = labels;
      this.element.replaceChildren(
        ...figures.map((one) => element("div", "", element("dt", "", one.label), element("dd"))),
      );
    }
    figures.forEach((one, i) => {
      const value = this.element.children[i]?.querySelector("dd");
      if (!value) return;
      setMarked(value, one.value);
      value.className = one.isBad ? "bad" : "";
      value.title = plain(one.detail ?? "");
    });
  }
}

/** A table whose cells are changed in place. */
class TableView {
  readonly element: HTMLElement;
  private readonly body = element("tbody");
  private readonly isNumber: boolean[];
  private readonly headings: string[];

  constructor(table: Table) {
    this.isNumber = table.head.map((head) => head.startsWith("#"));
    this.headings = table.head.map((head) => head.replace(/^#/, ""));
    const head = element("tr");
    this.headings.forEach((text, i) => {
      const cell = element("th", this.isNumber[i] ? "number" : "", text);
      cell.scope = "col";
      head.append(cell);
    });
    const caption = element("caption", "", table.caption);
    const inner = element("table", "", caption, element("thead", "", head), this.body);
    // A wide table scrolls inside its own box; the box takes the focus, so that the keyboard can scroll it. On a narrow
    // screen a row is a paragraph instead, in which each number has the heading of its column.
    const box = element("div", "scroll", inner);
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", table.caption);
    if (table.isFolded) {
      caption.className = "hidden";
      this.element = element("details", "", element("summary", "", table.caption), box);
    } else {
      this.element = box;
    }
  }

  update(table: Table): void {
    const isClosed = this.element instanceof HTMLDetailsElement && !this.element.open;
    // A closed table is not updated. It is filled when the user opens it.
    if (isClosed && this.body.rows.length > 0) return;
    while (this.body.rows.length > table.rows.length) this.body.deleteRow(-1);
    table.rows.forEach((cells, i) => {
      const row = this.body.rows[i] ?? this.body.insertRow();
      cells.forEach((text, column) => {
        const cell = row.cells[column] ?? this.cell(row, column);
        setMarked(cell, text);
      });
    });
  }

  private cell(row: HTMLTableRowElement, column: number): HTMLTableCellElement {
    const cell = element(column === 0 ? "th" : "td", this.isNumber[column] ? "number" : "");
    if (column === 0) cell.scope = "row";
    if (this.isNumber[column]) cell.dataset["heading"] = this.headings[column] ?? "";
    row.append(cell);
    return cell;
  }
}

/** Section of one service. */
export class ServiceSection {
  readonly element: HTMLElement;
  private readonly where = element("p", "where");
  private readonly figures = new Figures();
  private readonly grid = element("div", "grid");
  private readonly tablesBox = element("div", "tables");
  private readonly charts = new Map<string, Chart>();
  private readonly tables = new Map<string, TableView>();

  constructor(view: ServiceView) {
    const heading = element("h2", "", view.title);
    heading.id = `${view.id}-heading`;
    const head = element("header", "", heading, element("p", "purpose", view.purpose), this.where);
    this.element = element("section", "service", head, this.figures.element, this.grid, this.tablesBox);
    this.element.id = view.id;
    this.element.tabIndex = -1;
    this.element.setAttribute("aria-labelledby", heading.id);
  }

  update(view: ServiceView, at_s: number[], range_s: number): void {
    setText(this.where, view.where);
    this.figures.update(view.figures);
    for (const panel of view.panels) {
      let chart = this.charts.get(panel.id);
      if (!chart) {
        chart = new Chart(panel);
        this.charts.set(panel.id, chart);
        this.grid.append(chart.element);
      }
      chart.update(panel, at_s, range_s);
    }
    for (const table of view.tables) {
      let shown = this.tables.get(table.id);
      if (!shown) {
        const made = new TableView(table);
        shown = made;
        this.tables.set(table.id, made);
        this.tablesBox.append(made.element);
        made.element.addEventListener("toggle", () => this.onOpen(table.id));
      }
      shown.update(table);
    }
    this.latest = view;
  }

  private latest: ServiceView | null = null;

  private onOpen(id: string): void {
    const table = this.latest?.tables.find((one) => one.id === id);
    if (table) this.tables.get(id)?.update(table);
  }

  resize(): void {
    for (const chart of this.charts.values()) chart.resize();
  }

  redraw(range_s: number): void {
    for (const chart of this.charts.values()) chart.redraw(range_s);
  }
}
