// The dashboard page: receives the console's events and shows them.

import "./style.css";
import { connectionView } from "./connection.js";
import { pageView, type PageView } from "./model.js";
import type { HistoryEvent, SampleEvent } from "./protocol.js";
import { History } from "./series.js";
import { element, marked, ServiceSection, setText } from "./view.js";

/** Time after which the page opens a closed stream again. */
const RETRY_MS = 3000;

function byId(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

class Page {
  private readonly sections = new Map<string, ServiceSection>();
  private readonly main = byId("services");
  private readonly links = byId("links");
  private history: History | null = null;
  private range_s = 300;
  private isPaused = false;
  private lastEvent_ms: number | null = null;
  private couldRead = true;
  private isBroken = false;

  start(): void {
    for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-range]")) {
      button.addEventListener("click", () => this.setRange(Number(button.dataset["range"])));
    }
    byId("pause").addEventListener("click", () => this.setPaused(!this.isPaused));
    window.addEventListener("resize", () => this.sections.forEach((section) => section.resize()));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    document.addEventListener("visibilitychange", () => this.show());
    setInterval(() => this.showConnection(), 1000);
    this.connect();
  }

  private connect(): void {
    const events = new EventSource("events");
    events.addEventListener("history", (event: MessageEvent<string>) => {
      this.history = new History(JSON.parse(event.data) as HistoryEvent);
      this.received(this.history.status !== null);
    });
    events.addEventListener("sample", (event: MessageEvent<string>) => {
      const sample = JSON.parse(event.data) as SampleEvent;
      this.history?.add(sample);
      this.received(sample.status !== null);
    });
    events.addEventListener("error", () => {
      this.isBroken = true;
      this.showConnection();
      // If the console refuses the stream because its limit is reached, the browser closes the stream for good. If the
      // connection breaks, the browser itself connects again.
      if (events.readyState === EventSource.CLOSED) setTimeout(() => this.connect(), RETRY_MS);
    });
  }

  private received(couldRead: boolean): void {
    this.lastEvent_ms = Date.now();
    this.couldRead = couldRead;
    this.isBroken = false;
    this.show();
  }

  private setRange(range_s: number): void {
    this.range_s = range_s;
    for (const button of document.querySelectorAll<HTMLButtonElement>("button[data-range]")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset["range"]) === range_s));
    }
    this.show(true);
  }

  private setPaused(isPaused: boolean): void {
    this.isPaused = isPaused;
    byId("pause").setAttribute("aria-pressed", String(isPaused));
    this.show();
  }

  private redraw(): void {
    this.sections.forEach((section) => section.redraw(this.range_s));
  }

  /** Shows the history. While the page is paused or hidden, it does so only if `isForced` is true. */
  private show(isForced = false): void {
    const isLost = this.showConnection();
    if (!this.history || document.hidden || (this.isPaused && !isForced)) return;
    const window = this.history.window(this.range_s);
    const view = pageView(this.history, window);
    if (!view) return;
    const newest = window.at_ms.at(-1) ?? 0;
    const at_s = window.at_ms.map((at_ms) => (at_ms - newest) / 1000);
    if (!isLost) this.showHead(view);
    this.showServices(view, at_s);
  }

  private showHead(view: PageView): void {
    setText(byId("about"), `version ${view.version} · up ${view.uptime}`);
    const state = byId("state");
    state.className = view.problems.length > 0 ? "bad" : "good";
    setText(state, view.problems.length > 0 ? "Not healthy" : "Healthy");
    const messages = [
      ...view.problems.map((text) => ["problem", text] as const),
      ...view.warnings.map((text) => ["warning", text] as const),
    ];
    const list = byId("messages");
    const key = JSON.stringify(messages);
    if (list.dataset["shown"] === key) return;
    list.dataset["shown"] = key;
    list.hidden = messages.length === 0;
    list.replaceChildren(
      ...messages.map(([kind, text]) =>
        element("li", kind, element("strong", "", kind === "problem" ? "Problem: " : "Warning: "), ...marked(text)),
      ),
    );
  }

  private showServices(view: PageView, at_s: number[]): void {
    const ids = new Set(view.services.map((service) => service.id));
    for (const [id, section] of this.sections) {
      if (ids.has(id)) continue;
      section.element.remove();
      this.links.querySelector(`a[href="#${id}"]`)?.remove();
      this.sections.delete(id);
    }
    for (const service of view.services) {
      let section = this.sections.get(service.id);
      if (!section) {
        section = new ServiceSection(service);
        this.sections.set(service.id, section);
        this.main.append(section.element);
        const link = element("a", "", service.title);
        link.href = `#${service.id}`;
        this.links.append(link);
      }
      section.update(service, at_s, this.range_s);
    }
    setText(byId("empty"), view.services.length === 0 ? "No service runs in this process." : "");
  }

  /**
   * Shows the state of the connection. Returns true if the connection is lost; the state of the process is then
   * unknown.
   */
  private showConnection(): boolean {
    const { isPaused, couldRead, isBroken, lastEvent_ms } = this;
    const view = connectionView({ isPaused, couldRead, isBroken, lastEvent_ms }, Date.now());
    const connection = byId("connection");
    setText(connection, view.text);
    connection.className = view.isBad ? "bad" : "";
    document.body.classList.toggle("lost", view.isLost);
    if (view.isLost) {
      // The process may have sent the last event while it was stopping, when leases had just ended, so the state is
      // hidden.
      setText(byId("state"), "");
      byId("messages").hidden = true;
      byId("messages").dataset["shown"] = "";
    }
    return view.isLost;
  }
}

new Page().start();
